//! "How many before me", told as it falls: once a second, to users who have a socket here and a queued order.

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
        let mut told = HashSet::new();
        for (user, place) in state.hub.places() {
            let Some(ahead) = state.orders.ahead(place.order.voucher, place.position).await else { continue };
            // At most one a second a user, whatever he has queued.
            if place.told.is_some_and(|told| told <= ahead) || !told.insert(user) {
                continue;
            }
            let order = Order { ahead: Some(ahead), ..(*place.order).clone() };
            let id = order.id;
            state.hub.send_place(user, id, ahead, &order_text(&OrderEvent { user, order }));
        }
    }
}
