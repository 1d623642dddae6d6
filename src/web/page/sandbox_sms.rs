//! `/sandbox-sms`: the login codes that the built-in sender "sent".

use askama::Template;
use axum::http::StatusCode;

use crate::service::code_sender::Sms;
use crate::web::page::{Chrome, format, is_response};

struct Message {
    phone: String,
    code: String,
    at: String,
    datetime: String,
}

/// The page.
#[derive(Template)]
#[template(path = "user/sandbox_sms.html")]
pub struct SandboxSmsPage {
    /// 200.
    pub status: StatusCode,
    c: Chrome,
    messages: Vec<Message>,
}

impl SandboxSmsPage {
    /// The messages, newest first.
    #[must_use]
    pub fn new(c: Chrome, sent: &[Sms]) -> Self {
        let message = |sms: &Sms| Message {
            phone: sms.phone.as_str().to_owned(),
            code: sms.code.clone(),
            at: format::exact(&c, sms.at),
            datetime: sms.at.rfc3339(),
        };
        let messages = sent.iter().map(message).collect();
        Self { status: StatusCode::OK, c, messages }
    }
}
is_response!(SandboxSmsPage);
