//! `/login` and `/register`.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::voucher::FieldErrors;
use crate::i18n;
use crate::web::page::form::{Field, summary};
use crate::web::page::{Chrome, is_response};

/// The form that logs in.
#[derive(Template)]
#[template(path = "user/login.html")]
pub struct LoginPage {
    /// 200 or what a refusal asks for.
    pub status: StatusCode,
    c: Chrome,
    next: String,
    alert: Option<String>,
    phone: Field,
}

impl LoginPage {
    /// The empty form; `next`: one of our own paths to go to afterwards, empty for none (the caller has checked it).
    #[must_use]
    pub fn new(c: Chrome, next: &str) -> Self {
        let phone = Field { name: "phone", ..Field::default() };
        Self { status: StatusCode::OK, c, next: next.to_owned(), alert: None, phone }
    }

    /// The form again, with the phone as typed and the sentence of `code` (`BAD_CREDENTIALS`, `TOO_MANY_REQUESTS`, `BUSY` …).
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, phone: &str, seconds: u64) -> Self {
        self.status = status;
        self.alert = Some(i18n::page_message(self.c.lang, code, "", seconds, ""));
        phone.clone_into(&mut self.phone.value);
        self
    }
}
is_response!(LoginPage);

/// The form that makes an account.
#[derive(Template)]
#[template(path = "user/register.html")]
pub struct RegisterPage {
    /// 200 or what a refusal asks for.
    pub status: StatusCode,
    c: Chrome,
    next: String,
    alert: Option<String>,
    phone: Field,
    nick_name: Field,
    password: Field,
}

impl RegisterPage {
    /// The empty form; `next` as for [`LoginPage::new`].
    #[must_use]
    pub fn new(c: Chrome, next: &str) -> Self {
        let field = |name| Field { name, ..Field::default() };
        let (phone, nick_name, password) = (field("phone"), field("nickName"), field("password"));
        Self { status: StatusCode::OK, c, next: next.to_owned(), alert: None, phone, nick_name, password }
    }

    /// The form again with what was typed (422): errors by field, `phone`, `nickName`, `password`.
    #[must_use]
    pub fn invalid(mut self, phone: &str, nick_name: &str, errors: &FieldErrors) -> Self {
        self.status = StatusCode::UNPROCESSABLE_ENTITY;
        self.alert = summary(&self.c, errors);
        self.phone = Field::new(&self.c, "phone", phone, errors);
        self.nick_name = Field::new(&self.c, "nickName", nick_name, errors);
        self.password = Field::new(&self.c, "password", "", errors);
        self
    }

    /// The form again with the sentence of `code` (`PHONE_TAKEN`, `TOO_MANY_REQUESTS`, `BUSY` …).
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, phone: &str, nick_name: &str, seconds: u64) -> Self {
        let words = i18n::page_message(self.c.lang, code, "", seconds, "");
        self.status = status;
        phone.clone_into(&mut self.phone.value);
        nick_name.clone_into(&mut self.nick_name.value);
        if code == "PHONE_TAKEN" {
            self.phone.error = Some(words.clone());
        }
        self.alert = Some(words);
        self
    }
}
is_response!(RegisterPage);
