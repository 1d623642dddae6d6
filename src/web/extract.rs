//! What handlers ask of a request: strict ids, the second interceptor (who may go on), the frame of a page.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;

use crate::domain::ids::BadId;
use crate::i18n::Lang;
use crate::web::client_address::client_address;
use crate::web::error::Problem;
use crate::web::fields::QueryFields;
use crate::web::identify::Visitor;
use crate::web::limits::Client;
use crate::web::own_path::own_path;
use crate::web::page::{self, Chrome, Theme};
use crate::web::session::{SessionUser, cookie};
use crate::web::state::AppState;

/// Whether a path belongs to the API: always JSON there.
#[must_use]
pub fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// The one id in the path. Anything but `[1-9][0-9]{0,18}` is `MALFORMED` in the API and `NOT_FOUND` on pages.
#[derive(Debug, Clone, Copy)]
pub struct PathId<T>(pub T);

impl<T: FromStr<Err = BadId>> FromRequestParts<AppState> for PathId<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let bad = if is_api(parts.uri.path()) { Problem::Malformed } else { Problem::NotFound };
        let Ok(params) = RawPathParams::from_request_parts(parts, state).await else { return Err(bad) };
        params.iter().next().and_then(|(_, text)| text.parse().ok()).map(Self).ok_or(bad)
    }
}

fn visitor(parts: &Parts) -> Visitor {
    parts.extensions.get::<Visitor>().cloned().unwrap_or(Visitor::Nobody)
}

/// Whoever it is, also nobody.
#[derive(Debug, Clone)]
pub struct Who(pub Visitor);

impl FromRequestParts<AppState> for Who {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Self::Rejection> {
        Ok(Self(visitor(parts)))
    }
}

/// The second interceptor: a user with a living session. Others hear `LOGIN_REQUIRED`, or `BUSY` while sessions cannot be asked.
#[derive(Debug, Clone)]
pub struct LoggedIn(pub Arc<SessionUser>);

impl LoggedIn {
    /// The user of a visitor.
    pub fn of(visitor: Visitor) -> Result<Self, Problem> {
        match visitor {
            Visitor::User(user) => Ok(Self(user)),
            Visitor::CannotTell => Err(Problem::Busy(String::from("sessions cannot be asked"))),
            Visitor::Nobody | Visitor::Stale | Visitor::Torn => Err(Problem::LoginRequired),
        }
    }
}

impl FromRequestParts<AppState> for LoggedIn {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        Self::of(visitor(parts))
    }
}

/// Whether this user may use the control room now. The session only remembers that he might when he logged in; the row decides,
/// so that whoever loses the role loses it with his next request. Other users cost no question.
pub async fn is_admin_now(state: &AppState, user: &SessionUser) -> Result<bool, Problem> {
    if !user.admin {
        return Ok(false);
    }
    Ok(state.users.by_id(user.id).await?.is_some_and(|row| row.admin && !row.disabled))
}

/// A user who may use the control room. Other users hear FORBIDDEN.
#[derive(Debug, Clone)]
pub struct Admin(pub Arc<SessionUser>);

impl FromRequestParts<AppState> for Admin {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let LoggedIn(user) = LoggedIn::of(visitor(parts))?;
        if is_admin_now(state, &user).await? { Ok(Self(user)) } else { Err(Problem::Forbidden) }
    }
}

/// Who is counted by the limits: the user, or the address of whoever is not logged in.
#[derive(Debug, Clone)]
pub struct Caller(pub Client);

impl FromRequestParts<AppState> for Caller {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Self::Rejection> {
        Ok(Self(match visitor(parts) {
            Visitor::User(user) => Client::User(user.id),
            _ => Client::at(client_address(parts, &state.trusted_proxies)),
        }))
    }
}

/// Where a request comes from, after trusted proxies.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub std::net::IpAddr);

impl FromRequestParts<AppState> for ClientAddress {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Self::Rejection> {
        Ok(Self(client_address(parts, &state.trusted_proxies)))
    }
}

/// The language of an answer: `?lang=`, then its cookie, then `Accept-Language`.
#[must_use]
pub fn lang_of(query: Option<&str>, headers: &HeaderMap) -> Lang {
    let asked = query.filter(|q| q.contains("lang=")).map(|q| QueryFields::of(Some(q)).0);
    let asked = asked.and_then(|fields| Lang::from_tag(fields.typed("lang")));
    let remembered = || cookie(headers, "lang").and_then(Lang::from_tag);
    let accepted = || Lang::from_accept_language(headers.get(ACCEPT_LANGUAGE).and_then(|h| h.to_str().ok()));
    asked.or_else(remembered).unwrap_or_else(accepted)
}

fn theme_of(query: Option<&str>, headers: &HeaderMap) -> Theme {
    let asked = query.filter(|q| q.contains("theme=")).map(|q| QueryFields::of(Some(q)).0);
    let asked = asked.and_then(|fields| Theme::from_word(fields.typed("theme")));
    asked.or_else(|| cookie(headers, "theme").and_then(Theme::from_word)).unwrap_or_default()
}

/// What every page needs besides its own subject.
#[must_use]
pub fn chrome(parts: &Parts, state: &AppState) -> Chrome {
    let (query, visitor) = (parts.uri.query(), visitor(parts));
    Chrome {
        lang: lang_of(query, &parts.headers),
        theme: theme_of(query, &parts.headers),
        user: visitor.user().map(|u| page::Visitor { name: u.nick_name.clone(), admin: u.admin }),
        // Links on the page are made of it: what a browser could read as somebody else's host must not come back as one.
        path: parts.uri.path_and_query().and_then(|p| own_path(p.as_str())).unwrap_or("/").to_owned(),
        zone: state.zone.clone(),
        now: state.clock.now(),
        pay_window: state.pay_window,
        sessions_away: matches!(visitor, Visitor::CannotTell),
    }
}

/// [`chrome`] as an extractor.
#[derive(Debug, Clone)]
pub struct Frame(pub Chrome);

impl FromRequestParts<AppState> for Frame {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Self::Rejection> {
        Ok(Self(chrome(parts, state)))
    }
}
