//! What follows a payment: the code to show in the shop, and one credit for each whole yuan. Neither waits for the other.
//!
//! Pair: give ⇄ take back (by a refund). Idempotent because: the outbox row is taken in the transaction that does its work.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::domain::event::OrderEvent;
use crate::domain::ids::{OrderId, UserId};
use crate::domain::order::Order;
use crate::domain::time::Millis;
use crate::push::bus::Bus;
use crate::service::ServiceError;
use crate::service::retry::wait_before;
use crate::store::{OutboxRow, Store, StoreError, Tx};

/// The kind of outbox rows that give a code.
const COUPON: &str = "coupon";
/// The kind of outbox rows that count credits, up or down.
const CREDITS: &str = "credits";

/// Rows of one round.
const BATCH: i64 = 200;

/// Characters of a code: none that is taken for another when read aloud or from paper (no 0 O, 1 I L, 2 Z, 5 S, 8 B, U V).
const ALPHABET: &[u8] = b"34679ACDEFGHJKMNPQRTWXY";
/// Characters in a code: 23^12 codes, so that guessing one of a million takes centuries of trying.
const CODE_LENGTH: usize = 12;

#[derive(Debug, Serialize, Deserialize)]
struct Coupon {
    order: OrderId,
}

#[derive(Debug, Serialize, Deserialize)]
struct Counted {
    order: OrderId,
    user: UserId,
    points: i64,
}

/// Writes down what follows a payment, in the transaction that made the order PAID.
pub(super) async fn put_after_paid(tx: &mut Tx, order: &Order, now: Millis) -> Result<(), StoreError> {
    put(tx, COUPON, &format!("coupon:{}", order.id), &Coupon { order: order.id }, now).await?;
    put_credits(tx, "credits", order, order.pay_amount.whole_yuan(), now).await
}

/// Writes down what a refund takes back, in the transaction that made the order REFUNDING. The code is void by then: leaving
/// PAID takes it off the order.
pub(super) async fn put_after_refund(tx: &mut Tx, order: &Order, now: Millis) -> Result<(), StoreError> {
    // Sums commute: it does not matter whether the credits that it takes were counted before.
    put_credits(tx, "credits-back", order, -order.pay_amount.whole_yuan(), now).await
}

async fn put_credits(tx: &mut Tx, key: &str, order: &Order, credits: i64, now: Millis) -> Result<(), StoreError> {
    if credits == 0 {
        return Ok(());
    }
    let work = Counted { order: order.id, user: order.user, points: credits };
    put(tx, CREDITS, &format!("{key}:{}", order.id), &work, now).await
}

async fn put(tx: &mut Tx, kind: &str, key: &str, work: &impl Serialize, now: Millis) -> Result<(), StoreError> {
    let payload = serde_json::to_string(work).map_err(|_| StoreError::Corrupt("outbox.payload"))?;
    tx.put_outbox(kind, key, &payload, now).await.map(drop)
}

/// Does what follows.
#[derive(Clone)]
pub struct FollowUps {
    /// The books.
    pub store: Store,
    /// Tells the buyers.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
}

impl FollowUps {
    /// Gives codes to paid orders; answers how many rows were done.
    pub async fn coupons(&self) -> Result<usize, ServiceError> {
        let mut done = 0;
        for row in self.store.due_outbox(COUPON, self.clock.now(), BATCH).await? {
            match self.coupon(&row).await {
                Ok(order) => {
                    done += 1;
                    self.bus.publish(&order.map(|order| OrderEvent { user: order.user, order }).into_iter().collect::<Vec<_>>());
                }
                Err(error) => self.put_off(&row, error).await?,
            }
        }
        Ok(done)
    }

    async fn coupon(&self, row: &OutboxRow) -> Result<Option<Order>, StoreError> {
        let work: Coupon = read(row)?;
        let mut tx = self.store.begin().await?;
        if !tx.take_outbox(row.id, self.clock.now()).await? {
            return Ok(None);
        }
        // None: refunded meanwhile; a code given now would be good for nothing.
        let order = tx.give_coupon(work.order, &new_code()).await?;
        tx.commit().await?;
        Ok(order)
    }

    /// Counts credits, up and down; answers how many rows were done.
    pub async fn credits(&self) -> Result<usize, ServiceError> {
        let mut done = 0;
        for row in self.store.due_outbox(CREDITS, self.clock.now(), BATCH).await? {
            match self.count(&row).await {
                Ok(()) => done += 1,
                Err(error) => self.put_off(&row, error).await?,
            }
        }
        Ok(done)
    }

    async fn count(&self, row: &OutboxRow) -> Result<(), StoreError> {
        let work: Counted = read(row)?;
        let mut tx = self.store.begin().await?;
        if !tx.take_outbox(row.id, self.clock.now()).await? {
            return Ok(());
        }
        if !tx.add_credits(work.user, work.points).await? {
            return Err(StoreError::Corrupt("credits of a user who is not there"));
        }
        tx.commit().await
    }

    /// One row that cannot be done must not stop the others: it waits, with its attempts counted, and the next is tried.
    async fn put_off(&self, row: &OutboxRow, error: StoreError) -> Result<(), ServiceError> {
        tracing::warn!(row.id, kind = %row.kind, attempts = row.attempts, %error, "a follow-up waits");
        let wait = wait_before(row.attempts, Duration::from_millis(500), Duration::from_secs(30));
        Ok(self.store.retry_outbox(&[row.id], self.clock.now() + wait).await?)
    }
}

fn read<T: for<'a> Deserialize<'a>>(row: &OutboxRow) -> Result<T, StoreError> {
    serde_json::from_str(&row.payload).map_err(|_| StoreError::Corrupt("outbox.payload"))
}

fn new_code() -> String {
    let letter = |_| ALPHABET[rand::random_range(0..ALPHABET.len())] as char;
    (0..CODE_LENGTH).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_twelve_characters_and_none_that_looks_like_another() {
        for _ in 0..1000 {
            let code = new_code();
            assert_eq!(code.len(), 12);
            assert!(!code.contains(['0', 'O', '1', 'I', 'L', '2', 'Z', '5', 'S', '8', 'B', 'U', 'V']), "{code}");
        }
    }
}
