//! End an unpaid order, by its owner's click or because its time is over. SQL first; Redis follows through the outbox.
//!
//! Pair: place ⇄ cancel. Idempotent because: one guarded update decides who ended it, and only that transaction writes the
//! release and returns the unit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::event::OrderEvent;
use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::domain::order::{Action, CloseReason, Order, Status, next};
use crate::domain::time::Millis;
use crate::fault::fail_point;
use crate::push::bus::Bus;
use crate::service::ServiceError;
use crate::service::change::{ChangeError, WRITER_WITHIN, Wakes, saved_order_of, wrong_state};
use crate::service::orders::Orders;
use crate::service::release::Releases;
use crate::store::{Release, Stamps, Store, StoreError, Tx};

/// How long an answer waits for the gate to take the unit back; the outbox is the net.
const RELEASE_WITHIN: Duration = Duration::from_millis(500);

/// Ends unpaid orders.
#[derive(Clone)]
pub struct Cancels {
    /// The books.
    pub store: Store,
    /// Where an order is.
    pub orders: Arc<Orders>,
    /// Gives units back.
    pub releases: Releases,
    /// Tells the buyers.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
    /// Whom to wake.
    pub wakes: Wakes,
}

impl Cancels {
    /// Cancels `id` for its owner.
    pub async fn cancel(&self, id: OrderId, owner: UserId) -> Result<Order, ChangeError> {
        let order = saved_order_of(&self.orders, id, owner).await?;
        self.end(order, Action::Cancel).await
    }

    /// Closes `id` when its time to pay is over.
    pub async fn time_out(&self, id: OrderId) -> Result<Order, ChangeError> {
        let order = self.store.order(id).await?.ok_or(ChangeError::NotFound)?;
        if !is_due(&order, self.clock.now()) {
            return Err(ChangeError::WrongState(Box::new(order)));
        }
        self.end(order, Action::TimeOut).await
    }

    async fn end(&self, order: Order, action: Action) -> Result<Order, ChangeError> {
        if next(order.status, action).is_none() {
            return Err(ChangeError::WrongState(Box::new(order)));
        }
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let Some(ended) = end_in(&mut tx, order.id, action, self.clock.now()).await? else {
            drop(tx);
            return Err(wrong_state(&self.store, order.id).await);
        };
        // The hot row last: everybody who places an order of this sale waits for it.
        give_back(&mut tx, ended.voucher, 1).await?;
        fail_point("cancel-before-commit");
        tx.commit().await?;
        fail_point("cancel-after-commit");
        self.bus.publish(&[OrderEvent { user: ended.user, order: ended.clone() }]);
        // At once, so that the buyer can buy again when he reads the answer.
        let applied = tokio::time::timeout(RELEASE_WITHIN, self.releases.apply_for(ended.id)).await;
        if !matches!(applied, Ok(Ok(true))) {
            self.wakes.releases.notify_one();
        }
        Ok(ended)
    }

    /// Closes up to `limit` orders whose time to pay is over, in one transaction; answers how many were looked at.
    pub async fn close_due(&self, limit: i64) -> Result<usize, ServiceError> {
        let now = self.clock.now();
        // Looked for before anything is locked: most looks find nothing.
        if self.store.due_orders(now, 1).await?.is_empty() {
            return Ok(0);
        }
        let mut tx = self.store.begin().await?;
        let mut due = tx.take_due_orders(now, limit).await?;
        // Ascending: whoever else locks several of them waits in one direction only.
        due.sort_unstable();
        let mut ended = Vec::with_capacity(due.len());
        let mut units: BTreeMap<VoucherId, i64> = BTreeMap::new();
        for id in &due {
            // None: it was paid, cancelled or closed by somebody else meanwhile.
            if let Some(order) = end_in(&mut tx, *id, Action::TimeOut, now).await? {
                *units.entry(order.voucher).or_default() += 1;
                ended.push(OrderEvent { user: order.user, order });
            }
        }
        for (voucher, k) in units {
            give_back(&mut tx, voucher, k).await?;
        }
        tx.commit().await?;
        metrics::counter!("seckill_orders_timed_out_total").increment(ended.len() as u64);
        self.bus.publish(&ended);
        self.wakes.releases.notify_one();
        Ok(due.len())
    }

    /// When the next order falls due; none: nobody has to pay.
    pub async fn next_deadline(&self) -> Result<Option<Millis>, ServiceError> {
        Ok(self.store.next_deadline().await?)
    }
}

fn is_due(order: &Order, now: Millis) -> bool {
    order.status == Status::Pending && order.pay_before.is_some_and(|before| before <= now)
}

/// The guarded update and its release row; none: it is not PENDING, and nothing was written.
async fn end_in(tx: &mut Tx, id: OrderId, action: Action, now: Millis) -> Result<Option<Order>, StoreError> {
    let reason = if action == Action::TimeOut { CloseReason::Timeout } else { CloseReason::User };
    let stamps = Stamps { closed_at: Some(now), close_reason: Some(reason), ..Stamps::default() };
    let Some(order) = tx.transition(id, Status::Pending, Status::Cancelled, &stamps).await? else { return Ok(None) };
    tx.put_releases(&[Release { voucher: order.voucher, user: order.user, order: id }], now).await?;
    Ok(Some(order))
}

async fn give_back(tx: &mut Tx, voucher: VoucherId, k: i64) -> Result<(), StoreError> {
    if tx.return_units(voucher, k).await? { Ok(()) } else { Err(StoreError::Corrupt("an order without a sale")) }
}
