//! Pages: one struct each, filled from domain values, rendered by a template of `templates/`.
//!
//! View models are worded and formatted here; templates hold no decisions beyond which block to show. No store, no clock.

use std::fmt::Display;
use std::time::Duration;

use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;

use crate::domain::time::Millis;
use crate::i18n::Lang;
use crate::web::assets;

mod account;
mod admin;
mod card;
mod docs;
mod error;
mod form;
mod format;
mod front;
mod login;
mod order;
mod order_line;
mod orders;
mod sandbox;
mod sandbox_sms;
mod script;
mod voucher_form;
mod voucher_look;

pub use account::AccountPage;
pub use admin::{
    ControlRoomPage, DiscardPage, EndPage, LettersPage, ListPage, Part, ReportPage, Room, Said, SaleView, SecondsPage, Series,
    Titles, Typed, UsersPage, VoucherPage,
};
pub use card::{Alert, Held};
pub use docs::DocsPage;
pub use error::ErrorPage;
pub use front::{FrontPage, ShopHead, ShopPage};
pub use login::{LoginPage, RegisterPage};
pub use order::{OrderPage, OrderView};
pub use orders::OrdersPage;
pub use sandbox::SandboxPage;
pub use sandbox_sms::SandboxSmsPage;
pub use voucher_form::{FormText, VoucherFormPage};

/// Which colours a reader asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// As the system has it.
    #[default]
    Auto,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

impl Theme {
    /// The word of `?theme=` and its cookie.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme that a word names; none for any other word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Auto, Self::Light, Self::Dark].into_iter().find(|theme| theme.as_str() == word)
    }
}

/// Who looks at a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// The name to show.
    pub name: String,
    /// Sees the way to the control room.
    pub admin: bool,
}

/// What every page needs besides its own subject.
#[derive(Debug, Clone)]
pub struct Chrome {
    /// The language of every sentence.
    pub lang: Lang,
    /// The colours.
    pub theme: Theme,
    /// The logged-in user; none: a visitor.
    pub user: Option<Visitor>,
    /// Path and query of the page, one that answers GET (a refused post is shown on the page that it came from); `lang` and `theme` in it are left out of the links that keep it.
    pub path: String,
    /// The zone of every time on the page.
    pub zone: TimeZone,
    /// When the page is made.
    pub now: Millis,
    /// How long a buyer has to pay.
    pub pay_window: Duration,
    /// Sessions cannot be asked: the page is shown as to a visitor, and says so.
    pub sessions_away: bool,
}

impl Chrome {
    /// The words under `key`.
    fn t(&self, key: &str) -> String {
        self.lang.t(key)
    }

    /// The words under `key` with arguments.
    fn f(&self, key: &str, args: &[(&'static str, &dyn Display)]) -> String {
        self.lang.f(key, args)
    }

    /// Parts of one statement, one after the other.
    fn listed(&self, parts: impl IntoIterator<Item = String>) -> String {
        parts.into_iter().reduce(|a, b| self.f("and-also", &[("a", &a), ("b", &b)])).unwrap_or_default()
    }

    /// Statements that belong together.
    fn linked(&self, parts: impl IntoIterator<Item = String>) -> String {
        parts.into_iter().reduce(|a, b| self.f("and-then", &[("a", &a), ("b", &b)])).unwrap_or_default()
    }

    fn asset(name: &str) -> String {
        assets::url(name)
    }

    /// This page again with `name=value` in the query.
    fn link(&self, name: &str, value: &str) -> String {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let kept = query.split('&').filter(|p| !p.is_empty() && !p.starts_with("lang=") && !p.starts_with("theme="));
        let mut link = format!("{path}?");
        for pair in kept {
            link.push_str(pair);
            link.push('&');
        }
        format!("{link}{name}={value}")
    }

    fn lang_link(&self) -> String {
        self.link("lang", self.lang.other().tag())
    }

    fn theme_link(&self, theme: &str) -> String {
        self.link("theme", theme)
    }

    fn is_theme(&self, theme: &str) -> bool {
        self.theme.as_str() == theme
    }

    /// Whether a top link leads to the part of the shop that this page belongs to.
    fn is_at(&self, prefix: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        path == prefix || (prefix != "/" && path.starts_with(prefix) && path.as_bytes().get(prefix.len()) == Some(&b'/'))
    }

    fn theme_name(&self, theme: &str) -> String {
        self.t(&format!("theme-{theme}"))
    }

    fn with_next(path: &str, next: &str) -> String {
        if next.is_empty() { path.to_owned() } else { format!("{path}?next={}", in_query(next)) }
    }

    fn is_admin(&self) -> bool {
        self.user.as_ref().is_some_and(|u| u.admin)
    }

    /// Where a visitor goes to log in and come back here.
    fn login_link(&self) -> String {
        if self.is_at("/login") || self.is_at("/register") || self.path == "/" {
            return "/login".to_owned();
        }
        Self::with_next("/login", self.path.split('?').next().unwrap_or_default())
    }

    fn zone_note(&self) -> String {
        self.f("zone-note", &[("zone", &format::zone_name(self.lang, &self.zone))])
    }

    /// What stands in place of "live" where no script runs: when these numbers were true.
    fn still(&self) -> String {
        self.f("still", &[("time", &format::exact(self, self.now))])
    }

    fn script_words(&self) -> script::ScriptWords {
        script::ScriptWords::new(self)
    }
}

/// A path as the value of a query parameter.
fn in_query(path: &str) -> String {
    path.replace('%', "%25").replace('&', "%26").replace('+', "%2B").replace('#', "%23").replace(' ', "%20")
}

/// Renders a page. A page is never kept by a cache: each has the reader's name on it or a number that ages.
fn respond(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => {
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CACHE_CONTROL, "no-store"),
                (header::VARY, "Accept-Language, Cookie"),
            ];
            (status, headers, html).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Lets handlers return a page as it is.
macro_rules! is_response {
    ($page:ty) => {
        impl axum::response::IntoResponse for $page {
            fn into_response(self) -> axum::response::Response {
                crate::web::page::respond(self.status, &self)
            }
        }
    };
}
use is_response;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
