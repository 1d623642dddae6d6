//! What the port answers while the stores are not open yet: this process lives, is not ready, and serves nobody.
//!
//! No state, no session, no page: all of those need the stores.

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::i18n;
use crate::web::error::{BUSY_SECONDS, Problem};
use crate::web::extract::{is_api, lang_of};
use crate::web::{health, reply};

/// `/healthz` is 200, `/readyz` 503 with the reason, everything else 503 BUSY.
pub fn router() -> Router {
    Router::new().route("/healthz", get(health::healthz)).route("/readyz", get(not_ready)).fallback(busy)
}

async fn not_ready() -> Response {
    let missing = ["the stores are not open yet"];
    reply::json(StatusCode::SERVICE_UNAVAILABLE, &serde_json::json!({ "ready": false, "missing": missing }))
}

async fn busy(request: Request) -> Response {
    let lang = lang_of(request.uri().query(), request.headers());
    let problem = Problem::Busy(String::from("the stores are not open yet"));
    let mut response = if is_api(request.uri().path()) {
        reply::problem(&problem, lang, "-")
    } else {
        // A sentence, for a page would ask for styles that are not served yet.
        (StatusCode::SERVICE_UNAVAILABLE, i18n::api_message(lang, "BUSY")).into_response()
    };
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(BUSY_SECONDS));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
