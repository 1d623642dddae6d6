//! For whoever watches over the process: alive, ready, figures.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::service::sale_health;
use crate::telemetry::{look_at_process, meters};
use crate::web::client_address::client_address;
use crate::web::error::Problem;
use crate::web::reply;
use crate::web::state::AppState;

/// `/healthz`: 200 as long as HTTP answers.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// `/readyz`: 200 when database, Redis and the open sales are there, else 503 with the reasons.
pub async fn readyz(State(state): State<AppState>) -> Response {
    let (store, redis) = tokio::join!(state.store.ping(), state.redis.ping());
    let mut missing = Vec::new();
    if state.shutdown.has_begun() {
        missing.push(String::from("shutting down"));
    }
    if state.shutdown.has_failed() {
        missing.push(String::from("a background loop has ended"));
    }
    if store.is_err() {
        missing.push(String::from("the database cannot be asked"));
    }
    if redis.is_err() {
        missing.push(String::from("Redis cannot be asked"));
    } else if store.is_ok() {
        match sale_health::not_open(&state.sales).await {
            Ok(vouchers) => missing.extend(vouchers.iter().map(|v| format!("the sale of voucher {v} is not open at the gate"))),
            Err(_) => missing.push(String::from("the sales cannot be looked at")),
        }
    }
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::json(status, &serde_json::json!({ "ready": missing.is_empty(), "missing": missing }))
}

/// `/metrics` on the main listener: for clients on this machine only, and only where it has no listener of its own.
pub async fn metrics(State(state): State<AppState>, request: Request) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let local = client_address(&parts, &state.trusted_proxies).is_loopback();
    if !local || state.metrics_elsewhere {
        return Err(Problem::NotFound);
    }
    Ok(figures(&state).await)
}

/// `/metrics` on a listener of its own: for everybody who reaches it.
pub async fn metrics_for_all(State(state): State<AppState>) -> Response {
    figures(&state).await
}

#[expect(clippy::cast_precision_loss, reason = "sockets of a process")]
async fn figures(state: &AppState) -> Response {
    state.scrape.look().await;
    meters().sockets_open.set(state.hub.sockets() as f64);
    look_at_process();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.metrics.render()).into_response()
}
