//! The error page: what happened, whether money moved, what to do now.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::i18n;
use crate::web::page::{Chrome, respond};

/// One page for every error.
#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage {
    status: StatusCode,
    c: Chrome,
    code: String,
    title: String,
    words: String,
    request_id: String,
    retry_after: u64,
}

impl ErrorPage {
    /// The page for a status and its code of CONTRACT (`NOT_FOUND`, `BUSY`, `INTERNAL`, …); `retry_after` in seconds, 0 for
    /// none. A code without a sentence of its own gets the one of `INTERNAL` (5xx) or of a request of the wrong kind (4xx).
    #[must_use]
    pub fn new(c: Chrome, status: StatusCode, code: &str, request_id: &str, retry_after: u64) -> Self {
        let title = i18n::error_title(c.lang, code);
        let words = match code {
            "BUSY" => c.f("error-busy", &[("seconds", &retry_after.max(1))]),
            _ => i18n::page_message(c.lang, code, "", retry_after.max(1), request_id),
        };
        Self { status, c, code: code.to_owned(), title, words, request_id: request_id.to_owned(), retry_after }
    }

    fn number(&self) -> u16 {
        self.status.as_u16()
    }

    fn tone(&self) -> &'static str {
        match self.number() {
            429 | 503 => "warn",
            500..=599 => "bad",
            _ => "mute",
        }
    }

    /// Whether the same address is worth another try.
    fn may_retry(&self) -> bool {
        matches!(self.number(), 429 | 500 | 503)
    }

    fn wants_login(&self) -> bool {
        self.code == "LOGIN_REQUIRED"
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let mut response = respond(self.status, &self);
        if self.retry_after > 0 {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        response
    }
}
