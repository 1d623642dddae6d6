//! `/account`: who I am, and a new password.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::user::User;
use crate::domain::voucher::FieldErrors;
use crate::i18n;
use crate::web::page::form::{Field, summary};
use crate::web::page::{Chrome, format, is_response};

/// The user's own page.
#[derive(Template)]
#[template(path = "user/account.html")]
pub struct AccountPage {
    /// 200 or what a refusal asks for.
    pub status: StatusCode,
    c: Chrome,
    name: String,
    credits: String,
    admin: bool,
    done: bool,
    alert: Option<String>,
    old_password: Field,
    new_password: Field,
}

impl AccountPage {
    /// The page as it stands; `done`: the password was just changed.
    #[must_use]
    pub fn new(c: Chrome, user: &User, done: bool) -> Self {
        let field = |name| Field { name, ..Field::default() };
        Self {
            status: StatusCode::OK,
            name: user.nick_name.clone(),
            credits: format::figure(user.credits),
            admin: user.admin,
            done,
            alert: None,
            old_password: field("oldPassword"),
            new_password: field("newPassword"),
            c,
        }
    }

    /// The page again (422) with what is wrong with `oldPassword` or `newPassword`.
    #[must_use]
    pub fn invalid(mut self, errors: &FieldErrors) -> Self {
        self.status = StatusCode::UNPROCESSABLE_ENTITY;
        self.alert = summary(&self.c, errors);
        self.old_password = Field::new(&self.c, "oldPassword", "", errors);
        self.new_password = Field::new(&self.c, "newPassword", "", errors);
        self
    }

    /// The page again with the sentence of `code`; `BAD_CREDENTIALS` stands at the old password.
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, seconds: u64) -> Self {
        self.status = status;
        if code == "BAD_CREDENTIALS" {
            let words = self.c.t("account-old-wrong");
            self.old_password.error = Some(words.clone());
            self.alert = Some(words);
        } else {
            self.alert = Some(i18n::page_message(self.c.lang, code, "", seconds, ""));
        }
        self
    }
}
is_response!(AccountPage);
