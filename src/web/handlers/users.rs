//! `/api/user…`: register, log in and out, change the password, who am I.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::domain::ids::UserId;
use crate::web::error::Problem;
use crate::web::extract::{Admin, Caller, ClientAddress, Frame, LoggedIn, PathId};
use crate::web::fields::{Fields, JsonFields, QueryFields};
use crate::web::handlers::sign_in;
use crate::web::page::SandboxSmsPage;
use crate::web::reply;
use crate::web::session::{Guessed, SessionUser};
use crate::web::state::AppState;

/// `POST /api/user/register`
pub async fn register(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    JsonFields(fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(&["phone", "password", "nickName"])?;
    let token = sign_in::register(&state, caller, &headers, &fields).await?;
    Ok(sign_in::with_cookie(&state, &token, reply::ok(&token)))
}

/// `POST /api/user/login`
pub async fn login(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    JsonFields(fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(&["phone", "password", "code"])?;
    let token = sign_in::login(&state, caller, &headers, &fields).await?;
    Ok(sign_in::with_cookie(&state, &token, reply::ok(&token)))
}

/// `POST /api/user/code?phone=P`
pub async fn code(State(state): State<AppState>, caller: Caller, QueryFields(query): QueryFields) -> Result<Response, Problem> {
    sign_in::send_code(&state, caller, query.typed("phone")).await?;
    Ok(reply::done())
}

/// `GET /sandbox-sms`: what the built-in sender would have sent. Whoever reads it can log in as anybody, so it is for this
/// machine alone, unless the operator asked for more.
pub async fn sandbox_sms(
    State(state): State<AppState>,
    ClientAddress(client): ClientAddress,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let sandbox = state.sandbox_sms.as_ref().filter(|_| state.sandbox_for_all || client.is_loopback());
    Ok(SandboxSmsPage::new(chrome, &sandbox.ok_or(Problem::NotFound)?.sent()).into_response())
}

/// `POST /api/user/logout`
pub async fn logout(State(state): State<AppState>, LoggedIn(user): LoggedIn) -> Result<Response, Problem> {
    state.sessions.end(&user).await?;
    Ok(sign_in::without_cookie(&state, reply::done()))
}

/// `POST /api/user/password`
pub async fn password(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    headers: HeaderMap,
    JsonFields(fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(&["oldPassword", "newPassword"])?;
    change_password(&state, &user, &fields).await?;
    let token = sign_in::rotate(&state, &headers, &user).await;
    Ok(match token {
        Some(token) => sign_in::with_cookie(&state, &token, reply::done()),
        None => reply::done(),
    })
}

/// What API and form share: the other sessions end before the new password counts, so that a failure in between leaves
/// a user who has to log in again and never a thief who need not; and once more after, for a login in that moment.
pub async fn change_password(state: &AppState, user: &SessionUser, fields: &Fields) -> Result<(), Problem> {
    sign_in::count_guess(state, Guessed::Own(user.id.0)).await?;
    let (old, new) = (fields.text("oldPassword")?.unwrap_or_default(), fields.text("newPassword")?.unwrap_or_default());
    let hash = state.users.check_new_password(user.id, old, new).await?;
    state.sessions.end_all(user.id, Some(&user.session)).await?;
    state.users.save_password(user.id, &hash).await?;
    if let Err(error) = state.sessions.end_all(user.id, Some(&user.session)).await {
        tracing::warn!(%error, user = user.id.0, "sessions made while a password changed were not looked for");
    }
    Ok(())
}

/// `GET /api/user/me`
pub async fn me(State(state): State<AppState>, LoggedIn(user): LoggedIn) -> Result<Response, Problem> {
    let user = state.users.by_id(user.id).await?.ok_or(Problem::LoginRequired)?;
    Ok(reply::ok(json!({
        "id": user.id,
        "nickName": user.nick_name,
        "icon": "",
        "admin": user.admin,
        "credits": user.credits,
    })))
}

/// `GET /api/user/info/{id}`: nothing more is told of anybody; the pages that ask take that well.
pub async fn info(PathId(_): PathId<UserId>) -> Response {
    reply::done()
}

/// `POST /api/user/{id}/disable`: no new session first, then the old ones end, their sockets with them.
pub async fn disable(
    State(state): State<AppState>,
    Admin(admin): Admin,
    PathId(id): PathId<UserId>,
) -> Result<Response, Problem> {
    if !state.users.set_disabled(id, true, admin.id).await? {
        return Err(Problem::NotFound);
    }
    state.sessions.end_all(id, None).await?;
    Ok(reply::ok(json!({ "id": id, "disabled": true })))
}

/// `POST /api/user/{id}/enable`
pub async fn enable(State(state): State<AppState>, Admin(admin): Admin, PathId(id): PathId<UserId>) -> Result<Response, Problem> {
    if !state.users.set_disabled(id, false, admin.id).await? {
        return Err(Problem::NotFound);
    }
    Ok(reply::ok(json!({ "id": id, "disabled": false })))
}

/// `POST /api/user/{id}/logout`: ends every session of a user.
pub async fn logout_everywhere(
    State(state): State<AppState>,
    Admin(admin): Admin,
    PathId(id): PathId<UserId>,
) -> Result<Response, Problem> {
    state.users.by_id(id).await?.ok_or(Problem::NotFound)?;
    state.users.log_sessions_ended(id, admin.id).await?;
    state.sessions.end_all(id, None).await?;
    Ok(reply::done())
}
