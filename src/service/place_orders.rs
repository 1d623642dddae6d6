//! Turn admitted entries into order rows: one transaction a batch, and each admitted id ends as exactly one row.
//!
//! The steps and their order are the protocol's: insert first, hot row last and under the entry's epoch, commit, and only
//! then may the caller acknowledge. Idempotent because: the order id is the primary key of its outcome.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::event::OrderEvent;
use crate::domain::ids::{Epoch, Lane, OrderId, VoucherId};
use crate::domain::order::{CloseReason, Order, Status};
use crate::domain::voucher::Voucher;
use crate::fault::{fail_point, slow_point};
use crate::queue::StreamId;
use crate::queue::{Delivery, Entry};
use crate::service::settle::{Settled, settle};
use crate::store::{DeadLetter, NewOrder, Release, Store, StoreError, Tx};

/// Why the batch could not be settled now. Nothing of it may be acknowledged but what was returned before.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The database is away, busy or in a deadlock: leave the entries unacknowledged and come back later.
    #[error("orders cannot be saved now: {0}")]
    Later(StoreError),
}

/// What may be acknowledged, and what must be told.
#[derive(Debug, Default)]
pub struct Placed {
    /// Entries whose outcome is committed.
    pub settled: Vec<(StreamId, Option<OrderId>)>,
    /// The orders as committed, for the push.
    pub events: Vec<OrderEvent>,
    /// New PENDING rows.
    pub created: usize,
    /// New FAILED rows.
    pub failed: usize,
    /// Entries that were put aside.
    pub buried: usize,
    /// Some release rows were written: the releaser has work.
    pub releases: bool,
    /// Some of them were paid already, or their money goes back: follow-ups and refunds have work.
    pub money: bool,
}

/// Saves admitted orders.
#[derive(Clone)]
pub struct PlaceOrders {
    store: Store,
    clock: Clock,
    pay_window: Duration,
    /// Prices never change; titles may, so an entry lives a minute.
    vouchers: moka::future::Cache<VoucherId, Arc<Voucher>>,
}

/// How one attempt at a batch ended.
enum Attempt {
    Done(Box<Placed>),
    /// A wall: somebody in this batch cannot be saved. Halve it until the guilty entry stands alone.
    Wall,
    /// What was read has changed meanwhile: try the same batch again.
    Again,
}

/// What the statements of a batch made of it; nothing is committed yet.
pub(super) enum Decided {
    /// Each order has its outcome.
    Rows(Outcome),
    /// As [`Attempt::Wall`]: roll back.
    Wall,
    /// As [`Attempt::Again`]: roll back.
    Again,
}

/// The outcomes of a batch; who is in neither has a row of before.
pub(super) struct Outcome {
    inserted: HashSet<OrderId>,
    failed: HashSet<OrderId>,
    paid: HashMap<OrderId, Order>,
}

/// What became of an order that the books did not take; nothing is committed yet.
pub(super) enum Alone {
    /// It has a FAILED row.
    Failed(CloseReason),
    /// A person must decide: roll back.
    Stuck(&'static str),
    /// As [`Attempt::Again`]: roll back.
    Again,
}

/// How often a batch is tried again because others moved under it, before it counts as "later".
const MOST_AGAINS: u32 = 8;

impl PlaceOrders {
    /// `pay_window`: how long an order may wait for its payment.
    #[must_use]
    pub fn new(store: Store, clock: Clock, pay_window: Duration) -> Self {
        let vouchers = moka::future::Cache::builder().max_capacity(10_000).time_to_live(Duration::from_mins(1)).build();
        Self { store, clock, pay_window, vouchers }
    }

