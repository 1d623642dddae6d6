//! What API and forms share of logging in and registering: limits first, then the check, then a new session.

use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use secrecy::SecretString;

use crate::domain::user::Phone;
use crate::domain::voucher::{FieldError, FieldErrors};
use crate::service::users::{Entry, Registration};
use crate::web::error::Problem;
use crate::web::extract::Caller;
use crate::web::fields::Fields;
use crate::web::session::{Guessed, Sent, SessionUser, token_in_cookie, token_in_header};
use crate::web::state::AppState;

/// Logs in with `phone` and `password`, or with `phone` and `code`; answers a new token.
pub async fn login(state: &AppState, caller: Caller, headers: &HeaderMap, fields: &Fields) -> Result<String, Problem> {
    state.limits.count_login(caller.0)?;
    let phone = fields.text("phone")?.unwrap_or_default();
    if let Some(code) = fields.text("code")?.filter(|code| !code.is_empty()) {
        return login_by_code(state, headers, phone, code).await;
    }
    let Some(password) = fields.text("password")?.filter(|p| !p.is_empty()) else {
        return Err(Problem::Invalid(FieldErrors::from([("password", FieldError::Missing)])));
    };
    let phone = Phone::parse(phone).map_err(|_| Problem::BadPhone)?;
    let guess = Guessed::Password(phone.as_str());
    count_guess(state, guess).await?;
    let entry = state.users.login(&phone, password).await?;
    state.guesses.forget(guess).await;
    open_session(state, headers, entry).await
}

/// Counted before the costly check, and right guesses too: a count of wrong ones would tell which one was right.
pub async fn count_guess(state: &AppState, guess: Guessed<'_>) -> Result<(), Problem> {
    match state.guesses.count(guess, state.clock.now()).await? {
        0 => Ok(()),
        seconds => Err(Problem::TooMany(seconds)),
    }
}

/// A right code shows that the phone is his: a phone without an account gets one.
async fn login_by_code(state: &AppState, headers: &HeaderMap, phone: &str, code: &str) -> Result<String, Problem> {
    let phone = Phone::parse(phone).map_err(|_| Problem::BadPhone)?;
    let guess = Guessed::Code(phone.as_str());
    count_guess(state, guess).await?;
    if !state.codes.is_right(&phone, code).await? {
        return Err(Problem::BadCode);
    }
    state.guesses.forget(guess).await;
    let user = state.users.by_phone_or_new(&phone).await?;
    open_session(state, headers, user).await
}

/// Sends a login code to `phone`.
pub async fn send_code(state: &AppState, caller: Caller, phone: &str) -> Result<(), Problem> {
    state.limits.count_login(caller.0)?;
    let phone = Phone::parse(phone).map_err(|_| Problem::BadPhone)?;
    match state.codes.send(&phone).await? {
        Sent::Yes => Ok(()),
        Sent::Wait(seconds) => Err(Problem::TooMany(seconds)),
        Sent::NoSender => Err(Problem::NotFound),
    }
}

/// Makes an account and logs it in; answers a new token.
pub async fn register(state: &AppState, caller: Caller, headers: &HeaderMap, fields: &Fields) -> Result<String, Problem> {
    state.limits.count_registration(caller.0)?;
    let typed = Registration {
        phone: fields.text("phone")?.unwrap_or_default().to_owned(),
        password: SecretString::from(fields.text("password")?.unwrap_or_default()),
        nick_name: fields.text("nickName")?.map(ToOwned::to_owned),
        admin: false,
    };
    let user = state.users.register(typed).await?;
    open_session(state, headers, user).await
}

/// A new session; whatever session the request came with is dead afterwards, in header and cookie alike.
async fn open_session(state: &AppState, headers: &HeaderMap, entry: impl Into<Entry>) -> Result<String, Problem> {
    let entry = entry.into();
    let old = [token_in_header(headers), token_in_cookie(headers, &state.cookie)];
    let old: Vec<&str> = old.into_iter().flatten().collect();
    let (token, session) = state.sessions.create(&entry.user, &old).await?;
    let welcome = state.users.still_welcome(&entry).await;
    if !matches!(welcome, Ok(true)) {
        state.sessions.end(&session).await?;
        welcome?;
        return Err(Problem::BadCredentials);
    }
    Ok(token)
}

/// A new session in place of the present one, for a browser: after a change of password its old cookie is worth nothing.
/// A program keeps the token that it holds: nobody would hand it the new one. None: nothing was to be handed out, or
/// sessions could not be asked just now, and the present one goes on.
pub async fn rotate(state: &AppState, headers: &HeaderMap, user: &SessionUser) -> Option<String> {
    let (None, Some(old)) = (token_in_header(headers), token_in_cookie(headers, &state.cookie)) else { return None };
    let user = state.users.by_id(user.id).await.ok()??;
    match state.sessions.create(&user, &[old]).await {
        Ok((token, _)) => Some(token),
        Err(error) => {
            tracing::warn!(%error, user = user.id.0, "a session was not renewed after a change of password");
            None
        }
    }
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
