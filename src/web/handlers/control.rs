//! `/api/admin/sale…` and `/api/admin/voucher…`: how a sale stands, and what an admin does to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

use crate::domain::ids::{UserId, VoucherId};
use crate::domain::time::Millis;
use crate::domain::voucher::{FieldError, Voucher};
use crate::service::control::{ControlError, Edit, version_of};
use crate::service::figures::SaleFigures;
use crate::service::rings::Sample;
use crate::web::error::Problem;
use crate::web::extract::{Admin, PathId};
use crate::web::fields::{Fields, JsonFields, OptionalJson};
use crate::web::reply;
use crate::web::state::AppState;

/// The figures of a sale; what nobody can tell now is left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FiguresJson {
    voucher_id: VoucherId,
    state: &'static str,
    version: i64,
    epoch: i64,
    stock_total: i64,
    stock_left: i64,
    live_orders: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    redis_stock: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<i64>,
    unapplied: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    balanced: Option<bool>,
    admitted: i64,
    pending: i64,
    paid: i64,
    cancelled: i64,
    timed_out: i64,
    refunding: i64,
    refunded: i64,
    failed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<BTreeMap<String, i64>>,
    /// Orders saved in a second, lately, as this process saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_per_second: Option<i64>,
    /// Entries of the sale's lane that wait to be saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<i64>,
    /// Open in the process that answers.
    sockets: usize,
    begin_time: Millis,
    end_time: Millis,
    as_of: Millis,
}

impl FiguresJson {
    /// The figures as the API and the socket tell them.
    #[must_use]
    pub fn new(state: &AppState, figures: &SaleFigures) -> Self {
        let (books, terms) = (&figures.books, figures.terms());
        Self {
            voucher_id: figures.voucher,
            state: figures.state.as_str(),
            version: books.version,
            epoch: books.epoch,
            stock_total: books.total,
            stock_left: books.left,
            live_orders: books.live,
            redis_stock: terms.map(|t| t.r),
            in_flight: terms.map(|t| t.f),
            unapplied: terms.map_or(books.unapplied, |t| t.u),
            balanced: figures.balanced(),
            admitted: figures.admitted(),
            pending: books.pending,
            paid: books.paid,
            cancelled: books.cancelled,
            timed_out: books.timed_out,
            refunding: books.refunding,
            refunded: books.refunded,
            failed: books.failed,
            refused: figures.refused.as_ref().map(|codes| codes.iter().cloned().collect()),
            saved_per_second: state.desk.rings.saved_per_second(figures.voucher),
            waiting: figures.waiting,
            sockets: state.desk.sockets(),
            begin_time: books.begin,
            end_time: books.end,
            as_of: figures.as_of,
        }
    }
}

async fn figures(state: &AppState, voucher: VoucherId) -> Result<Arc<SaleFigures>, Problem> {
    state.desk.figures.now(voucher).await?.ok_or(Problem::NotFound)
}

async fn told(state: &AppState, voucher: VoucherId) -> Result<Response, Problem> {
    Ok(reply::ok(FiguresJson::new(state, &*figures(state, voucher).await?)))
}

fn voucher_json(voucher: &Voucher) -> serde_json::Value {
    let fields = &voucher.fields;
    json!({
        "id": voucher.id,
        "title": fields.title,
        "subTitle": fields.sub_title,
        "rules": fields.rules,
        "version": version_of(voucher),
    })
}

/// What an action on a sale that did not happen means; the second editor hears how it stands.
async fn refused(state: &AppState, voucher: VoucherId, error: ControlError) -> Problem {
    let latest = || async {
        let figures = figures(state, voucher).await?;
        serde_json::to_value(FiguresJson::new(state, &figures)).map_err(|e| Problem::Internal(e.to_string()))
    };
    match error {
        ControlError::NotFound => Problem::NotFound,
        ControlError::Invalid(fields) => Problem::Invalid(fields),
        ControlError::Service(error) => error.into(),
        ControlError::Conflict => latest().await.map_or_else(|problem| problem, Problem::VersionConflict),
        ControlError::Over => latest().await.map_or_else(|problem| problem, Problem::SaleOver),
    }
}

/// Refuses a body that says something to a call that takes nothing.
fn nothing_in(body: Option<&Fields>) -> Result<(), Problem> {
    body.map_or(Ok(()), |fields| fields.only(&[]))
}