    /// Brings every delivery of `batch` to its outcome. On [`PlaceError::Later`] what is in `placed` is committed and must
    /// still be acknowledged and told; the rest stays unacknowledged.
    pub async fn place(&self, lane: Lane, batch: &[Delivery], placed: &mut Placed) -> Result<(), PlaceError> {
        let mut good: Vec<(&Delivery, Entry)> = Vec::with_capacity(batch.len());
        for delivery in batch {
            match &delivery.entry {
                Ok(entry) if self.voucher(entry.voucher).await.map_err(PlaceError::Later)?.is_some() => {
                    good.push((delivery, *entry));
                }
                Ok(entry) => {
                    let reason = format!("no voucher {}", entry.voucher);
                    self.bury(lane, delivery, &reason, placed).await?;
                }
                Err(unreadable) => self.bury(lane, delivery, &unreadable.reason, placed).await?,
            }
        }
        // Ascending ids: two consumers with overlapping batches then meet in the same order and cannot deadlock.
        good.sort_by_key(|(_, entry)| entry.order);
        // One id twice in a batch (read and claimed): the second is acknowledged with the first.
        good.dedup_by_key(|(_, entry)| entry.order);

        let mut waiting = vec![good.as_slice()];
        let mut agains = 0;
        while let Some(part) = waiting.pop() {
            if part.is_empty() {
                continue;
            }
            match self.attempt(part).await {
                Ok(Attempt::Done(done)) => placed.add(*done),
                Ok(Attempt::Again) => {
                    agains += 1;
                    if agains > MOST_AGAINS {
                        return Err(PlaceError::Later(unsettled()));
                    }
                    waiting.push(part);
                }
                Ok(Attempt::Wall) if part.len() > 1 => waiting.extend(halves(part)),
                Ok(Attempt::Wall) => match self.alone(lane, part[0]).await.map_err(PlaceError::Later)? {
                    Attempt::Done(done) => placed.add(*done),
                    Attempt::Again | Attempt::Wall => {
                        agains += 1;
                        if agains > MOST_AGAINS {
                            return Err(PlaceError::Later(unsettled()));
                        }
                        waiting.push(part);
                    }
                },
                Err(error) if error.is_transient() => return Err(PlaceError::Later(error)),
                Err(_) if part.len() > 1 => waiting.extend(halves(part)),
                Err(error) => self.bury(lane, part[0].0, &format!("cannot be saved: {error}"), placed).await?,
            }
        }
        Ok(())
    }

    /// One transaction for all of `part`.
    async fn attempt(&self, part: &[(&Delivery, Entry)]) -> Result<Attempt, StoreError> {
        let mut done = Placed::default();
        let orders = self.new_orders(&part.iter().map(|(_, entry)| *entry).collect::<Vec<_>>()).await?;
        let mut tx = self.store.begin().await?;
        let outcome = match self.decide(&mut tx, &orders, &mut done).await? {
            Decided::Rows(outcome) => outcome,
            Decided::Wall => return Ok(Attempt::Wall),
            Decided::Again => return Ok(Attempt::Again),
        };
        // 5: only a known commit may be acknowledged; an unknown one comes back as an error and the batch is done again.
        fail_point("tx-before-commit");
        tx.commit().await?;
        fail_point("after-commit");
        done.settled.extend(part.iter().map(|(delivery, entry)| (delivery.stream_id, Some(entry.order))));
        self.report(&orders, outcome, &mut done).await?;
        Ok(Attempt::Done(Box::new(done)))
    }

