//! The lists behind the numbers of the control room, and the two of them in which something is done: dead letters, users.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::domain::user::Phone;
use crate::domain::voucher::Voucher;
use crate::service::dead_letters::{LetterError, Prospect};
use crate::store::{BuriedLetter, LetterState, OrderFilter};
use crate::web::error::Problem;
use crate::web::extract::{Admin, Frame, PathId};
use crate::web::fields::{Fields, QueryFields};
use crate::web::handlers::admin_lists::order_filter;
use crate::web::page::{Chrome, DiscardPage, LettersPage, ListPage, ReportPage, Said, UsersPage};
use crate::web::state::AppState;

/// Lines of a page.
const LINES: u32 = 50;

async fn of_sale(state: &AppState, id: VoucherId) -> Result<Voucher, Problem> {
    state.store.voucher(id).await?.filter(|v| v.sale.is_some()).ok_or(Problem::NotFound)
}

fn cursor(query: &Fields) -> Result<Option<i64>, Problem> {
    match query.typed("cursor") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Problem::Malformed),
    }
}

/// How a list of orders is narrowed, and the same as it stands in an address.
fn narrowed(query: &Fields) -> Result<(OrderFilter, String), Problem> {
    let filter = order_filter(query)?;
    let pairs = [
        filter.status.map(|s| format!("status={}", s.as_str())),
        filter.reason.map(|r| format!("closeReason={}", r.as_str())),
        filter.live.map(|live| format!("live={}", u8::from(live))),
    ];
    let pairs: Vec<String> = pairs.into_iter().flatten().collect();
    let text = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
    Ok((filter, text))
}

/// `/admin/vouchers/{id}/orders`
pub async fn orders(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let voucher = of_sale(&state, id).await?;
    let (filter, text) = narrowed(&query)?;
    let page = state.desk.orders_of_voucher(id, filter, cursor(&query)?.map(OrderId), LINES).await?;
    let next = page.next.map(|id| id.to_string());
    Ok(ListPage::orders(chrome, &voucher, &page.items, &text, next).into_response())
}

/// `/admin/vouchers/{id}/refusals`
pub async fn refusals(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let voucher = of_sale(&state, id).await?;
    let figures = state.desk.figures.now(id).await?.ok_or(Problem::NotFound)?;
    Ok(ListPage::refusals(chrome, &voucher, &figures).into_response())
}

/// `/admin/vouchers/{id}/stock`
pub async fn stock(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let voucher = of_sale(&state, id).await?;
    let before = cursor(&query)?;
    let figures = if before.is_none() { state.desk.figures.now(id).await? } else { None };
    let log = state.desk.stock_log(id, before, LINES).await?;
    Ok(ListPage::stock(chrome, &voucher, figures.as_deref(), &log.items, log.next).into_response())
}

/// `/admin/outbox`: what waits; `?all=1`: what was done, too; `?voucherId=`: what waits for one sale.
pub async fn outbox(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let of = match query.typed("voucherId") {
        "" => None,
        text => Some(text.parse::<VoucherId>().map_err(|_| Problem::Malformed)?),
    };
    let all = query.typed("all") == "1";
    let lines = state.desk.outbox(!all, of, cursor(&query)?, LINES).await?;
    Ok(ListPage::outbox(chrome, &lines.items, all, of.map(|id| id.0), lines.next).into_response())
}

/// `/admin/audit-log`
pub async fn audit_log(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let lines = state.desk.audit_log(cursor(&query)?, LINES).await?;
    Ok(ListPage::audit_log(chrome, &lines.items, lines.next).into_response())
}

/// `/admin/reports/{id}`
pub async fn report(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let report = state.desk.reports.of(id).await?.ok_or(Problem::NotFound)?;
    Ok(ReportPage::new(chrome, &report).into_response())
}

/// What would a decision do? Asked only of what is not decided yet.
async fn decidable(state: &AppState, letter: BuriedLetter) -> Result<(BuriedLetter, Prospect), Problem> {
    let prospect = match letter.state {
        LetterState::Open => state.desk.letters.prospect(&letter).await?,
        _ => Prospect::Unreadable,
    };
    Ok((letter, prospect))
}

