//! `/api/admin/dead-letter`, `/outbox`, `/audit-log`, and the orders behind a sale's numbers: lists, newest first.

use axum::extract::State;
use axum::response::Response;
use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;
use serde_json::{Value, json};

use crate::domain::ids::{OrderId, VoucherId};
use crate::domain::order::{CloseReason, Status};
use crate::domain::time::Millis;
use crate::push::order_json::OrderJson;
use crate::service::dead_letters::LetterError;
use crate::service::desk::Lines;
use crate::service::place_orders::buried_entry;
use crate::store::{AuditLine, BuriedLetter, OrderFilter, OutboxLine};
use crate::web::error::Problem;
use crate::web::extract::{Admin, PathId};
use crate::web::fields::{Fields, OptionalJson, QueryFields};
use crate::web::reply;
use crate::web::state::AppState;

/// `?limit=`, 1–100 (20).
pub(super) fn limit(fields: &mut Fields) -> Result<u32, Problem> {
    let limit = fields.integer("limit").unwrap_or(20);
    let limit = u32::try_from(limit).ok().filter(|n| (1..=100).contains(n) && fields.errors.is_empty());
    limit.ok_or(Problem::Malformed)
}

/// `?cursor=` of a list whose lines have numbers; none: from the newest.
pub(super) fn read_cursor(fields: &Fields) -> Result<Option<i64>, Problem> {
    let text = fields.text("cursor")?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| Problem::Malformed)?;
    // The form of every id: whole, above zero, without sign or leading zero.
    let id = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<OrderId>().ok());
    id.map(|id| Some(id.0)).ok_or(Problem::Malformed)
}

/// What goes back as `?cursor=`.
pub(super) fn cursor(before: i64) -> String {
    BASE64URL_NOPAD.encode(before.to_string().as_bytes())
}

#[derive(Serialize)]
struct List<T> {
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn list<L, T>(lines: &Lines<L>, item: impl Fn(&L) -> T) -> List<T> {
    List { items: lines.items.iter().map(item).collect(), next: lines.next.map(cursor) }
}

/// JSON that a row holds; a text where it is none.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LetterJson {
    id: i64,
    lane: u16,
    stream_id: String,
    reason: String,
    state: &'static str,
    entry: Value,
    /// Whether it says an order: what does not can only be discarded.
    readable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<OrderId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    voucher_id: Option<VoucherId>,
    created_at: Millis,
}

impl From<&BuriedLetter> for LetterJson {
    fn from(buried: &BuriedLetter) -> Self {
        let entry = buried_entry(&buried.letter.entry_json);
        Self {
            id: buried.id,
            lane: buried.letter.lane.0,
            stream_id: buried.letter.stream_id.clone(),
            reason: buried.letter.reason.clone(),
            state: buried.state.as_str(),
            entry: parsed(&buried.letter.entry_json),
            readable: entry.is_some(),
            order_id: entry.map(|e| e.order),
            voucher_id: entry.map(|e| e.voucher),
            created_at: buried.created_at,
        }
    }
}

/// `GET /api/admin/dead-letter`
pub async fn dead_letters(
    State(state): State<AppState>,
    _: Admin,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let (limit, before) = (limit(&mut query)?, read_cursor(&query)?);
    let lines = state.desk.dead_letters(before, limit).await?;
    Ok(reply::ok(list(&lines, |letter| LetterJson::from(letter))))
}

/// A letter with the order that became of it, where there is one.
async fn decided(state: &AppState, letter: &BuriedLetter) -> Result<Value, Problem> {
    let mut told = serde_json::to_value(LetterJson::from(letter)).map_err(|e| Problem::Internal(e.to_string()))?;
    if let Some(entry) = buried_entry(&letter.letter.entry_json)
        && let Some(order) = state.store.order(entry.order).await?
    {
        told["order"] = serde_json::to_value(OrderJson::from(&order)).map_err(|e| Problem::Internal(e.to_string()))?;
    }
    Ok(told)
}

async fn answer(state: &AppState, done: Result<BuriedLetter, LetterError>) -> Result<Response, Problem> {
    match done {
        Ok(letter) => Ok(reply::ok(decided(state, &letter).await?)),
        Err(LetterError::NotFound) => Err(Problem::NotFound),
        Err(LetterError::Decided(letter)) => Err(Problem::LetterDecided(decided(state, &letter).await?)),
        Err(LetterError::Stuck(letter, why)) => {
            tracing::info!(letter = letter.id, why, "a dead letter cannot be saved");
            Err(Problem::LetterStuck(decided(state, &letter).await?))
        }
        Err(LetterError::Service(error)) => Err(error.into()),
    }
}

