//! Forms about the user himself: `/login`, `/register`, `/logout`, `/account`.

use std::net::IpAddr;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};

use crate::web::error::Problem;
use crate::web::extract::{Caller, ClientAddress, Frame, LoggedIn, Who};
use crate::web::fields::{FormFields, QueryFields};
use crate::web::handlers::{sign_in, users};
use crate::web::own_path::own_path;
use crate::web::page::{AccountPage, Chrome, LoginPage, RegisterPage};
use crate::web::scheme::{after_login, is_back_from_login};
use crate::web::state::AppState;

/// The path to go on to; the front page for anything that is not one of ours.
fn onward(next: &str) -> &str {
    own_path(next).unwrap_or("/")
}

/// What the form carries along: empty when there is nowhere special to go.
fn carried(next: &str) -> &str {
    own_path(next).unwrap_or_default()
}

/// The page of both logins, as far as this shop has both.
fn login_form(state: &AppState, chrome: Chrome, next: &str, client: IpAddr) -> LoginPage {
    let page = LoginPage::new(chrome, carried(next));
    let sandbox = state.sandbox_sms.is_some() && (state.sandbox_for_all || client.is_loopback());
    if state.codes.can_send() { page.with_codes(sandbox) } else { page }
}

/// `GET /login`
pub async fn login_page(
    State(state): State<AppState>,
    Who(visitor): Who,
    ClientAddress(client): ClientAddress,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Response {
    let next = query.typed("next");
    if visitor.user().is_some() {
        return Redirect::to(onward(next)).into_response();
    }
    let page = login_form(&state, chrome, next, client);
    let back = is_back_from_login(&state.cookie, query.typed("came"));
    if back { page.not_kept(&state.public_url.0).into_response() } else { page.into_response() }
}

/// `POST /login`: with a password, with a code, or (`do=code`) to be sent one.
pub async fn login(
    State(state): State<AppState>,
    caller: Caller,
    ClientAddress(client): ClientAddress,
    headers: HeaderMap,
    Frame(chrome): Frame,
    FormFields(fields): FormFields,
) -> Result<Response, Problem> {
    let (next, phone, asks) = (fields.typed("next"), fields.typed("phone"), fields.typed("do") == "code");
    // Only the second form has this field.
    let by_code = asks || fields.text("code")?.is_some();
    let page = |sent| {
        let page = login_form(&state, chrome.clone(), next, client);
        if by_code { page.in_codes(phone, sent) } else { page }
    };
    let refused = |problem: Problem| {
        let (_, code) = problem.status_and_code();
        let (status, wait) = (problem.page_status(), problem.retry_after());
        waiting(wait, page(false).refused(status, code, phone, wait).into_response())
    };
    if asks {
        return match sign_in::send_code(&state, caller, phone).await {
            Ok(()) => Ok(page(true).into_response()),
            Err(problem @ (Problem::Internal(_) | Problem::Malformed | Problem::NotFound)) => Err(problem),
            Err(problem) => Ok(refused(problem)),
        };
    }
    match sign_in::login(&state, caller, &headers, &fields).await {
        Ok(token) => Ok(sign_in::with_cookie(&state, &token, after_login(&state.cookie, &headers, next).into_response())),
        Err(problem @ (Problem::Internal(_) | Problem::Malformed)) => Err(problem),
        Err(problem) => {
            // A form without a password or a code is a wrong one: one sentence for everything that does not fit.
            let nothing = if by_code { Problem::BadCode } else { Problem::BadCredentials };
            Ok(refused(if matches!(problem, Problem::Invalid(_)) { nothing } else { problem }))
        }
    }
}

/// `GET /register`
pub async fn register_page(Who(visitor): Who, Frame(chrome): Frame, QueryFields(query): QueryFields) -> Response {
    let next = query.typed("next");
    if visitor.user().is_some() {
        return Redirect::to(onward(next)).into_response();
    }
    RegisterPage::new(chrome, carried(next)).into_response()
}

/// `POST /register`
pub async fn register(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    Frame(chrome): Frame,
    FormFields(fields): FormFields,
) -> Result<Response, Problem> {
    let next = fields.typed("next");
    let page = RegisterPage::new(chrome, carried(next));
    let (phone, name) = (fields.typed("phone"), fields.typed("nickName"));
    match sign_in::register(&state, caller, &headers, &fields).await {
        Ok(token) => Ok(sign_in::with_cookie(&state, &token, after_login(&state.cookie, &headers, next).into_response())),
        Err(Problem::Invalid(errors)) => Ok(page.invalid(phone, name, &errors).into_response()),
        Err(problem @ (Problem::Internal(_) | Problem::Malformed)) => Err(problem),
        Err(problem) => {
            let ((_, code), status, wait) = (problem.status_and_code(), problem.page_status(), problem.retry_after());
            Ok(waiting(wait, page.refused(status, code, phone, name, wait).into_response()))
        }
    }
}

fn waiting(seconds: u64, mut response: Response) -> Response {
    if seconds > 0 {
        response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// `POST /logout`: also for somebody who is logged out already.
pub async fn logout(State(state): State<AppState>, Who(visitor): Who) -> Result<Response, Problem> {
    match LoggedIn::of(visitor) {
        Ok(LoggedIn(user)) => state.sessions.end(&user).await?,
        Err(Problem::LoginRequired) => {}
        // The session would live on behind a cleared cookie.
        Err(problem) => return Err(problem),
    }
    Ok(sign_in::without_cookie(&state, Redirect::to("/").into_response()))
}

/// `GET /account`
pub async fn account(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let user = state.users.by_id(user.id).await?.ok_or(Problem::LoginRequired)?;
    Ok(AccountPage::new(chrome, &user, query.typed("password") == "changed").into_response())
}

/// `POST /account/password`
pub async fn password(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    Frame(mut chrome): Frame,
    headers: HeaderMap,
    FormFields(fields): FormFields,
) -> Result<Response, Problem> {
    let problem = match users::change_password(&state, &user, &fields).await {
        Ok(()) => {
            let page = Redirect::to("/account?password=changed").into_response();
            return Ok(match sign_in::rotate(&state, &headers, &user).await {
                Some(token) => sign_in::with_cookie(&state, &token, page),
                None => page,
            });
        }
        Err(problem) => problem,
    };
    let person = state.users.by_id(user.id).await?.ok_or(Problem::LoginRequired)?;
    chrome.path = String::from("/account");
    let page = AccountPage::new(chrome, &person, false);
    match problem {
        Problem::Invalid(errors) => Ok(page.invalid(&errors).into_response()),
        Problem::BadCredentials | Problem::TooMany(_) | Problem::Busy(_) => {
            let (_, code) = problem.status_and_code();
            let (status, wait) = (problem.page_status(), problem.retry_after());
            Ok(waiting(wait, page.refused(status, code, wait).into_response()))
        }
        problem => Err(problem),
    }
}
