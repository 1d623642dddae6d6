//! Hear a notice of payment, and sweep the ones that came before their order.
//!
//! Pair: notice ⇄ refund. Idempotent because: the event's id and the transaction are keys, and the order's change is guarded.

use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::clock::Clock;
use crate::domain::event::OrderEvent;
use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::domain::payment::PaymentState;
use crate::domain::time::Millis;
use crate::fault::fail_point;
use crate::payment_provider::notice::{CURRENCY, Notice, PaidNotice, read};
pub use crate::payment_provider::signature::SignedHeaders;
use crate::payment_provider::signature::{NotBelieved, SigningKeys};
use crate::push::bus::Bus;
use crate::service::ServiceError;
use crate::service::change::{WRITER_WITHIN, Wakes};
use crate::service::settle::{Settled, owe, settle};
use crate::store::{EventSeen, NewPayment, Payment, Store, StoreError, Tx};

/// Early payments of one sweep.
const SWEEP: i64 = 200;
/// An id that is further ahead of our clock was never given out by it.
const MOST_AHEAD: Duration = Duration::from_mins(1);
/// An admitted order is saved within a day, or never.
const MOST_AGE: Duration = Duration::from_hours(24);

/// What a notice led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The order is paid.
    Applied,
    /// Nothing new in it.
    Repeated,
    /// Money for an order that has no row yet: kept.
    Kept,
    /// Money that goes back.
    RefundDue,
    /// Not about money that came.
    Ignored,
}

