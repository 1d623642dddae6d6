//! `/admin/users`: one user, found by number or phone, to be shut out, let in or logged out everywhere.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::user::User;
use crate::web::page::admin::Said;
use crate::web::page::{Chrome, format, is_response};

/// Whoever was found.
struct Found {
    id: String,
    name: String,
    admin: bool,
    disabled: bool,
    credits: String,
}

/// The page.
#[derive(Template)]
#[template(path = "admin/users.html")]
pub struct UsersPage {
    /// 200, 404 when nobody was found.
    pub status: StatusCode,
    c: Chrome,
    asked: String,
    found: Option<Found>,
    said: Said,
}

impl UsersPage {
    /// `asked`: what was looked for, empty for nothing; `user`: who was found.
    #[must_use]
    pub fn new(c: Chrome, asked: &str, user: Option<&User>, mut said: Said) -> Self {
        let found = user.map(|user| Found {
            id: user.id.to_string(),
            name: user.nick_name.clone(),
            admin: user.admin,
            disabled: user.disabled,
            credits: format::figure(user.credits),
        });
        let lost = found.is_none() && !asked.is_empty();
        if lost {
            said.not = c.t("users-nobody");
        }
        Self { status: if lost { StatusCode::NOT_FOUND } else { StatusCode::OK }, c, asked: asked.to_owned(), found, said }
    }
}
is_response!(UsersPage);