    /// Steps 1 to 4, in a transaction that somebody else commits: what each of `orders`, in ascending order of ids, became.
    pub(super) async fn decide(&self, tx: &mut Tx, orders: &[NewOrder], done: &mut Placed) -> Result<Decided, StoreError> {
        // 1: the outcome rows. What conflicts is not returned, for either of two reasons.
        let inserted: HashSet<OrderId> = tx.insert_pending(orders).await?.into_iter().collect();

        fail_point("tx-after-insert");

        // 2: which reason? The same buyer's row is a repeat, another buyer's an alarm, none means that he has a live order.
        let missing: Vec<&NewOrder> = orders.iter().filter(|o| !inserted.contains(&o.id)).collect();
        let mut duplicates: Vec<NewOrder> = Vec::new();
        if !missing.is_empty() {
            let ids: Vec<OrderId> = missing.iter().map(|o| o.id).collect();
            let known: HashMap<OrderId, _> = tx.identify(&ids).await?.into_iter().map(|row| (row.id, row)).collect();
            for order in missing {
                match known.get(&order.id) {
                    Some(row) if row.user == order.user && row.voucher == order.voucher => {}
                    Some(_) => return Ok(Decided::Wall), // alone it is buried
                    None => duplicates.push(*order),
                }
            }
        }
        if !duplicates.is_empty() {
            let now = self.clock.now();
            let failed: HashSet<OrderId> =
                tx.insert_failed(&duplicates, CloseReason::Duplicate, now).await?.into_iter().collect();
            if failed.len() != duplicates.len() {
                return Ok(Decided::Again); // somebody else decided it between the two statements
            }
            // A release only where our own FAILED row was written: else the unit of a live order would go back on sale.
            let releases: Vec<Release> = duplicates.iter().map(release_of).collect();
            tx.put_releases(&releases, now).await?;
            done.releases = true;
        }

        // 3: money that came before its order. What is committed after this look is found by the sweep.
        let placed: Vec<OrderId> = inserted.iter().copied().collect();
        let mut paid: HashMap<OrderId, Order> = HashMap::new();
        for payment in tx.early_payments_of(&placed).await? {
            match settle(tx, &payment, self.clock.now()).await? {
                Settled::Paid(order) => drop(paid.insert(order.id, *order)),
                Settled::Owed(_) | Settled::Waits | Settled::Decided => {}
            }
            done.money = true;
        }

        // 4: the hot rows, last and in voucher order, under the entry's epoch; k counts new rows only, and 0 still takes the
        // row, so that no verdict but LOST can be committed after a rebuild closed the books.
        let mut taken: BTreeMap<(VoucherId, Epoch), i64> = BTreeMap::new();
        for order in orders {
            let new = inserted.contains(&order.id);
            if new || duplicates.iter().any(|d| d.id == order.id) {
                *taken.entry((order.voucher, order.epoch)).or_default() += i64::from(new);
            }
        }
        for ((voucher, epoch), k) in taken {
            if !tx.take_units(voucher, epoch, k).await? {
                return Ok(Decided::Wall);
            }
        }
        slow_point("tx-after-stock").await;
        let failed = duplicates.iter().map(|d| d.id).collect();
        Ok(Decided::Rows(Outcome { inserted, failed, paid }))
    }

    /// What to tell of committed orders.
    pub(super) async fn report(&self, orders: &[NewOrder], outcome: Outcome, done: &mut Placed) -> Result<(), StoreError> {
        for order in orders {
            let title = self.voucher(order.voucher).await?.map(|v| v.fields.title.clone()).unwrap_or_default();
            if outcome.inserted.contains(&order.id) {
                done.created += 1;
                done.events.push(OrderEvent { user: order.user, order: shown(order, title, Status::Pending, None) });
            } else if outcome.failed.contains(&order.id) {
                done.failed += 1;
                done.events.push(OrderEvent {
                    user: order.user,
                    order: shown(order, title, Status::Failed, Some(CloseReason::Duplicate)),
                });
            } else if let Some(order) = self.store.order(order.id).await? {
                // A repeat: its first consumer may have died before it told anybody.
                done.events.push(OrderEvent { user: order.user, order });
            }
        }
        done.events.extend(outcome.paid.into_values().map(|order| OrderEvent { user: order.user, order }));
        Ok(())
    }