fn nothing_in(body: Option<&Fields>) -> Result<(), Problem> {
    body.map_or(Ok(()), |fields| fields.only(&[]))
}

/// `POST /api/admin/dead-letter/{id}/retry`
pub async fn retry(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(OrderId(id)): PathId<OrderId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    nothing_in(body.as_ref())?;
    answer(&state, state.desk.letters.retry(by.id, id).await).await
}

/// `POST /api/admin/dead-letter/{id}/discard`
pub async fn discard(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(OrderId(id)): PathId<OrderId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    nothing_in(body.as_ref())?;
    answer(&state, state.desk.letters.discard(by.id, id).await).await
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutboxJson<'a> {
    id: i64,
    kind: &'a str,
    dedupe_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    voucher_id: Option<i64>,
    payload: Value,
    attempts: i64,
    next_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    done_at: Option<Millis>,
}

impl<'a> From<&'a OutboxLine> for OutboxJson<'a> {
    fn from(line: &'a OutboxLine) -> Self {
        Self {
            id: line.id,
            kind: &line.kind,
            dedupe_key: &line.dedupe_key,
            voucher_id: line.voucher_id,
            payload: parsed(&line.payload),
            attempts: line.attempts,
            next_at: Millis(line.next_at),
            done_at: line.done_at.map(Millis),
        }
    }
}

fn voucher_of(query: &Fields) -> Result<Option<VoucherId>, Problem> {
    match query.typed("voucherId") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Problem::Malformed),
    }
}

/// `GET /api/admin/outbox[?state=open][&voucherId=]`
pub async fn outbox(State(state): State<AppState>, _: Admin, QueryFields(mut query): QueryFields) -> Result<Response, Problem> {
    let (limit, before, voucher) = (limit(&mut query)?, read_cursor(&query)?, voucher_of(&query)?);
    let open = match query.typed("state") {
        "" => false,
        "open" => true,
        _ => return Err(Problem::Malformed),
    };
    let lines = state.desk.outbox(open, voucher, before, limit).await?;
    Ok(reply::ok(list(&lines, |line| serde_json::json!(OutboxJson::from(line)))))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditJson {
    id: i64,
    who: String,
    action: String,
    subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
    created_at: Millis,
}

impl From<&AuditLine> for AuditJson {
    fn from(line: &AuditLine) -> Self {
        Self {
            id: line.id,
            who: line.who.clone(),
            action: line.action.clone(),
            subject: line.subject.clone(),
            before: line.before.as_deref().map(parsed),
            after: line.after.as_deref().map(parsed),
            created_at: line.created_at,
        }
    }
}

/// `GET /api/admin/audit-log`
pub async fn audit_log(
    State(state): State<AppState>,
    _: Admin,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let (limit, before) = (limit(&mut query)?, read_cursor(&query)?);
    let lines = state.desk.audit_log(before, limit).await?;
    Ok(reply::ok(list(&lines, |line| AuditJson::from(line))))
}

/// What a list of orders is asked for: `?status=`, `?closeReason=`, `?live=1`.
pub(super) fn order_filter(query: &Fields) -> Result<OrderFilter, Problem> {
    let status = match query.typed("status") {
        "" => None,
        "QUEUED" => Some(Status::Queued),
        word => Some(Status::from_row(word).ok_or(Problem::Malformed)?),
    };
    let reason = match query.typed("closeReason") {
        "" => None,
        word => Some(CloseReason::from_row(word).ok_or(Problem::Malformed)?),
    };
    let live = match query.typed("live") {
        "" => None,
        "1" => Some(true),
        "0" => Some(false),
        _ => return Err(Problem::Malformed),
    };
    Ok(OrderFilter { status, reason, live })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sold<'a> {
    #[serde(flatten)]
    order: OrderJson<'a>,
    user_id: i64,
}

/// `GET /api/admin/sale/{voucherId}/orders`
pub async fn orders(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let (limit, before, filter) = (limit(&mut query)?, read_cursor(&query)?, order_filter(&query)?);
    state.store.sale(id).await?.ok_or(Problem::NotFound)?;
    let page = state.desk.orders_of_voucher(id, filter, before.map(OrderId), limit).await?;
    let items = page.items.iter().map(|order| Sold { order: OrderJson::from(order), user_id: order.user.0 }).collect();
    Ok(reply::ok(List { items, next: page.next.map(|id| cursor(id.0)) }))
}
