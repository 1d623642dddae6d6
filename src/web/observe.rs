//! Around every request: a span that puts its number into each line of the log, and its time into the figures.
//!
//! The click on "buy" has no layers and calls `record` itself. No lock and no allocation for a route that was seen before:
//! each thread keeps the handles of what it answered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics::Histogram;
use tower_http::request_id::RequestId;
use tracing::Instrument;

/// Asked for thousands of times a second: their span is made only for who looks closely. Nothing on their way writes a line
/// above debug that does not name the request itself.
const HOT: [&str; 1] = ["/api/voucher-order/{id}"];
/// What stands for every path that is no route, so that a scan of made-up paths makes no new figures.
const NO_ROUTE: &str = "none";

type Handles = HashMap<Box<str>, Vec<(&'static str, u16, Histogram)>>;

thread_local! {
    static SEEN: RefCell<Handles> = RefCell::default();
}

/// The layer.
pub async fn observe(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let template = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let method = method_of(request.method());
    let span = span(&request, HOT.contains(&template));
    let response = next.run(request).instrument(span.clone()).await;
    let took = began.elapsed();
    record(method, template, response.status().as_u16(), took.as_secs_f64());
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), ms = took.as_secs_f64() * 1e3, "answered"));
    response
}

/// Never the query: tickets and phones travel in it.
fn span(request: &Request, hot: bool) -> tracing::Span {
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).unwrap_or("-");
    if hot {
        tracing::debug_span!("request", id, method = %request.method(), path = request.uri().path())
    } else {
        tracing::error_span!("request", id, method = %request.method(), path = request.uri().path())
    }
}

/// A client may send any word as a method; a label has few values.
pub(super) fn method_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PATCH => "PATCH",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Puts an answer into the figures.
pub(super) fn record(method: &'static str, route: &str, status: u16, seconds: f64) {
    SEEN.with_borrow_mut(|seen| {
        if let Some(handles) = seen.get(route)
            && let Some((_, _, handle)) = handles.iter().find(|(m, s, _)| *m == method && *s == status)
        {
            return handle.record(seconds);
        }
        let labels = [("method", String::from(method)), ("route", route.to_owned()), ("status", status.to_string())];
        let handle = metrics::histogram!("http_server_request_duration_seconds", &labels);
        handle.record(seconds);
        seen.entry(route.into()).or_default().push((method, status, handle));
    });
}