    /// An entry that did not go through with others: decide it by what SQL says now.
    async fn alone(&self, lane: Lane, (delivery, entry): (&Delivery, Entry)) -> Result<Attempt, StoreError> {
        let orders = self.new_orders(&[entry]).await?;
        let order = &orders[0];
        let mut done = Placed::default();
        let mut tx = self.store.begin().await?;
        let reason = match self.decide_alone(&mut tx, order, &mut done).await? {
            Alone::Failed(reason) => reason,
            Alone::Stuck(why) => return self.bury_in(tx, lane, delivery, why).await,
            Alone::Again => return Ok(Attempt::Again),
        };
        tx.commit().await?;
        done.settled.push((delivery.stream_id, Some(order.id)));
        self.report_failed(order, reason, &mut done).await?;
        Ok(Attempt::Done(Box::new(done)))
    }

    /// Decides one order that the books did not take, in a transaction that somebody else commits.
    pub(super) async fn decide_alone(&self, tx: &mut Tx, order: &NewOrder, done: &mut Placed) -> Result<Alone, StoreError> {
        if let Some(row) = tx.identify(&[order.id]).await?.first() {
            if row.user == order.user && row.voucher == order.voucher {
                return Ok(Alone::Again);
            }
            tracing::error!(order.id = %order.id, "an order id was born twice; the entry is put aside");
            return Ok(Alone::Stuck("its order id belongs to another buyer"));
        }
        let now = self.clock.now();
        let reason = match tx.sale_epoch_and_left(order.voucher).await? {
            None => return Ok(Alone::Stuck("its voucher has no sale")),
            // The gate was rebuilt since: the books were closed without this entry. No release: the load absorbed the unit.
            Some((epoch, _)) if epoch > order.epoch => CloseReason::Lost,
            Some((epoch, _)) if epoch < order.epoch => {
                return Ok(Alone::Stuck("its epoch is newer than the database's: the database went back"));
            }
            Some((_, left)) if left >= 1 => return Ok(Alone::Again),
            Some(_) => CloseReason::SoldOut,
        };
        if tx.insert_failed(std::slice::from_ref(order), reason, now).await?.is_empty() {
            return Ok(Alone::Again);
        }
        if reason == CloseReason::SoldOut {
            tx.put_releases(&[release_of(order)], now).await?;
            done.releases = true;
            if !tx.touch_sale_sold_out(order.voucher, order.epoch).await? {
                return Ok(Alone::Again);
            }
        }
        Ok(Alone::Failed(reason))
    }

    /// What to tell of an order that is committed as FAILED.
    pub(super) async fn report_failed(&self, order: &NewOrder, why: CloseReason, done: &mut Placed) -> Result<(), StoreError> {
        done.failed += 1;
        let title = self.voucher(order.voucher).await?.map(|v| v.fields.title.clone()).unwrap_or_default();
        done.events.push(OrderEvent { user: order.user, order: shown(order, title, Status::Failed, Some(why)) });
        Ok(())
    }

    /// Puts an entry aside: committed first, acknowledged after. No order row, and holder and unit stay, until a person
    /// decides; its ticket reads QUEUED meanwhile.
    async fn bury(&self, lane: Lane, delivery: &Delivery, reason: &str, placed: &mut Placed) -> Result<(), PlaceError> {
        let tx = self.store.begin().await.map_err(PlaceError::Later)?;
        match self.bury_in(tx, lane, delivery, reason).await {
            Ok(Attempt::Done(done)) => placed.add(*done),
            Ok(_) => {}
            Err(error) => return Err(PlaceError::Later(error)),
        }
        Ok(())
    }

    async fn bury_in(&self, mut tx: Tx, lane: Lane, delivery: &Delivery, reason: &str) -> Result<Attempt, StoreError> {
        let order = delivery.entry.as_ref().ok().map(|e| e.order);
        let letter = DeadLetter {
            stream_id: delivery.stream_id.to_string(),
            lane,
            entry_json: match &delivery.entry {
                Ok(entry) => buried_form(entry),
                Err(unreadable) => unreadable.raw.clone(),
            },
            reason: reason.to_owned(),
        };
        tx.bury(&letter, self.clock.now()).await?;
        tx.commit().await?;
        tracing::error!(entry.id = %delivery.stream_id, reason, "an entry was put aside as a dead letter");
        Ok(Attempt::Done(Box::new(Placed { settled: vec![(delivery.stream_id, order)], buried: 1, ..Placed::default() })))
    }

