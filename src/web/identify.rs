//! The first interceptor: who sends this request? It never refuses anybody and runs in front of every route.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::web::session::{Known, SessionUser, token_in_cookie, token_in_header};
use crate::web::state::AppState;

/// Who sends a request, as far as can be told.
#[derive(Debug, Clone)]
pub enum Visitor {
    /// No token.
    Nobody,
    /// A living session.
    User(Arc<SessionUser>),
    /// A token that is no longer, or never was, a session.
    Stale,
    /// The header says one user, the cookie another: neither may act.
    Torn,
    /// There is a token, and sessions cannot be asked.
    CannotTell,
}

/// Marks a request whose `authorization` header carries the token of a living session, or one that cannot be judged while
/// sessions cannot be asked (such a request hears BUSY wherever it matters).
#[derive(Debug, Clone, Copy)]
pub struct ByToken;

impl Visitor {
    /// The user, when it is one.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<SessionUser>> {
        match self {
            Self::User(user) => Some(user),
            _ => None,
        }
    }
}

impl From<Known> for Visitor {
    fn from(known: Known) -> Self {
        match known {
            Known::Yes(user) => Self::User(user),
            Known::No => Self::Stale,
            Known::CannotTell => Self::CannotTell,
        }
    }
}

/// What the two places say together. The header wins over a cookie that says nothing; two living users are torn.
fn together(header: Option<Known>, cookie: Option<Known>) -> Visitor {
    match (header, cookie) {
        (None, None) => Visitor::Nobody,
        (Some(Known::Yes(header)), Some(Known::Yes(cookie))) if header.id != cookie.id => Visitor::Torn,
        (Some(known), _) | (None, Some(known)) => known.into(),
    }
}

/// Puts a [`Visitor`] into the request and sends it on.
pub async fn identify(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    identified(&state, &mut request).await;
    next.run(request).await
}

/// Puts a [`Visitor`] into the request. Without a token Redis is not asked.
pub async fn identified(state: &AppState, request: &mut Request) {
    let headers = request.headers();
    let in_header = token_in_header(headers);
    // The same token twice is one question.
    let in_cookie = token_in_cookie(headers, &state.cookie).filter(|token| Some(*token) != in_header);
    let header = match in_header {
        Some(token) => Some(state.sessions.load(token).await),
        None => None,
    };
    let cookie = match in_cookie {
        Some(token) => Some(state.sessions.load(token).await),
        None => None,
    };
    if matches!(header, Some(Known::Yes(_) | Known::CannotTell)) {
        request.extensions_mut().insert(ByToken);
    }
    let visitor = together(header, cookie);
    request.extensions_mut().insert(visitor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::UserId;

    fn known(id: i64) -> Known {
        let user = SessionUser { id: UserId(id), nick_name: String::new(), admin: false, session: "".into() };
        Known::Yes(Arc::new(user))
    }

    #[test]
    fn a_cookie_of_one_user_and_a_token_of_another_are_nobody() {
        assert!(matches!(together(Some(known(1)), Some(known(2))), Visitor::Torn));
        assert!(matches!(together(Some(known(1)), Some(known(1))), Visitor::User(_)));
        assert!(matches!(together(Some(known(1)), Some(Known::No)), Visitor::User(_)));
        assert!(matches!(together(Some(Known::No), Some(known(1))), Visitor::Stale));
        assert!(matches!(together(None, Some(known(1))), Visitor::User(_)));
        assert!(matches!(together(None, Some(Known::CannotTell)), Visitor::CannotTell));
        assert!(matches!(together(None, None), Visitor::Nobody));
    }
}
