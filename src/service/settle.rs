//! What money means for an order, inside one transaction: paid, owed back, or still waiting for the order's row.
//!
//! Used by the notice, by the sweep and by the transaction that places orders. Two locks, always in this order: the
//! payment's row, then the order's.

use serde::{Deserialize, Serialize};

use crate::domain::ids::OrderId;
use crate::domain::order::{Action, Order, next};
use crate::domain::payment::PaymentState;
use crate::domain::time::Millis;
use crate::service::follow_up;
use crate::store::{Payment, Stamps, StoreError, Tx};

/// The kind of outbox rows that send money back.
pub(super) const REFUND: &str = "refund";

/// What a refund row asks for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RefundWork {
    /// Which payment goes back.
    pub(super) payment: i64,
    /// For which order it was.
    pub(super) order: OrderId,
    /// Its end is the order's end: an admin asked for it. Late money leaves the order as it is.
    pub(super) ends_order: bool,
    /// The unit goes back on sale.
    pub(super) restock: bool,
}

/// What became of a payment.
#[derive(Debug)]
pub enum Settled {
    /// It paid this order.
    Paid(Box<Order>),
    /// It goes back; the order, when it has a row.
    Owed(Option<Box<Order>>),
    /// The order has no row yet.
    Waits,
    /// Somebody else decided it.
    Decided,
}

/// Decides a payment that is EARLY. The caller commits, and only then tells.
pub async fn settle(tx: &mut Tx, payment: &Payment, now: Millis) -> Result<Settled, StoreError> {
    // Takes the payment's row, so that of two that look at it one waits and then finds it decided.
    if !tx.set_payment_state(payment.id, PaymentState::Early, PaymentState::Early).await? {
        return Ok(Settled::Decided);
    }
    let Some(mut order) = tx.order(payment.order).await? else { return Ok(Settled::Waits) };
    if payment.amount != order.pay_amount {
        // It came before its order, so nobody could compare it then.
        let told = format!("{} fen paid for an order of {} fen; it goes back", payment.amount.0, order.pay_amount.0);
        tx.audit(&payment.provider, "payment.wrong_amount", &order.id.to_string(), None, Some(&told), now).await?;
        return owe(tx, payment, now).await;
    }
    // Each turn sees a later state of the order, and there are five of them.
    while let Some(paid) = next(order.status, Action::Pay) {
        let stamps = Stamps { paid_at: Some(now), ..Stamps::default() };
        if let Some(order) = tx.transition(order.id, order.status, paid, &stamps).await? {
            tx.set_payment_state(payment.id, PaymentState::Early, PaymentState::Applied).await?;
            follow_up::put_after_paid(tx, &order, now).await?;
            return Ok(Settled::Paid(Box::new(order)));
        }
        // Somebody changed it between the look and the update: look again.
        let Some(again) = tx.order(payment.order).await? else { return Ok(Settled::Waits) };
        order = again;
    }
    owe(tx, payment, now).await
}

/// Owes an EARLY payment back: it found no order that it could pay. The order is never resurrected.
pub(super) async fn owe(tx: &mut Tx, payment: &Payment, now: Millis) -> Result<Settled, StoreError> {
    if !tx.set_payment_state(payment.id, PaymentState::Early, PaymentState::RefundDue).await? {
        return Ok(Settled::Decided);
    }
    let work = RefundWork { payment: payment.id, order: payment.order, ends_order: false, restock: false };
    put_refund(tx, payment, &work, now).await?;
    let order = tx.note_money(payment.order, Some(now), None).await?;
    Ok(Settled::Owed(order.map(Box::new)))
}

/// The refund's row and the outbox row that carries it out. The key is the payment's own: whatever happens to an attempt,
/// the next one carries the same.
pub(super) async fn put_refund(tx: &mut Tx, payment: &Payment, work: &RefundWork, now: Millis) -> Result<(), StoreError> {
    tx.insert_refund(payment.id, &format!("refund-{}", payment.transaction), payment.amount, now).await?;
    let payload = serde_json::to_string(work).map_err(|_| StoreError::Corrupt("outbox.payload of a refund"))?;
    tx.put_outbox(REFUND, &format!("refund:{}", payment.id), &payload, now).await?;
    Ok(())
}