    pub(super) async fn voucher(&self, id: VoucherId) -> Result<Option<Arc<Voucher>>, StoreError> {
        if let Some(known) = self.vouchers.get(&id).await {
            return Ok(Some(known));
        }
        let Some(read) = self.store.voucher(id).await? else { return Ok(None) };
        let read = Arc::new(read);
        self.vouchers.insert(id, read.clone()).await;
        Ok(Some(read))
    }

    /// The rows that these entries are to become.
    pub(super) async fn new_orders(&self, entries: &[Entry]) -> Result<Vec<NewOrder>, StoreError> {
        let now = self.clock.now();
        let mut orders = Vec::with_capacity(entries.len());
        for entry in entries {
            let pay_amount = self.voucher(entry.voucher).await?.map(|v| v.fields.pay_value).ok_or_else(unsettled)?;
            orders.push(NewOrder {
                id: entry.order,
                user: entry.user,
                voucher: entry.voucher,
                epoch: entry.epoch,
                admitted_at: entry.admitted_at,
                pay_amount,
                created_at: now,
                pay_before: now + self.pay_window,
            });
        }
        Ok(orders)
    }
}

impl Placed {
    fn add(&mut self, other: Placed) {
        self.settled.extend(other.settled);
        self.events.extend(other.events);
        self.created += other.created;
        self.failed += other.failed;
        self.buried += other.buried;
        self.releases |= other.releases;
        self.money |= other.money;
    }
}

/// How a readable entry is kept in its dead letter: what a retry needs, the original epoch included.
fn buried_form(entry: &Entry) -> String {
    serde_json::json!({
        "id": entry.order,
        "userId": entry.user.to_string(),
        "voucherId": entry.voucher.to_string(),
        "epoch": entry.epoch.to_string(),
        "admittedAt": entry.admitted_at.0.to_string(),
    })
    .to_string()
}

/// The entry that a dead letter kept; none when it never was readable.
#[must_use]
pub fn buried_entry(json: &str) -> Option<Entry> {
    let fields: HashMap<String, String> = serde_json::from_str(json).ok()?;
    let fields: Vec<(Vec<u8>, Vec<u8>)> = fields.into_iter().map(|(k, v)| (k.into_bytes(), v.into_bytes())).collect();
    Entry::read(&fields).ok()
}

/// Others keep moving what this batch needs: later is soon enough.
fn unsettled() -> StoreError {
    StoreError::Busy(String::from("other transactions kept changing what this batch needs"))
}

/// What gives the unit of a FAILED order back.
pub(super) fn release_of(order: &NewOrder) -> Release {
    Release { voucher: order.voucher, user: order.user, order: order.id }
}

fn halves<T>(part: &[T]) -> [&[T]; 2] {
    let (a, b) = part.split_at(part.len() / 2);
    [b, a] // popped from the end: the first half goes first
}

/// The order as its new row has it.
fn shown(order: &NewOrder, voucher_title: String, status: Status, reason: Option<CloseReason>) -> Order {
    let failed = status == Status::Failed;
    Order {
        id: order.id,
        user: order.user,
        voucher: order.voucher,
        voucher_title,
        status,
        version: 1,
        ahead: None,
        pay_amount: order.pay_amount,
        epoch: order.epoch,
        created_at: order.created_at,
        pay_before: (!failed).then_some(order.pay_before),
        paid_at: None,
        closed_at: failed.then_some(order.created_at),
        refunded_at: None,
        close_reason: reason,
        coupon_code: None,
        refund: None,
    }
}
