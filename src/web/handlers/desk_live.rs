//! The lists behind the numbers that no table keeps: sockets, what waits in the stream, the last seconds. Each is one bounded
//! look for one click.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::domain::ids::VoucherId;
use crate::web::error::Problem;
use crate::web::extract::{Admin, Frame};
use crate::web::fields::QueryFields;
use crate::web::page::{ListPage, SecondsPage, Series, Titles};
use crate::web::state::AppState;

/// Lines of a list.
const LINES: usize = 100;
/// Vouchers whose titles are looked up for one list; the others stand there by number.
const TITLES: usize = 20;

async fn titles(state: &AppState, vouchers: impl Iterator<Item = VoucherId>) -> Result<Titles, Problem> {
    let mut titles = Titles::new();
    for id in vouchers {
        if titles.len() < TITLES
            && !titles.contains_key(&id)
            && let Some(voucher) = state.store.voucher(id).await?
        {
            titles.insert(id, voucher.fields.title);
        }
    }
    Ok(titles)
}

/// `/admin/sockets`: those of this process; `?by=sale`: how many watch each sale.
pub async fn sockets(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let (roll, by_sale) = (state.desk.roll(LINES), query.typed("by") == "sale");
    let watched = roll.watched.iter().map(|(voucher, _)| *voucher);
    let titles = titles(&state, watched.chain(roll.newest.iter().flat_map(|one| one.watched.iter().copied()))).await?;
    Ok(ListPage::sockets(chrome, &roll, &state.desk.process, &titles, by_sale).into_response())
}

/// `/admin/waiting`: admitted and not saved yet.
pub async fn waiting(State(state): State<AppState>, _: Admin, Frame(chrome): Frame) -> Result<Response, Problem> {
    let waiting = state.desk.waiting(LINES).await?;
    let vouchers = waiting.oldest.iter().filter_map(|(_, one)| Some(one.entry.as_ref().ok()?.voucher));
    let titles = titles(&state, vouchers).await?;
    let lanes = state.desk.sales.rebuilds.lanes > 1;
    Ok(ListPage::waiting(chrome, &waiting, &titles, lanes).into_response())
}

/// `/admin/seconds`: the last seconds, of all sales or, `?voucherId=`, of one.
pub async fn seconds(
    State(state): State<AppState>,
    _: Admin,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let voucher = match query.typed("voucherId") {
        "" => None,
        text => {
            let id = text.parse::<VoucherId>().map_err(|_| Problem::Malformed)?;
            Some(state.store.voucher(id).await?.filter(|v| v.sale.is_some()).ok_or(Problem::NotFound)?)
        }
    };
    let sampled = match &voucher {
        Some(voucher) => vec![voucher.id],
        None => state.desk.rings.sampled(),
    };
    let series = |id: VoucherId| Series { lane: state.desk.figures.lane(id), samples: state.desk.rings.of(id) };
    let series: Vec<Series> = sampled.into_iter().map(series).collect();
    Ok(SecondsPage::new(chrome, voucher.as_ref(), &series, &state.desk.process).into_response())
}
