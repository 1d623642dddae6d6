//! The number of a request: on every answer, in the log, and on the page of our own mistakes.

use std::any::Any;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use tower_http::request_id::{MakeRequestId, RequestId};

use crate::web::error::Problem;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Makes numbers: sixteen hex digits, random.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewId;

impl MakeRequestId for NewId {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        let text = format!("{:016x}", rand::random::<u64>());
        HeaderValue::from_str(&text).ok().map(RequestId::new)
    }
}

/// Keeps a number that a proxy gave, unless it could not stand in a log line or on a page.
pub async fn only_good(mut request: Request, next: Next) -> Response {
    let good =
        |v: &HeaderValue| (1..=64).contains(&v.len()) && v.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
    if request.headers().get(&HEADER).is_some_and(|v| !good(v)) {
        request.headers_mut().remove(&HEADER);
    }
    next.run(request).await
}

/// A panic is our mistake; its text is for the log.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Problem::Internal(format!("a handler panicked: {}", text.unwrap_or("no text"))).into_response()
}