/// `GET /api/admin/sale/{voucherId}`
pub async fn sale(State(state): State<AppState>, _: Admin, PathId(id): PathId<VoucherId>) -> Result<Response, Problem> {
    told(&state, id).await
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampleJson {
    at: Millis,
    admitted: i64,
    saved: i64,
    paid: i64,
    refused: i64,
    redis_stock: i64,
    waiting: i64,
}

impl From<Sample> for SampleJson {
    fn from(s: Sample) -> Self {
        Self {
            at: s.at,
            admitted: s.admitted,
            saved: s.saved,
            paid: s.paid,
            refused: s.refused,
            redis_stock: s.left,
            waiting: s.waiting,
        }
    }
}

/// `GET /api/admin/sale/{voucherId}/samples`: the last ten minutes as this process saw them.
pub async fn samples(State(state): State<AppState>, _: Admin, PathId(id): PathId<VoucherId>) -> Result<Response, Problem> {
    figures(&state, id).await?;
    let items: Vec<SampleJson> = state.desk.rings.of(id).into_iter().map(SampleJson::from).collect();
    Ok(reply::ok(json!({ "items": items })))
}

async fn set_paused(state: &AppState, by: UserId, id: VoucherId, paused: bool) -> Result<Response, Problem> {
    match state.desk.control.set_paused(by, id, paused).await {
        Ok(()) => told(state, id).await,
        Err(error) => Err(refused(state, id, error).await),
    }
}

/// `POST /api/admin/sale/{voucherId}/pause`
pub async fn pause(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    nothing_in(body.as_ref())?;
    set_paused(&state, by.id, id, true).await
}

/// `POST /api/admin/sale/{voucherId}/resume`
pub async fn resume(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    nothing_in(body.as_ref())?;
    set_paused(&state, by.id, id, false).await
}

/// `POST /api/admin/sale/{voucherId}/end`
pub async fn end(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    nothing_in(body.as_ref())?;
    match state.desk.control.end(by.id, id).await {
        Ok(()) => told(&state, id).await,
        Err(error) => Err(refused(&state, id, error).await),
    }
}

/// `POST /api/admin/sale/{voucherId}/rebuild`
pub async fn rebuild(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Problem> {
    nothing_in(body.as_ref())?;
    match state.desk.control.rebuild(by.id, id).await {
        Ok(()) => told(&state, id).await,
        Err(error) => Err(refused(&state, id, error).await),
    }
}

fn needed(fields: &mut Fields, name: &'static str) -> i64 {
    let read = fields.integer(name);
    if read.is_none() {
        fields.errors.entry(name).or_insert(FieldError::Missing);
    }
    read.unwrap_or(0)
}

fn no_errors(fields: &mut Fields) -> Result<(), Problem> {
    if fields.errors.is_empty() { Ok(()) } else { Err(Problem::Invalid(std::mem::take(&mut fields.errors))) }
}

/// `POST /api/admin/sale/{voucherId}/stock`
pub async fn stock(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    JsonFields(mut fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(&["delta", "version"])?;
    let (delta, version) = (needed(&mut fields, "delta"), needed(&mut fields, "version"));
    no_errors(&mut fields)?;
    match state.desk.control.change_stock(by.id, id, delta, version).await {
        Ok(()) => told(&state, id).await,
        Err(error) => Err(refused(&state, id, error).await),
    }
}

/// `PATCH /api/admin/voucher/{id}`
pub async fn edit(
    State(state): State<AppState>,
    Admin(by): Admin,
    PathId(id): PathId<VoucherId>,
    JsonFields(mut fields): JsonFields,
) -> Result<Response, Problem> {
    fields.only(&["title", "subTitle", "rules", "version"])?;
    let version = needed(&mut fields, "version");
    no_errors(&mut fields)?;
    let text = |name| Ok::<_, Problem>(fields.text(name)?.map(str::to_owned));
    let edit = Edit { title: text("title")?, sub_title: text("subTitle")?, rules: text("rules")? };
    match state.desk.control.edit(by.id, id, edit, version).await {
        Ok(voucher) => Ok(reply::ok(voucher_json(&voucher))),
        Err(ControlError::Conflict) => {
            let latest = state.store.voucher(id).await?.ok_or(Problem::NotFound)?;
            Err(Problem::VersionConflict(voucher_json(&latest)))
        }
        Err(error) => Err(refused(&state, id, error).await),
    }
}
