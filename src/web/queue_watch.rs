//! "How many before me", told as it falls: once a second, to users who have a socket here and a queued order. And the net
//! below the push: an order that left the queue while its push was lost with a process is looked up.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::domain::event::OrderEvent;
use crate::domain::order::Order;
use crate::push::order_json::order_text;
use crate::web::state::AppState;

const EVERY: Duration = Duration::from_secs(1);

/// Runs until the end of the process.
pub async fn run(state: AppState) {
    let shutdown = state.shutdown.clone();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.begun() => return,
            _ = ticks.tick() => {}
        }
        state.orders.measure().await;
        let (mut told, mut first) = (HashSet::new(), Vec::new());
        for (user, place) in state.hub.places() {
            let Some(ahead) = state.orders.ahead(place.order.voucher, place.position).await else { continue };
            if ahead == 0 && place.told == Some(0) {
                first.push((user, place.order));
            } else if place.told.is_none_or(|told| ahead < told) && told.insert(user) {
                // At most one a second a user, whatever he has queued.
                let order = Order { ahead: Some(ahead), ..(*place.order).clone() };
                let id = order.id;
                state.hub.send_place(user, id, ahead, &order_text(&OrderEvent { user, order }));
            }
        }
        // First in the queue since the last look, and no verdict: those that left the queue left it without one.
        let orders: Vec<&Order> = first.iter().map(|(_, order)| &**order).collect();
        for ((user, order), waits) in first.iter().zip(state.orders.still_wait(&orders).await) {
            if !waits && state.hub.untold(*user, order.id) {
                tracing::info!(order.id = %order.id, "an order left the queue and nobody told of it; its buyer looks again");
            }
        }
    }
}
