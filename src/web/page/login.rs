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
    /// The way in by a code; none: this shop sends none.
    by_code: Option<ByCode>,
    /// The login page at the shop's own address: the browser that just logged in did not keep its session.
    not_kept: Option<String>,
}

/// The second form: a phone and the code that was sent to it.
struct ByCode {
    /// Shown unfolded: he was using it.
    open: bool,
    phone: String,
    /// A code is on its way.
    sent: bool,
    /// The page where the built-in sender shows it; only for who may see that page.
    sandbox: bool,
}

impl LoginPage {
    /// The empty form; `next`: one of our own paths to go to afterwards, empty for none (the caller has checked it).
    #[must_use]
    pub fn new(c: Chrome, next: &str) -> Self {
        let phone = Field { name: "phone", ..Field::default() };
        Self { status: StatusCode::OK, c, next: next.to_owned(), alert: None, phone, by_code: None, not_kept: None }
    }

    /// With the way in by a code as well. `sandbox`: the reader may look at the page of the built-in sender.
    #[must_use]
    pub fn with_codes(mut self, sandbox: bool) -> Self {
        self.by_code = Some(ByCode { open: false, phone: String::new(), sent: false, sandbox });
        self
    }

    /// Says that the login just now was right and that the browser did not keep it, because it is not at `public_url`, an address
    /// with TLS.
    #[must_use]
    pub fn not_kept(mut self, public_url: &str) -> Self {
        self.not_kept = Some(format!("{public_url}{}", Chrome::with_next("/login", &self.next)));
        self
    }

    /// The second form is the one that was posted, with this phone; `sent`: a code is on its way to it.
    #[must_use]
    pub fn in_codes(mut self, phone: &str, sent: bool) -> Self {
        self.by_code = self.by_code.map(|form| ByCode { open: true, phone: phone.to_owned(), sent, ..form });
        self
    }

    /// The form again, with the phone as typed and the sentence of `code` (`BAD_CREDENTIALS`, `TOO_MANY_REQUESTS`, `BUSY` …).
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, phone: &str, seconds: u64) -> Self {
        self.status = status;
        self.alert = Some(i18n::page_message(self.c.lang, code, "", seconds, ""));
        if !self.by_code.as_ref().is_some_and(|form| form.open) {
            phone.clone_into(&mut self.phone.value);
        }
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
