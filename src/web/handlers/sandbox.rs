//! The sandbox provider's own front door: what its shop calls, the page where a payment is tried, its books.
//!
//! Nothing here is there when a real provider is used.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{RawPathParams, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;

use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::service::sandbox_provider::{Deed, SandboxError, SandboxProvider};
use crate::web::error::Problem;
use crate::web::extract::{Admin, Frame};
use crate::web::fields::FormFields;
use crate::web::handlers::order_life::own_or_absolute;
use crate::web::page::SandboxPage;
use crate::web::reply;
use crate::web::state::AppState;

/// How long a pressed button waits for the shop to hear of it; it hears later otherwise.
const TELL_WITHIN: Duration = Duration::from_millis(1500);

fn sandbox(state: &AppState) -> Result<&SandboxProvider, Problem> {
    state.money.sandbox.as_ref().ok_or(Problem::NotFound)
}

impl From<SandboxError> for Problem {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Unknown => Self::NotFound,
            SandboxError::KeyReused | SandboxError::TooMuch => Self::Malformed,
            SandboxError::Service(error) => error.into(),
        }
    }
}

/// A call of the shop: nobody else may write into the books.
fn called_by_shop<'a, T: Deserialize<'a>>(
    sandbox: &SandboxProvider,
    headers: &HeaderMap,
    body: &'a [u8],
) -> Result<T, StatusCode> {
    if !sandbox.knows(headers.get(AUTHORIZATION).and_then(|h| h.to_str().ok())) {
        return Err(StatusCode::NOT_FOUND);
    }
    serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)
}

fn refused(status: StatusCode) -> Response {
    reply::json(status, &json!({ "error": status.canonical_reason() }))
}

fn status_of(error: &SandboxError) -> Response {
    match error {
        SandboxError::Unknown => refused(StatusCode::NOT_FOUND),
        SandboxError::KeyReused => refused(StatusCode::CONFLICT),
        SandboxError::TooMuch => refused(StatusCode::UNPROCESSABLE_ENTITY),
        SandboxError::Service(_) => refused(StatusCode::SERVICE_UNAVAILABLE),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewPayment {
    order_id: OrderId,
    amount: Fen,
    currency: String,
    callback_url: String,
    return_url: String,
}

/// `POST /sandbox-provider/payments`
pub async fn create(State(state): State<AppState>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let sandbox = sandbox(&state)?;
    let new: NewPayment = match called_by_shop(sandbox, &headers, &body) {
        Ok(new) => new,
        Err(status) => return Ok(refused(status)),
    };
    if new.amount.0 <= 0 || new.currency != "CNY" {
        return Ok(refused(StatusCode::UNPROCESSABLE_ENTITY));
    }
    let made = sandbox.create(new.order_id, new.amount, &new.callback_url, &new.return_url).await;
    Ok(made.map_or_else(
        |error| status_of(&error),
        |(id, page)| reply::json(StatusCode::OK, &json!({ "paymentId": id, "payUrl": page })),
    ))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewRefund {
    transaction_id: String,
    amount: Fen,
}

/// `POST /sandbox-provider/refunds`
pub async fn refund(State(state): State<AppState>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let sandbox = sandbox(&state)?;
    let new: NewRefund = match called_by_shop(sandbox, &headers, &body) {
        Ok(new) => new,
        Err(status) => return Ok(refused(status)),
    };
    let key = headers.get("idempotency-key").and_then(|h| h.to_str().ok()).filter(|key| (1..=255).contains(&key.len()));
    let Some(key) = key else { return Ok(refused(StatusCode::BAD_REQUEST)) };
    let made = sandbox.refund(key, &new.transaction_id, new.amount).await;
    Ok(made.map_or_else(|error| status_of(&error), |id| reply::json(StatusCode::OK, &json!({ "refundId": id }))))
}

/// The payment that the path names.
fn named(params: &RawPathParams) -> Result<String, Problem> {
    // In the letters that our own ids have: anything else names none.
    let ours = |id: &str| id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    params.iter().next().map(|(_, id)| id.to_owned()).filter(|id| ours(id)).ok_or(Problem::NotFound)
}

/// `GET /sandbox-pay/{paymentId}`
pub async fn page(State(state): State<AppState>, params: RawPathParams, Frame(chrome): Frame) -> Result<Response, Problem> {
    let payment = sandbox(&state)?.payment(&named(&params)?).await?;
    let back = own_or_absolute(&state, payment.return_url.clone());
    Ok(SandboxPage::new(chrome, payment.order, payment.amount, &payment.id, back).into_response())
}

/// `POST /sandbox-pay/{paymentId}` with `do`
pub async fn press(
    State(state): State<AppState>,
    params: RawPathParams,
    FormFields(form): FormFields,
) -> Result<Response, Problem> {
    let sandbox = sandbox(&state)?;
    let deed = Deed::from_word(form.typed("do")).ok_or(Problem::Malformed)?;
    let back = sandbox.press(&named(&params)?, deed).await?;
    // The buyer comes back to an order that knows already, most of the time; what is not told now waits in the table.
    if !matches!(tokio::time::timeout(TELL_WITHIN, sandbox.send_due()).await, Ok(Ok(_))) {
        state.money.wakes.letters.notify_one();
    }
    Ok(Redirect::to(&own_or_absolute(&state, back)).into_response())
}

/// `GET /sandbox-pay/books`
pub async fn books(State(state): State<AppState>, _: Admin) -> Result<Response, Problem> {
    let books = sandbox(&state)?.books().await?;
    let line = |e: &crate::store::SandboxEntry| json!({ "type": e.way.as_str(), "orderId": e.order, "transactionId": e.transaction, "amount": e.amount, "key": e.key, "at": e.at });
    let entries: Vec<_> = books.entries.iter().map(line).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "paid": books.paid, "refunded": books.refunded, "entries": entries })))
}
