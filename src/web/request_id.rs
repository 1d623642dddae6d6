//! The number of a request: on every answer, in the log, and on the page of our own mistakes.

use std::any::Any;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use tower_http::request_id::{MakeRequestId, RequestId};

use crate::web::error::Problem;

/// The header that carries it.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Makes numbers: sixteen hex digits, random.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewId;

impl MakeRequestId for NewId {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        Some(RequestId::new(new_number()))
    }
}

fn new_number() -> HeaderValue {
    HeaderValue::from_str(&format!("{:016x}", rand::random::<u64>())).unwrap_or(HeaderValue::from_static("-"))
}

/// Whether a number that a proxy gave could stand in a log line and on a page.
fn is_good(value: &HeaderValue) -> bool {
    (1..=64).contains(&value.len()) && value.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

/// The number of a request with these headers: a proxy's when it is good, else a new one.
#[must_use]
pub fn number_of(headers: &http::HeaderMap) -> HeaderValue {
    headers.get(&HEADER).filter(|v| is_good(v)).cloned().unwrap_or_else(new_number)
}

/// Keeps a number that a proxy gave, unless it could not stand in a log line or on a page.
pub async fn only_good(mut request: Request, next: Next) -> Response {
    if request.headers().get(&HEADER).is_some_and(|v| !is_good(v)) {
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
