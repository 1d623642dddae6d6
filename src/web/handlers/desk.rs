//! What the forms of the control room do to a sale. The service does it and writes it down; here is only what the admin
//! reads afterwards: 303 to the page that he came from, or his page again with why not.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::REFERER;
use axum::response::{IntoResponse, Redirect, Response};

use crate::domain::ids::VoucherId;
use crate::domain::voucher::{FieldError, FieldErrors};
use crate::service::control::{ControlError, Edit};
use crate::web::error::Problem;
use crate::web::extract::{Admin, Frame, PathId};
use crate::web::fields::{Fields, FormFields, QueryFields};
use crate::web::page::{Chrome, EndPage, Said, Typed};
use crate::web::room::{self, Look};
use crate::web::state::AppState;

/// `/admin`
pub async fn control_room(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let said = Said::of(&chrome, query.typed("done"));
    Ok(room::control_room(&state, chrome, said, Look::Asked).await?.into_response())
}

/// The path that a browser says it comes from; empty when it does not say.
fn came_from(headers: &HeaderMap) -> &str {
    let address = headers.get(REFERER).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let path = address.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or_default();
    path.split(['?', '#']).next().unwrap_or_default()
}

/// `/admin/vouchers/{id}`
pub async fn voucher(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let said = Said::of(&chrome, query.typed("done"));
    let (page, listed) = room::voucher_page(&state, chrome, id, said, Look::Asked).await?;
    // A browser that was sent here by the form says so; a reload or a link does not.
    let created = came_from(&headers) == "/admin/vouchers/new";
    Ok(if created { page.created(&listed.voucher).into_response() } else { page.into_response() })
}

/// Who acts, on what, and where he reads how it went.
struct Act<'a> {
    state: &'a AppState,
    chrome: Chrome,
    voucher: VoucherId,
    from: &'a str,
    typed: Typed,
}

impl Act<'_> {
    /// The page afterwards.
    async fn answer<T>(self, word: &str, done: Result<T, ControlError>) -> Result<Response, Problem> {
        let id = self.voucher;
        let error = match done {
            Ok(_) if self.from == "/admin" => return Ok(Redirect::to(&format!("/admin?done={word}")).into_response()),
            Ok(_) => return Ok(Redirect::to(&format!("/admin/vouchers/{id}?done={word}")).into_response()),
            Err(error) => error,
        };
        // The page's links lead to a page, not to the post.
        let chrome = Chrome { path: format!("/admin/vouchers/{id}"), ..self.chrome };
        let page = async || Ok::<_, Problem>(room::voucher_page(self.state, chrome, id, Said::default(), Look::Asked).await?.0);
        match error {
            ControlError::NotFound => Err(Problem::NotFound),
            ControlError::Over => Ok(page().await?.over().into_response()),
            ControlError::Conflict => {
                let status = axum::http::StatusCode::CONFLICT;
                Ok(page().await?.refused(status, "VERSION_CONFLICT", &self.typed, 0).into_response())
            }
            ControlError::Invalid(errors) => Ok(page().await?.invalid(&self.typed, &errors).into_response()),
            ControlError::Service(error) => match Problem::from(error) {
                problem @ (Problem::Busy(_) | Problem::Uncertain) => {
                    let ((_, code), status) = (problem.status_and_code(), problem.page_status());
                    let wait = problem.retry_after();
                    Ok(page().await?.refused(status, code, &self.typed, wait).into_response())
                }
                problem => Err(problem),
            },
        }
    }
}

fn act<'a>(state: &'a AppState, chrome: Chrome, voucher: VoucherId, headers: &'a HeaderMap) -> Act<'a> {
    Act { state, chrome, voucher, from: came_from(headers), typed: Typed::default() }
}

/// `POST /admin/vouchers/{id}/pause`
pub async fn pause(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let done = state.desk.control.set_paused(by.id, id, true).await;
    act(&state, chrome, id, &headers).answer("pause", done).await
}

/// `POST /admin/vouchers/{id}/resume`
pub async fn resume(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let done = state.desk.control.set_paused(by.id, id, false).await;
    act(&state, chrome, id, &headers).answer("resume", done).await
}

/// `POST /admin/vouchers/{id}/rebuild`: the repair.
pub async fn rebuild(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let done = state.desk.control.rebuild(by.id, id).await;
    act(&state, chrome, id, &headers).answer("rebuild", done).await
}

/// `GET /admin/vouchers/{id}/end`: asks once more.
pub async fn end_page(
    State(state): State<AppState>,
    _: Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    let voucher = state.store.voucher(id).await?.filter(|v| v.sale.is_some()).ok_or(Problem::NotFound)?;
    Ok(EndPage::new(chrome, &voucher).into_response())
}

/// `POST /admin/vouchers/{id}/end`
pub async fn end(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let done = state.desk.control.end(by.id, id).await;
    act(&state, chrome, id, &headers).answer("end", done).await
}

/// The version that a form was made for.
fn version(fields: &Fields) -> Result<i64, Problem> {
    fields.typed("version").parse().map_err(|_| Problem::Malformed)
}

/// Units to add, or, with a minus before them, to take away; people write `+50` too.
fn delta(typed: &str) -> Result<i64, FieldErrors> {
    let typed = typed.trim();
    let wrong = if typed.is_empty() { FieldError::Missing } else { FieldError::NotANumber };
    typed.parse().map_err(|_| FieldErrors::from([("delta", wrong)]))
}

/// `POST /admin/vouchers/{id}/stock`
pub async fn stock(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
    FormFields(fields): FormFields,
) -> Result<Response, Problem> {
    let (typed, version) = (fields.typed("delta"), version(&fields)?);
    let done = match delta(typed) {
        Ok(delta) => state.desk.control.change_stock(by.id, id, delta, version).await,
        Err(errors) => Err(ControlError::Invalid(errors)),
    };
    let act = act(&state, chrome, id, &headers);
    Act { typed: Typed { delta: typed.to_owned(), texts: None }, ..act }.answer("stock", done).await
}

/// `POST /admin/vouchers/{id}/edit`
pub async fn edit(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    Frame(chrome): Frame,
    headers: HeaderMap,
    FormFields(fields): FormFields,
) -> Result<Response, Problem> {
    let version = version(&fields)?;
    let text = |name| fields.text(name).map(|text| text.map(ToOwned::to_owned));
    let edit = Edit { title: text("title")?, sub_title: text("subTitle")?, rules: text("rules")? };
    let typed = [&edit.title, &edit.sub_title, &edit.rules].map(|text| text.clone().unwrap_or_default());
    let done = state.desk.control.edit(by.id, id, edit, version).await;
    let act = act(&state, chrome, id, &headers);
    Act { typed: Typed { delta: String::new(), texts: Some(typed) }, ..act }.answer("edit", done).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_added_with_and_without_a_plus_and_taken_with_a_minus() {
        assert_eq!([delta("50"), delta(" +50 "), delta("-20")], [Ok(50), Ok(50), Ok(-20)]);
        assert!(["", "x", "1.5", "+-5", "５０"].iter().all(|bad| delta(bad).is_err()));
    }
}