async fn letters_page(state: &AppState, chrome: Chrome, before: Option<i64>, said: Said) -> Result<LettersPage, Problem> {
    let lines = state.desk.dead_letters(before, LINES).await?;
    let waiting = state.store.open_dead_letter_count().await?;
    let mut letters = Vec::with_capacity(lines.items.len());
    for letter in lines.items {
        letters.push(decidable(state, letter).await?);
    }
    Ok(LettersPage::new(chrome, &letters, waiting, lines.next, said))
}

/// `/admin/dead-letters`
pub async fn letters(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let said = Said::of(&chrome, query.typed("done"));
    Ok(letters_page(&state, chrome, cursor(&query)?, said).await?.into_response())
}

async fn decided(
    state: &AppState,
    chrome: Chrome,
    word: &str,
    done: Result<BuriedLetter, LetterError>,
) -> Result<Response, Problem> {
    let Err(error) = done else {
        return Ok(Redirect::to(&format!("/admin/dead-letters?done={word}")).into_response());
    };
    let chrome = Chrome { path: String::from("/admin/dead-letters"), ..chrome };
    let page = async || letters_page(state, chrome, None, Said::default()).await;
    match error {
        LetterError::NotFound => Err(Problem::NotFound),
        LetterError::Decided(_) => Ok(page().await?.decided().into_response()),
        LetterError::Stuck(_, why) => Ok(page().await?.stuck(&why).into_response()),
        LetterError::Service(error) => match Problem::from(error) {
            problem @ (Problem::Busy(_) | Problem::Uncertain) => {
                let ((_, code), status, wait) = (problem.status_and_code(), problem.page_status(), problem.retry_after());
                Ok(page().await?.refused(status, code, wait).into_response())
            }
            problem => Err(problem),
        },
    }
}

/// `POST /admin/dead-letters/{id}/retry`
pub async fn retry(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(OrderId(id)): PathId<OrderId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let done = state.desk.letters.retry(by.id, id).await;
    decided(&state, chrome, "retry", done).await
}

/// `GET /admin/dead-letters/{id}/discard`: asks once more.
pub async fn discard_page(
    State(state): State<AppState>,
    _: Admin,
    PathId(OrderId(id)): PathId<OrderId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let letter = state.store.dead_letter(id).await?.ok_or(Problem::NotFound)?;
    Ok(DiscardPage::new(chrome, &decidable(&state, letter).await?).into_response())
}

/// `POST /admin/dead-letters/{id}/discard`
pub async fn discard(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(OrderId(id)): PathId<OrderId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let done = state.desk.letters.discard(by.id, id).await;
    decided(&state, chrome, "discard", done).await
}

/// `/admin/users`; `?q=`: a number or a phone.
pub async fn users(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let asked = query.typed("q").trim();
    let found = match (Phone::parse(asked), asked.parse::<UserId>()) {
        (Ok(phone), _) => state.store.user_by_phone(&phone).await?.map(|known| known.user),
        (Err(_), Ok(id)) => state.users.by_id(id).await?,
        _ => None,
    };
    let said = Said::of(&chrome, query.typed("done"));
    Ok(UsersPage::new(chrome, asked, found.as_ref(), said).into_response())
}

/// `POST /admin/users/{id}/disable`: no new session first, then the old ones end.
pub async fn disable(State(state): State<AppState>, Admin(by): Admin, PathId(id): PathId<UserId>) -> Result<Response, Problem> {
    if !state.users.set_disabled(id, true, by.id).await? {
        return Err(Problem::NotFound);
    }
    state.sessions.end_all(id, None).await?;
    Ok(Redirect::to(&format!("/admin/users?q={id}&done=disable")).into_response())
}

/// `POST /admin/users/{id}/enable`
pub async fn enable(State(state): State<AppState>, Admin(by): Admin, PathId(id): PathId<UserId>) -> Result<Response, Problem> {
    if !state.users.set_disabled(id, false, by.id).await? {
        return Err(Problem::NotFound);
    }
    Ok(Redirect::to(&format!("/admin/users?q={id}&done=enable")).into_response())
}

/// `POST /admin/users/{id}/logout`
pub async fn logout(State(state): State<AppState>, Admin(by): Admin, PathId(id): PathId<UserId>) -> Result<Response, Problem> {
    state.users.by_id(id).await?.ok_or(Problem::NotFound)?;
    state.users.log_sessions_ended(id, by.id).await?;
    state.sessions.end_all(id, None).await?;
    Ok(Redirect::to(&format!("/admin/users?q={id}&done=logout")).into_response())
}
