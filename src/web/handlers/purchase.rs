//! A click on "buy", from a program and from a form.

use std::net::IpAddr;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use crate::domain::admission::Refusal;
use crate::domain::ids::VoucherId;
use crate::service::purchase::Answer;
use crate::web::captcha::{self, Shown};
use crate::web::error::Problem;
use crate::web::extract::{ClientAddress, Frame, LoggedIn, PathId, Who};
use crate::web::fields::FormFields;
use crate::web::handlers::front;
use crate::web::limits::{Bucket, Client};
use crate::web::own_path::login_address;
use crate::web::page::Alert;
use crate::web::reply;
use crate::web::session::SessionUser;
use crate::web::state::AppState;

/// Who clicks, and where from.
type Clicker<'u> = (&'u SessionUser, IpAddr);

async fn ask(state: &AppState, (user, from): Clicker<'_>, voucher: VoucherId, shown: Option<&Shown>) -> Result<Answer, Problem> {
    state.limits.count(Bucket::Purchase, Client::User(user.id))?;
    if let Some(held) = captcha::pass(state, (user.id, from), voucher, shown).await? {
        return Ok(held);
    }
    let changes = state.hub.changes_of(user.id);
    let answer = state.purchase.buy(user.id, voucher).await?;
    // His open tabs follow the order from here; a socket that comes later finds it in its snapshot.
    if let (Some(changes), Answer::Admitted { order, position, .. }) = (changes, &answer)
        && let Some(queued) = state.orders.just_admitted(*order, user.id, voucher)
    {
        state.hub.queue(user.id, changes, vec![(queued, *position)]);
    }
    Ok(answer)
}

/// A program's click, past all checks: see `hot.rs`.
pub async fn buy(state: &AppState, who: Clicker<'_>, voucher: VoucherId, shown: Option<&Shown>) -> Result<Response, Problem> {
    match ask(state, who, voucher, shown).await? {
        Answer::Admitted { order, ticket, .. } => Ok(reply::ok_with_ticket(order, ticket)),
        Answer::Held { order, ticket } => Err(Problem::Duplicate { order, ticket }),
        Answer::Refused { why, begin } => Err(Problem::Refused { why, begin, now: state.clock.now() }),
    }
}

/// `POST /vouchers/{id}/buy`: the same without JavaScript. Who holds a unit already is led to his order.
pub async fn buy_form(
    State(state): State<AppState>,
    Who(visitor): Who,
    PathId(voucher): PathId<VoucherId>,
    ClientAddress(from): ClientAddress,
    Frame(chrome): Frame,
    FormFields(fields): FormFields,
) -> Result<Response, Problem> {
    let user = match LoggedIn::of(visitor.clone()) {
        Ok(LoggedIn(user)) => user,
        Err(Problem::LoginRequired) => {
            // Back to the page with the button: a post cannot be come back to.
            let shop = state.sales.one(voucher).await?.ok_or(Problem::NotFound)?.voucher.fields.shop;
            return Ok(Redirect::to(&login_address(&format!("/shop/{shop}"))).into_response());
        }
        Err(problem) => return Err(problem),
    };
    let problem = match ask(&state, (&user, from), voucher, Shown::in_form(&fields).as_ref()).await {
        Ok(Answer::Admitted { order, .. } | Answer::Held { order, .. }) => {
            return Ok(Redirect::to(&format!("/orders/{order}")).into_response());
        }
        Ok(Answer::Refused { why, begin }) => Problem::Refused { why, begin, now: state.clock.now() },
        Err(Problem::NotFound) => return Err(Problem::NotFound),
        Err(problem) => problem,
    };
    let begin = match &problem {
        Problem::Refused { why: Refusal::NotBegun, begin, .. } => Some(*begin),
        _ => None,
    };
    let (_, code) = problem.status_and_code();
    let asked = match &problem {
        Problem::CaptchaRequired(asked) => Some((asked.id.clone(), asked.question())),
        _ => None,
    };
    let alert = Alert { voucher, code, begin, seconds: problem.retry_after(), asked };
    // Where the page cannot be made (the database is away) the problem itself is the better answer.
    let Ok(Some(listed)) = state.sales.one(voucher).await else { return Err(problem) };
    front::shop_page(&state, chrome, &visitor, listed.voucher.fields.shop, Some((&alert, &problem))).await
}
