//! Gathers what the control room shows, for its pages and for the socket that keeps them fresh: one way to look, so that
//! both say the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::VoucherId;
use crate::domain::voucher::Voucher;
use crate::service::figures::SaleFigures;
use crate::service::sales::Listed;
use crate::web::error::Problem;
use crate::web::page::{Chrome, ControlRoomPage, Room, Said, SaleView, Series, VoucherPage};
use crate::web::state::AppState;

/// Sales that are over and still shown.
const OVER_SHOWN: usize = 20;
/// Lines of the audit log, and of the outbox, that are looked at.
const LOG_SHOWN: u32 = 5;
const OWED_SHOWN: u32 = 100;

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Somebody who asked just now, perhaps after he changed something: nothing older than his question will do.
    Asked,
    /// Somebody who watches: he shares a look with all others who do.
    Watched,
}

/// How old a figure may be for those who watch: of a sale that is on or comes, and of one that is over, where little happens.
const ON: Duration = Duration::from_millis(150);
const OVER: Duration = Duration::from_secs(15);

impl Look {
    async fn at(self, state: &AppState, voucher: &Voucher) -> Result<Option<Arc<SaleFigures>>, Problem> {
        let figures = &state.desk.figures;
        let over = voucher.sale.is_none_or(|sale| sale.end <= state.clock.now());
        Ok(match self {
            Self::Asked => figures.now(voucher.id).await?,
            Self::Watched => figures.within(voucher.id, if over { OVER } else { ON }).await?,
        })
    }
}

type Looked = Vec<(Voucher, Arc<SaleFigures>)>;

/// The vouchers of the control room: on and soon first, then the latest that are over.
async fn vouchers(state: &AppState) -> Result<Vec<Voucher>, Problem> {
    let mut vouchers: Vec<Voucher> = state.sales.front_page().await?.into_iter().map(|listed| listed.voucher).collect();
    let now = state.clock.now();
    let mut over = state.store.all_sales().await?;
    over.retain(|sale| sale.end <= now);
    over.sort_by_key(|sale| std::cmp::Reverse((sale.end, sale.voucher)));
    for sale in over.iter().take(OVER_SHOWN) {
        vouchers.extend(state.store.voucher(sale.voucher).await?);
    }
    Ok(vouchers)
}

async fn look(state: &AppState, vouchers: Vec<Voucher>, who: Look) -> Result<Looked, Problem> {
    let mut looked = Vec::with_capacity(vouchers.len());
    for voucher in vouchers {
        if let Some(figures) = who.at(state, &voucher).await? {
            looked.push((voucher, figures));
        }
    }
    Ok(looked)
}

fn series(state: &AppState, voucher: VoucherId) -> Option<Series> {
    let samples = state.desk.rings.of(voucher);
    (!samples.is_empty()).then(|| Series { lane: state.desk.figures.lane(voucher), samples })
}

/// Entries that wait over all lanes; sales of one lane share its stream.
fn waiting(state: &AppState, looked: &Looked) -> Option<i64> {
    let mut lanes: BTreeMap<u16, i64> = BTreeMap::new();
    for (voucher, figures) in looked {
        lanes.insert(state.desk.figures.lane(voucher.id).0, figures.waiting?);
    }
    Some(lanes.values().sum())
}

/// `/admin`
pub async fn control_room(state: &AppState, chrome: Chrome, said: Said, who: Look) -> Result<ControlRoomPage, Problem> {
    let looked = look(state, vouchers(state).await?, who).await?;
    let owed = state.desk.outbox(true, None, None, OWED_SHOWN).await?;
    let log = state.desk.audit_log(None, LOG_SHOWN).await?;
    let room = Room {
        sales: looked.iter().map(|(voucher, figures)| SaleView { voucher, figures }).collect(),
        series: looked.iter().filter_map(|(voucher, _)| series(state, voucher.id)).collect(),
        rate: looked.iter().filter_map(|(voucher, _)| state.desk.rings.saved_per_second(voucher.id)).sum(),
        waiting: waiting(state, &looked),
        sockets: state.desk.sockets(),
        owed: &owed.items,
        owed_more: owed.next.is_some(),
        letters: state.store.open_dead_letter_count().await?,
        log: &log.items,
    };
    Ok(ControlRoomPage::new(chrome, &room, said))
}

/// `/admin/vouchers/{id}`, and the voucher as it was read.
pub async fn voucher_page(
    state: &AppState,
    chrome: Chrome,
    id: VoucherId,
    said: Said,
    who: Look,
) -> Result<(VoucherPage, Listed), Problem> {
    let listed = state.sales.one(id).await?.ok_or(Problem::NotFound)?;
    let figures = match listed.voucher.sale {
        Some(_) => who.at(state, &listed.voucher).await?,
        None => None,
    };
    let view = figures.as_deref().map(|figures| SaleView { voucher: &listed.voucher, figures });
    let series: Vec<Series> = series(state, id).into_iter().collect();
    Ok((VoucherPage::new(chrome, &listed, view, &series, said), listed))
}
