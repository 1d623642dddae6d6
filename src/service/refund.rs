//! Send money back: what an admin asks for, and what came too late or twice. One refund a payment, one key a refund.
//!
//! Pair: notice ⇄ refund. Idempotent because: every attempt carries the payment's key, and one guarded transaction ends it.

use std::time::Duration;

use futures_util::StreamExt;

use crate::clock::Clock;
use crate::domain::event::OrderEvent;
use crate::domain::ids::{OrderId, UserId};
use crate::domain::order::{Action, Order, Status, next};
use crate::domain::payment::PaymentState;
use crate::fault::fail_point;
use crate::payment_provider::client::Provider;
use crate::push::bus::Bus;
use crate::service::ServiceError;
use crate::service::change::{ChangeError, WRITER_WITHIN, Wakes, wrong_state};
use crate::service::follow_up;
use crate::service::retry::wait_before;
use crate::service::settle::{REFUND, RefundWork, put_refund};
use crate::store::{OutboxRow, RefundRow, Release, Stamps, Store, StoreError};

/// Refunds of one round.
const BATCH: i64 = 64;
/// Calls under way at once: one that hangs must not hold up the others.
const AT_ONCE: usize = 8;

/// Sends money back.
#[derive(Clone)]
pub struct Refunds {
    /// The books.
    pub store: Store,
    /// Who has the money.
    pub provider: Provider,
    /// Tells the buyers.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
    /// Whom to wake.
    pub wakes: Wakes,
}

impl Refunds {
    /// An admin sends the money of a paid order back; with `restock` its unit goes back on sale once the money went.
    pub async fn start(&self, id: OrderId, restock: bool, admin: UserId) -> Result<Order, ChangeError> {
        let order = self.store.order(id).await?.ok_or(ChangeError::NotFound)?;
        let Some(refunding) = next(order.status, Action::Refund) else {
            return Err(ChangeError::WrongState(Box::new(order)));
        };
        let now = self.clock.now();
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let Some(order) = tx.transition(id, order.status, refunding, &Stamps::default()).await? else {
            drop(tx);
            return Err(wrong_state(&self.store, id).await);
        };
        let payment = tx.applied_payment_of(id).await?.ok_or(StoreError::Corrupt("a paid order without its payment"))?;
        if !tx.set_payment_state(payment.id, PaymentState::Applied, PaymentState::RefundDue).await? {
            return Err(StoreError::Corrupt("a paid order without its payment").into());
        }
        let work = RefundWork { payment: payment.id, order: id, ends_order: true, restock };
        put_refund(&mut tx, &payment, &work, now).await?;
        follow_up::put_after_refund(&mut tx, &order, now).await?;
        let (who, what) = (format!("user {admin}"), format!("REFUNDING, restock {restock}"));
        tx.audit(&who, "order.refund", &id.to_string(), Some(Status::Paid.as_str()), Some(&what), now).await?;
        tx.commit().await?;
        self.bus.publish(&[OrderEvent { user: order.user, order: order.clone() }]);
        self.wakes.refunds.notify_one();
        self.wakes.credits.notify_one();
        Ok(order)
    }

    /// Asks the provider for what is due; answers how many are done. What cannot be done now waits, with its attempts
    /// counted.
    pub async fn round(&self) -> Result<usize, ServiceError> {
        let due = self.store.due_outbox(REFUND, self.clock.now(), BATCH).await?;
        let mut results = futures_util::stream::iter(due).map(|row| self.send(row)).buffer_unordered(AT_ONCE);
        let mut done = 0;
        while let Some(result) = results.next().await {
            done += usize::from(result?);
        }
        Ok(done)
    }

    /// One row; true when the money went back.
    async fn send(&self, row: OutboxRow) -> Result<bool, ServiceError> {
        let work: RefundWork =
            serde_json::from_str(&row.payload).map_err(|_| StoreError::Corrupt("outbox.payload of a refund"))?;
        let Some(refund) = self.store.due_refund(work.payment).await? else {
            self.store.finish_outbox(&[row.id], self.clock.now()).await?;
            return Ok(false);
        };
        let answer = self.provider.refund(&refund.payment.transaction, refund.amount, &key_of(&refund)).await;
        fail_point("refund-after-call");
        match answer {
            Ok(_) => self.finish(&row, work).await,
            Err(error) => {
                tracing::warn!(row.id, attempts = row.attempts, payment = work.payment, %error, "a refund waits");
                self.put_off(&row).await
            }
        }
    }

    /// The row waits, with its attempt counted.
    async fn put_off(&self, row: &OutboxRow) -> Result<bool, ServiceError> {
        let wait = wait_before(row.attempts, Duration::from_millis(500), Duration::from_secs(30));
        self.store.retry_outbox(&[row.id], self.clock.now() + wait).await?;
        Ok(false)
    }

    /// The money went: payment, refund, and, when it was the order's own, the order with its unit, in one transaction.
    async fn finish(&self, row: &OutboxRow, work: RefundWork) -> Result<bool, ServiceError> {
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        if !tx.take_outbox(row.id, now).await? {
            return Ok(false); // another instance asked too, with the same key
        }
        tx.set_payment_state(work.payment, PaymentState::RefundDue, PaymentState::Refunded).await?;
        tx.finish_refund(work.payment, now).await?;
        let order = if work.ends_order {
            let stamps = Stamps { refunded_at: Some(now), restock: work.restock, ..Stamps::default() };
            let order = tx.transition(work.order, Status::Refunding, Status::Refunded, &stamps).await?;
            if let Some(order) = order.as_ref().filter(|_| work.restock) {
                tx.put_releases(&[Release { voucher: order.voucher, user: order.user, order: order.id }], now).await?;
                tx.return_units(order.voucher, 1).await?;
            }
            order
        } else {
            tx.note_money(work.order, None, Some(now)).await?
        };
        tx.commit().await?;
        if work.restock {
            self.wakes.releases.notify_one();
        }
        self.bus.publish(&order.map(|order| OrderEvent { user: order.user, order }).into_iter().collect::<Vec<_>>());
        Ok(true)
    }
}

/// The payment's own key, the same on every attempt.
fn key_of(refund: &RefundRow) -> String {
    if crate::fault::mutant("refund-without-its-key") {
        return format!("{:016x}", rand::random::<u64>());
    }
    refund.idem_key.clone()
}
