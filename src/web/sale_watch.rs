//! Keeps watchers of a sale up to date: how many units are left, where it stands. One look for all who watch.
//!
//! Four looks a second, each one round trip to the gate and no SQL; and at once when a process says that a sale changed.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::MissedTickBehavior;

use crate::domain::event::SaleEvent;
use crate::domain::ids::VoucherId;
use crate::domain::sale::SaleState;
use crate::domain::time::Millis;
use crate::push::order_json::{sale_message, stock_message};
use crate::service::sales::Standing;
use crate::web::state::AppState;

const EVERY: Duration = Duration::from_millis(250);
/// Two figures of one voucher are at least this far apart, unless it sold out or came back meanwhile.
const FIGURES_APART: Duration = Duration::from_secs(1);
/// Vouchers looked at in one round: who watches thousands of numbers waits longer, and nobody else does.
const A_ROUND: usize = 500;
/// How long a read of the sales may take before the round goes on with what is known.
const READ: Duration = Duration::from_secs(1);

/// What the watchers of a voucher were told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    state: SaleState,
    begin: Millis,
    end: Millis,
    left: i64,
    measured_at: Millis,
}

/// What was told last of every watched voucher, so that a new watcher is told from memory.
#[derive(Debug, Default)]
pub struct SaleBoard(RwLock<HashMap<VoucherId, Told>>);

impl SaleBoard {
    /// The messages that bring a new watcher up to date; none when nobody watched the voucher before: then the next look
    /// tells everybody.
    #[must_use]
    pub fn messages(&self, voucher: VoucherId, now: Millis) -> Option<[String; 2]> {
        let told = *self.0.read().unwrap_or_else(PoisonError::into_inner).get(&voucher)?;
        Some([
            sale_message(voucher, told.state, told.begin, told.end, now),
            stock_message(voucher, told.left, told.measured_at, now),
        ])
    }

    fn told(&self, voucher: VoucherId) -> Option<Told> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&voucher).copied()
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<VoucherId, Told>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs until the end of the process.
pub async fn run(state: AppState) {
    let shutdown = state.shutdown.clone();
    let mut changes = state.hub.sale_events();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turn = 0;
    loop {
        tokio::select! {
            () = shutdown.begun() => return,
            _ = ticks.tick() => {}
            change = changes.recv() => {
                let mut news = match change {
                    Ok(SaleEvent::Changed { .. }) | Err(RecvError::Lagged(_)) => true,
                    Ok(SaleEvent::Stock { .. }) => false,
                    Err(RecvError::Closed) => return,
                };
                // A hundred new sales at once are one read.
                loop {
                    match changes.try_recv() {
                        Ok(SaleEvent::Stock { .. }) => {}
                        Ok(SaleEvent::Changed { .. }) | Err(TryRecvError::Lagged(_)) => news = true,
                        Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                    }
                }
                if !news {
                    continue;
                }
                if !matches!(tokio::time::timeout(READ, state.sales.index.refresh()).await, Ok(Ok(()))) {
                    tracing::debug!("a sale changed and the sales cannot be read now");
                }
            }
        }
        let mut watched = state.hub.watched();
        state.board.change(|told| told.retain(|voucher, _| watched.contains(voucher)));
        watched.sort_unstable();
        turn = if watched.is_empty() { 0 } else { turn % watched.len() };
        watched.rotate_left(turn);
        watched.truncate(A_ROUND);
        turn += watched.len();
        for standing in state.sales.standing(&watched).await {
            tell(&state, &standing);
        }
    }
}

fn tell(state: &AppState, seen: &Standing) {
    let voucher = seen.voucher;
    let before = state.board.told(voucher);
    // Without a figure the clock still opens and ends a sale; a sale of which nothing was ever measured waits.
    let Some(left) = seen.left.or(before.map(|told| told.left)) else { return };
    let (begin, end, now) = (seen.sale.begin, seen.sale.end, seen.sale.state(seen.measured_at, left));
    let new_state = before.is_none_or(|told| (told.state, told.begin, told.end) != (now, begin, end));
    let turned = before.is_none_or(|told| (told.left > 0) != (left > 0));
    let due = before.is_none_or(|told| told.left != left && told.measured_at + FIGURES_APART <= seen.measured_at);
    if !(new_state || turned || due) {
        return;
    }
    let measured_at = if seen.left.is_some() { seen.measured_at } else { before.map_or(seen.measured_at, |t| t.measured_at) };
    // The board first: who begins to watch in between hears this from the board or with the others, and never an older figure last.
    state.board.change(|told| told.insert(voucher, Told { state: now, begin, end, left, measured_at }));
    if new_state {
        state.hub.send_sale(voucher, now, begin, end);
    }
    if before.is_none_or(|told| told.left != left) {
        state.hub.send_stock(voucher, left, measured_at);
    }
}
