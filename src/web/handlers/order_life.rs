//! What a buyer or an admin does to a saved order: cancel, pay, time out, refund; from a program and from a form.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use crate::domain::ids::OrderId;
use crate::push::order_json::OrderJson;
use crate::service::change::ChangeError;
use crate::web::error::Problem;
use crate::web::extract::{Admin, Frame, LoggedIn, PathId, Who};
use crate::web::fields::OptionalJson;
use crate::web::handlers::orders;
use crate::web::own_path::login_address;
use crate::web::reply;
use crate::web::state::AppState;

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NotFound => Self::NotFound,
            ChangeError::Queued => Self::StillQueued,
            ChangeError::WrongState(order) => Self::WrongState(order),
            ChangeError::Service(error) => error.into(),
        }
    }
}

/// `POST /api/voucher-order/{id}/cancel`
pub async fn cancel(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    PathId(id): PathId<OrderId>,
    OptionalJson(_): OptionalJson,
) -> Result<Response, Problem> {
    let order = state.money.cancels.cancel(id, user.id).await?;
    Ok(reply::ok(OrderJson::from(&order)))
}

/// `POST /api/voucher-order/{id}/timeout`
pub async fn time_out(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<OrderId>,
    OptionalJson(_): OptionalJson,
) -> Result<Response, Problem> {
    let order = state.money.cancels.time_out(id).await?;
    Ok(reply::ok(OrderJson::from(&order)))
}

/// `POST /api/voucher-order/{id}/pay`
pub async fn pay(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    PathId(id): PathId<OrderId>,
    OptionalJson(_): OptionalJson,
) -> Result<Response, Problem> {
    let pay_url = state.money.payments.start(id, user.id).await?;
    Ok(reply::ok(json!({ "payUrl": pay_url })))
}

/// `POST /api/voucher-order/{id}/refund`
pub async fn refund(
    State(state): State<AppState>,
    Admin(admin): Admin,
    PathId(id): PathId<OrderId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    let restock = match body {
        Some(fields) => {
            fields.only(&["restock"])?;
            fields.switch("restock")?
        }
        None => false,
    };
    let order = state.money.refunds.start(id, restock, admin.id).await?;
    Ok(reply::ok(OrderJson::from(&order)))
}

/// What became of a form's post: where to go, the login, or the order's page with the reason on it.
async fn answer_form(
    state: &AppState,
    who: Who,
    Frame(mut chrome): Frame,
    id: OrderId,
    done: Result<String, Problem>,
) -> Result<Response, Problem> {
    let problem = match done {
        Ok(to) => return Ok(Redirect::to(&to).into_response()),
        // A post cannot be come back to: the page with the button can.
        Err(Problem::LoginRequired) => {
            return Ok(Redirect::to(&login_address(&format!("/orders/{id}"))).into_response());
        }
        Err(problem @ (Problem::WrongState(_) | Problem::StillQueued | Problem::Busy(_))) => problem,
        Err(problem) => return Err(problem),
    };
    let (status, code) = problem.status_and_code();
    chrome.path = format!("/orders/{id}");
    // Where the page cannot be made either, the problem itself is the better answer.
    match orders::page_of_one(state, &who.0, id, None, chrome).await {
        Ok(page) => Ok(page.refused(status, code, problem.retry_after()).into_response()),
        Err(_) => Err(problem),
    }
}

/// `POST /orders/{id}/cancel`
pub async fn cancel_form(
    State(state): State<AppState>,
    who: Who,
    PathId(id): PathId<OrderId>,
    frame: Frame,
) -> Result<Response, Problem> {
    let done = match LoggedIn::of(who.0.clone()) {
        Ok(LoggedIn(user)) => state.money.cancels.cancel(id, user.id).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    answer_form(&state, who, frame, id, done.map(|order| format!("/orders/{}", order.id))).await
}

/// `POST /orders/{id}/pay`
pub async fn pay_form(
    State(state): State<AppState>,
    who: Who,
    PathId(id): PathId<OrderId>,
    frame: Frame,
) -> Result<Response, Problem> {
    let done = match LoggedIn::of(who.0.clone()) {
        Ok(LoggedIn(user)) => state.money.payments.start(id, user.id).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    // A page of our own is reached under whatever name the browser has for us.
    let to = done.map(|url| own_or_absolute(&state, url));
    answer_form(&state, who, frame, id, to).await
}

/// The path alone where `url` is ours, so that a browser that came by another name keeps it, and its session.
pub(super) fn own_or_absolute(state: &AppState, url: String) -> String {
    match url.strip_prefix(&state.public_url.0) {
        Some(path) if path.starts_with('/') => path.to_owned(),
        _ => url,
    }
}
