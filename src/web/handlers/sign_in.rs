//! What API and forms share of logging in and registering: limits first, then the check, then a new session.

use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use secrecy::SecretString;

use crate::domain::user::{Phone, User};
use crate::domain::voucher::{FieldError, FieldErrors};
use crate::service::users::Registration;
use crate::web::error::Problem;
use crate::web::extract::Caller;
use crate::web::fields::Fields;
use crate::web::limits::Bucket;
use crate::web::session::{Sent, token_in_cookie, token_in_header};
use crate::web::state::AppState;

/// Logs in with `phone` and `password`, or with `phone` and `code`; answers a new token.
pub async fn login(state: &AppState, caller: Caller, headers: &HeaderMap, fields: &Fields) -> Result<String, Problem> {
    state.limits.count(Bucket::Login, caller.0)?;
    let phone = fields.text("phone")?.unwrap_or_default();
    if let Some(code) = fields.text("code")?.filter(|code| !code.is_empty()) {
        return login_by_code(state, headers, phone, code).await;
    }
    let Some(password) = fields.text("password")?.filter(|p| !p.is_empty()) else {
        return Err(Problem::Invalid(FieldErrors::from([("password", FieldError::Missing)])));
    };
    let phone = Phone::parse(phone).map_err(|_| Problem::BadPhone)?;
    // Counted before the costly check, and right guesses too: a count of wrong ones would tell which one was right.
    state.limits.count_guess(&phone)?;
    let user = state.users.login(&phone, password).await?;
    open_session(state, headers, &user).await
}

/// A right code shows that the phone is his: a phone without an account gets one.
async fn login_by_code(state: &AppState, headers: &HeaderMap, phone: &str, code: &str) -> Result<String, Problem> {
    let phone = Phone::parse(phone).map_err(|_| Problem::BadPhone)?;
    state.limits.count_guess(&phone)?;
    if !state.codes.is_right(&phone, code).await? {
        return Err(Problem::BadCode);
    }
    let user = state.users.by_phone_or_new(&phone).await?;
    open_session(state, headers, &user).await
}

/// Sends a login code to `phone`.
pub async fn send_code(state: &AppState, caller: Caller, phone: &str) -> Result<(), Problem> {
    state.limits.count(Bucket::Login, caller.0)?;
    let phone = Phone::parse(phone).map_err(|_| Problem::BadPhone)?;
    match state.codes.send(&phone).await? {
        Sent::Yes => Ok(()),
        Sent::Wait(seconds) => Err(Problem::TooMany(seconds)),
        Sent::NoSender => Err(Problem::NotFound),
    }
}

/// Makes an account and logs it in; answers a new token.
pub async fn register(state: &AppState, caller: Caller, headers: &HeaderMap, fields: &Fields) -> Result<String, Problem> {
    state.limits.count(Bucket::Login, caller.0)?;
    let typed = Registration {
        phone: fields.text("phone")?.unwrap_or_default().to_owned(),
        password: SecretString::from(fields.text("password")?.unwrap_or_default()),
        nick_name: fields.text("nickName")?.map(ToOwned::to_owned),
        admin: false,
    };
    let user = state.users.register(typed).await?;
    open_session(state, headers, &user).await
}

/// A new session; whatever session the request came with is dead afterwards, in header and cookie alike.
async fn open_session(state: &AppState, headers: &HeaderMap, user: &User) -> Result<String, Problem> {
    let old = [token_in_header(headers), token_in_cookie(headers, &state.cookie)];
    let old: Vec<&str> = old.into_iter().flatten().collect();
    Ok(state.sessions.create(user, &old).await?.0)
}

/// Hands `token` to the browser, too.
#[must_use]
pub fn with_cookie(state: &AppState, token: &str, mut response: Response) -> Response {
    if let Some(cookie) = state.cookie.set(token) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// Takes the cookie back.
#[must_use]
pub fn without_cookie(state: &AppState, mut response: Response) -> Response {
    if let Some(cookie) = state.cookie.clear() {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