/// Why a notice was turned away. The order is untouched.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// Not signed by the provider, or not now.
    #[error(transparent)]
    NotBelieved(#[from] NotBelieved),
    /// Signed, and not understood.
    #[error("malformed")]
    Malformed,
    /// The same id came with another body.
    #[error("the event's id came before with another body")]
    OtherBody,
    /// The money of this transaction was told to be another order's.
    #[error("the transaction belongs to another order")]
    OtherOrder,
    /// Another amount or currency than the order's.
    #[error("another amount or currency than the order's")]
    WrongAmount,
    /// No order can have this id.
    #[error("no such order")]
    UnknownOrder,
    /// It could not be tried; the provider sends it again.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for NoticeError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// Hears notices.
#[derive(Clone)]
pub struct Notices {
    /// The books.
    pub store: Store,
    /// Tells the buyers.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
    /// Whom to believe.
    pub keys: SigningKeys,
    /// The provider's name in the books.
    pub provider: &'static str,
    /// How long money may wait for its order's row.
    pub pay_window: Duration,
    /// Whom to wake.
    pub wakes: Wakes,
}

impl Notices {
    /// Hears one notice: `body` is what the sender signed, byte for byte.
    pub async fn hear(&self, headers: SignedHeaders<'_>, body: &[u8]) -> Result<Heard, NoticeError> {
        self.keys.verify(headers, body, self.clock.now())?;
        match read(body) {
            Err(_) => Err(NoticeError::Malformed),
            Ok(Notice::Other) => Ok(Heard::Ignored),
            Ok(Notice::Paid(paid)) => self.paid(headers.id, &HEXLOWER.encode(&Sha256::digest(body)), &paid).await,
        }
    }

    async fn paid(&self, event: &str, digest: &str, paid: &PaidNotice) -> Result<Heard, NoticeError> {
        let now = self.clock.now();
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let seen = tx.record_event(self.provider, event, digest, now).await?;
        if seen == EventSeen::OtherBody {
            tracing::error!(event, order.id = %paid.order, "a notice's id came again with another body");
            return Err(NoticeError::OtherBody);
        }
        let order = tx.order(paid.order).await?;
        if order.is_none() && !may_come_yet(paid.order, now) {
            return Err(NoticeError::UnknownOrder);
        }
        if let Some(known) = tx.payment_by_transaction(self.provider, &paid.transaction).await? {
            if known.order != paid.order {
                return self.refuse_order(tx, paid, known.order, seen, now).await;
            }
            if known.amount == paid.amount && paid.foreign_currency.is_none() {
                // Another notice of a known transaction: whatever the first one led to stands.
                tx.commit().await?;
                return Ok(Heard::Repeated);
            }
        }
        // No price is nothing or less, so such an amount need not wait for the order to be wrong.
        let fits = paid.amount.0 > 0 && order.as_ref().is_none_or(|o| o.pay_amount == paid.amount);
        if !fits || paid.foreign_currency.is_some() {
            // A notice that was turned away is turned away again when it is repeated, without another line.
            if seen == EventSeen::Fresh {
                self.refuse_amount(tx, paid, order.map(|o| o.pay_amount), now).await?;
            }
            return Err(NoticeError::WrongAmount);
        }
        let new = NewPayment {
            provider: self.provider,
            transaction: &paid.transaction,
            order: paid.order,
            amount: paid.amount,
            state: PaymentState::Early,
        };
        let Some(id) = tx.insert_payment(&new, now).await? else {
            // Known since we looked, by a notice that came at the same moment.
            let known = tx.payment_by_transaction(self.provider, &paid.transaction).await?;
            if let Some(other) = known.map(|payment| payment.order).filter(|order| *order != paid.order) {
                return self.refuse_order(tx, paid, other, seen, now).await;
            }
            tx.commit().await?;
            return Ok(Heard::Repeated);
        };
        let payment = Payment {
            id,
            provider: self.provider.to_owned(),
            transaction: paid.transaction.clone(),
            order: paid.order,
            amount: paid.amount,
            state: PaymentState::Early,
            created_at: now,
        };
        let settled = settle(&mut tx, &payment, now).await?;
        tx.commit().await?;
        fail_point("callback-after-commit");
        let heard = match &settled {
            Settled::Paid(_) => Heard::Applied,
            Settled::Owed(_) => Heard::RefundDue,
            Settled::Waits => Heard::Kept,
            Settled::Decided => Heard::Repeated,
        };
        self.tell(settled);
        if heard == Heard::Kept {
            // The order's row may have been committed since we looked for it, by a transaction that could not see this one.
            if let Err(error) = self.look_again(&payment).await {
                tracing::debug!(%error, "the sweep will look again");
            }
        }
        Ok(heard)
    }

    /// Writes down that the money of one order was told to be another's; both orders are untouched.
    async fn refuse_order(
        &self,
        mut tx: Tx,
        paid: &PaidNotice,
        first: OrderId,
        seen: EventSeen,
        now: Millis,
    ) -> Result<Heard, NoticeError> {
        // As with a wrong amount: a repeat is turned away again, without another line.
        if seen == EventSeen::Fresh {
            let (subject, first) = (paid.order.to_string(), first.to_string());
            tx.audit(self.provider, "payment.other_order", &subject, Some(&first), None, now).await?;
            tx.commit().await?;
            tracing::error!(order.id = %paid.order, first = %first, "a notice gives the money of one order to another");
        }
        Err(NoticeError::OtherOrder)
    }

    /// Writes down that somebody signed a wrong amount; the order is untouched.
    async fn refuse_amount(&self, mut tx: Tx, paid: &PaidNotice, due: Option<Fen>, now: Millis) -> Result<(), StoreError> {
        let told = format!("{} {}", paid.amount.0, paid.foreign_currency.as_deref().unwrap_or(CURRENCY));
        let told: String = told.chars().take(64).collect();
        let (subject, due) = (paid.order.to_string(), due.map(|amount| amount.0.to_string()));
        tx.audit(self.provider, "payment.wrong_amount", &subject, due.as_deref(), Some(&told), now).await?;
        tx.commit().await?;
        tracing::error!(order.id = %paid.order, "a notice of another amount or currency than the order's");
        Ok(())
    }

    /// Decides payments that came before their order, where the order has a row by now or can have none any more; answers
    /// how many were decided.
    pub async fn sweep(&self) -> Result<usize, ServiceError> {
        let since = self.clock.now() - self.pay_window;
        let mut decided = 0;
        for payment in self.store.ripe_early_payments(since, SWEEP).await? {
            fail_point("sweep-mid");
            decided += usize::from(self.look_again(&payment).await?);
        }
        Ok(decided)
    }

    /// One early payment; true when it is decided.
    async fn look_again(&self, payment: &Payment) -> Result<bool, ServiceError> {
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        let mut settled = settle(&mut tx, payment, now).await?;
        if matches!(settled, Settled::Waits) && payment.created_at + self.pay_window <= now {
            settled = owe(&mut tx, payment, now).await?;
        }
        tx.commit().await?;
        let decided = matches!(settled, Settled::Paid(_) | Settled::Owed(_));
        self.tell(settled);
        Ok(decided)
    }

    /// After the commit: the buyer's pages, and the loops that have work now.
    pub fn tell(&self, settled: Settled) {
        let order = match settled {
            Settled::Paid(order) => {
                self.wakes.paid();
                Some(order)
            }
            Settled::Owed(order) => {
                self.wakes.refunds.notify_one();
                order
            }
            Settled::Waits | Settled::Decided => None,
        };
        if let Some(order) = order {
            self.bus.publish(&[OrderEvent { user: order.user, order: *order }]);
        }
    }
}

/// Whether an order without a row may still get one.
fn may_come_yet(order: OrderId, now: Millis) -> bool {
    let born = order.born_at();
    born <= now + MOST_AHEAD && now < born + MOST_AGE
}
