//! The ceiling: an axum handler that looks at nothing and does nothing. No server of this kind on this machine is faster.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;

async fn nothing() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], r#"{"success":true,"data":"610467444359694349"}"#)
}

/// Its one route.
pub fn router() -> Router {
    Router::new().route("/api/voucher-order/seckill/{voucher}", post(nothing))
}
