//! Keeps watchers of a sale up to date: how many units are left, where it stands. One look for all who watch.
//!
//! Looks each second, and at once when a process says that a sale changed.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use crate::domain::event::SaleEvent;
use crate::domain::ids::VoucherId;
use crate::domain::sale::SaleState;
use crate::web::state::AppState;

const EVERY: Duration = Duration::from_secs(1);
/// Vouchers looked at in one round: who watches thousands of numbers waits longer, and nobody else does.
const A_ROUND: usize = 100;

/// What the watchers of a voucher were told last.
type Told = HashMap<VoucherId, (SaleState, i64)>;

/// Runs until the end of the process.
pub async fn run(state: AppState) {
    let shutdown = state.shutdown.clone();
    let mut changes = state.hub.sale_events();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = Told::new();
    let mut turn = 0;
    loop {
        tokio::select! {
            () = shutdown.begun() => return,
            _ = ticks.tick() => {
                let mut watched = state.hub.watched();
                told.retain(|voucher, _| watched.contains(voucher));
                watched.sort_unstable();
                turn = if watched.is_empty() { 0 } else { turn % watched.len() };
                watched.rotate_left(turn);
                watched.truncate(A_ROUND);
                turn += watched.len();
                for voucher in watched {
                    look(&state, voucher, &mut told).await;
                }
            }
            change = changes.recv() => match change {
                Ok(SaleEvent::Changed { voucher }) => {
                    if state.hub.watched().contains(&voucher) {
                        told.remove(&voucher); // its window may have changed as well
                        look(&state, voucher, &mut told).await;
                    }
                }
                Ok(SaleEvent::Stock { .. }) => {}
                Err(RecvError::Lagged(_)) => told.clear(),
                Err(RecvError::Closed) => return,
            }
        }
    }
}

async fn look(state: &AppState, voucher: VoucherId, told: &mut Told) {
    let Ok(Some(listed)) = state.sales.one(voucher).await else { return };
    let (Some(sale), Some(now)) = (listed.voucher.sale, listed.state) else { return };
    let before = told.insert(voucher, (now, listed.left));
    if before.is_none_or(|(state, _)| state != now) {
        state.hub.send_sale(voucher, now, sale.begin, sale.end);
    }
    if before.is_none_or(|(_, left)| left != listed.left) {
        state.hub.send_stock(voucher, listed.left, listed.measured_at);
    }
}
