//! What a person decides about an entry that was put aside: try it again, or give it up. The decision and what follows
//! from it are one transaction, so that of two people one decides, and nothing is decided twice.
//!
//! A retry keeps the entry's own epoch, and never goes through the stream again: an order that a buyer was told is lost
//! stays lost, and an entry that is buried a second time would meet its own closed letter and be forgotten.

use std::cmp::Ordering;
use std::time::Duration;

use serde_json::json;

use crate::clock::Clock;
use crate::domain::ids::UserId;
use crate::domain::order::CloseReason;
use crate::push::bus::Bus;
use crate::queue::Entry;
use crate::service::ServiceError;
use crate::service::change::{WRITER_WITHIN, Wakes};
use crate::service::place_orders::{Alone, Decided, PlaceOrders, Placed, buried_entry, release_of};
use crate::store::{BuriedLetter, LetterState, NewOrder, Store, StoreError, Tx};

/// Tries while others change what a decision needs.
const TRIES: u32 = 8;

/// Why a letter was not decided. Nothing happened.
#[derive(Debug, thiserror::Error)]
pub enum LetterError {
    /// No such letter.
    #[error("no such dead letter")]
    NotFound,
    /// Somebody decided otherwise before; here it is.
    #[error("it was decided before")]
    Decided(Box<BuriedLetter>),
    /// It cannot be saved, whoever tries: it can only be discarded. Why, for people.
    #[error("it cannot be saved: {1}")]
    Stuck(Box<BuriedLetter>, String),
    /// It could not be tried.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for LetterError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// What a decision about a letter would do, as the books stand now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// It can be saved under its own number. Discarded, its buyer reads FAILED and its unit goes back.
    Whole,
    /// The gate was rebuilt since: whichever way, its buyer reads FAILED; its unit went back with the rebuild.
    Lost,
    /// Its buyer does not exist: it can only be discarded. Its unit goes back, and there is nobody to tell.
    Nobody,
    /// Its sale does not exist: it can only be closed. There is no unit and nobody is told.
    NoSale,
    /// Its epoch is newer than the database's, which went back: it can neither be saved nor discarded now.
    Newer,
    /// Its number has a row already: it can only be closed, and nothing else changes.
    HasARow,
    /// It names no order: it can only be closed.
    Unreadable,
}

/// Decides dead letters; cheap to clone.
#[derive(Clone)]
pub struct DeadLetters {
    /// Where they lie.
    pub store: Store,
    /// Saves what is tried again.
    pub place: PlaceOrders,
    /// Tells the shopper.
    pub bus: Bus,
    /// Wakes who has something to do afterwards.
    pub wakes: Wakes,
    /// The time.
    pub clock: Clock,
}

/// How one try at a decision ended.
enum Tried {
    Done(Placed),
    Taken,
    Again,
    Stuck(String),
}

impl DeadLetters {
    async fn letter(&self, id: i64) -> Result<BuriedLetter, LetterError> {
        self.store.dead_letter(id).await?.ok_or(LetterError::NotFound)
    }

    /// What a decision about this letter would do now. A few reads by primary key at most; the decision itself looks again.
    pub async fn prospect(&self, letter: &BuriedLetter) -> Result<Prospect, ServiceError> {
        let Some(entry) = buried_entry(&letter.letter.entry_json) else { return Ok(Prospect::Unreadable) };
        let Some(sale) = self.store.sale(entry.voucher).await? else { return Ok(Prospect::NoSale) };
        if self.store.order(entry.order).await?.is_some() {
            return Ok(Prospect::HasARow);
        }
        Ok(match sale.epoch.cmp(&entry.epoch) {
            Ordering::Greater => Prospect::Lost,
            Ordering::Less => Prospect::Newer,
            Ordering::Equal if self.store.user_by_id(entry.user).await?.is_none() => Prospect::Nobody,
            Ordering::Equal => Prospect::Whole,
        })
    }

    /// Tries to save the entry of a letter under its own epoch, and closes the letter with the outcome: the order, or a
    /// FAILED one (also LOST, when the gate was rebuilt since). A letter that was retried before stays as it is.
    ///
    /// # Errors
    /// `NotFound`, `Decided`, `Stuck` (it stays open).
    pub async fn retry(&self, by: UserId, id: i64) -> Result<BuriedLetter, LetterError> {
        let letter = self.open_letter(id, LetterState::Retried).await?;
        let Ok(letter) = letter else { return self.letter(id).await };
        let Some(entry) = buried_entry(&letter.letter.entry_json) else {
            let why = letter.letter.reason.clone();
            return Err(LetterError::Stuck(Box::new(letter), why));
        };
        for _ in 0..TRIES {
            let tried = match self.try_retry(by, &letter, entry).await {
                Err(StoreError::UnknownReference) => Tried::Stuck(String::from("its buyer does not exist")),
                tried => tried?,
            };
            match tried {
                Tried::Done(placed) => return self.tell(id, placed).await,
                Tried::Stuck(why) => return Err(LetterError::Stuck(Box::new(letter), why)),
                Tried::Taken => return self.decided_otherwise(id, LetterState::Retried).await,
                Tried::Again => tokio::time::sleep(Duration::from_millis(rand::random_range(5..30))).await,
            }
        }
        Err(busy())
    }

    /// Gives the entry of a letter up: FAILED(DISCARDED), and its unit goes back; LOST, and no unit, when the gate was
    /// rebuilt since. An entry that says nothing is only closed. A letter that was discarded before stays as it is.
    ///
    /// # Errors
    /// `NotFound`, `Decided`.
    pub async fn discard(&self, by: UserId, id: i64) -> Result<BuriedLetter, LetterError> {
        let letter = self.open_letter(id, LetterState::Discarded).await?;
        let Ok(letter) = letter else { return self.letter(id).await };
        for _ in 0..TRIES {
            match self.try_discard(by, &letter).await? {
                Tried::Done(placed) => return self.tell(id, placed).await,
                Tried::Taken => return self.decided_otherwise(id, LetterState::Discarded).await,
                Tried::Stuck(_) | Tried::Again => tokio::time::sleep(Duration::from_millis(rand::random_range(5..30))).await,
            }
        }
        Err(busy())
    }

    /// The letter while it is open; `Err(())` inside: it was decided the same way before.
    async fn open_letter(&self, id: i64, wanted: LetterState) -> Result<Result<BuriedLetter, ()>, LetterError> {
        let letter = self.letter(id).await?;
        match letter.state {
            LetterState::Open => Ok(Ok(letter)),
            state if state == wanted => Ok(Err(())),
            _ => Err(LetterError::Decided(Box::new(letter))),
        }
    }

    async fn decided_otherwise(&self, id: i64, wanted: LetterState) -> Result<BuriedLetter, LetterError> {
        let letter = self.letter(id).await?;
        if letter.state == wanted { Ok(letter) } else { Err(LetterError::Decided(Box::new(letter))) }
    }

    async fn try_retry(&self, by: UserId, letter: &BuriedLetter, entry: Entry) -> Result<Tried, StoreError> {
        if self.place.voucher(entry.voucher).await?.is_none() {
            return Ok(Tried::Stuck(format!("no voucher {}", entry.voucher)));
        }
        #[cfg(feature = "fault-injection")]
        let entry = self.perhaps_of_today(entry).await?;
        let orders = self.place.new_orders(&[entry]).await?;
        let mut done = Placed::default();
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        // First, so that of two people one waits here for the other, and then finds it decided.
        if !tx.close_dead_letter(letter.id, LetterState::Retried, self.clock.now()).await? {
            return Ok(Tried::Taken);
        }
        match self.place.decide(&mut tx, &orders, &mut done).await? {
            Decided::Rows(outcome) => {
                self.log(&mut tx, by, letter, LetterState::Retried, "saved").await?;
                tx.commit().await?;
                self.place.report(&orders, outcome, &mut done).await?;
                return Ok(Tried::Done(done));
            }
            Decided::Again => return Ok(Tried::Again),
            Decided::Wall => tx.rollback().await?,
        }

        let (order, mut done) = (&orders[0], Placed::default());
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        if !tx.close_dead_letter(letter.id, LetterState::Retried, self.clock.now()).await? {
            return Ok(Tried::Taken);
        }
        match self.place.decide_alone(&mut tx, order, &mut done).await? {
            Alone::Failed(reason) => {
                self.log(&mut tx, by, letter, LetterState::Retried, reason.as_str()).await?;
                tx.commit().await?;
                self.place.report_failed(order, reason, &mut done).await?;
                Ok(Tried::Done(done))
            }
            Alone::Stuck(why) => Ok(Tried::Stuck(why.to_owned())),
            Alone::Again => Ok(Tried::Again),
        }
    }

    async fn try_discard(&self, by: UserId, letter: &BuriedLetter) -> Result<Tried, StoreError> {
        let entry = buried_entry(&letter.letter.entry_json);
        let order = match entry {
            Some(entry) if self.place.voucher(entry.voucher).await?.is_some() => self.place.new_orders(&[entry]).await?.pop(),
            _ => None,
        };
        let mut done = Placed::default();
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        if !tx.close_dead_letter(letter.id, LetterState::Discarded, self.clock.now()).await? {
            return Ok(Tried::Taken);
        }
        let mut told = None;
        let mut what = "closed";
        if let Some(order) = &order {
            match self.give_up(&mut tx, order, &mut done).await? {
                GivenUp::Failed(reason) => {
                    told = Some(reason);
                    what = reason.as_str();
                }
                GivenUp::HasARow | GivenUp::Unsavable => {}
                GivenUp::Again => return Ok(Tried::Again),
            }
        }
        self.log(&mut tx, by, letter, LetterState::Discarded, what).await?;
        tx.commit().await?;
        if let (Some(order), Some(reason)) = (&order, told) {
            self.place.report_failed(order, reason, &mut done).await?;
        }
        Ok(Tried::Done(done))
    }

    /// FAILED(DISCARDED) and a release, under the entry's own epoch; LOST and none when that has moved.
    async fn give_up(&self, tx: &mut Tx, order: &NewOrder, done: &mut Placed) -> Result<GivenUp, StoreError> {
        let now = self.clock.now();
        if !tx.identify(&[order.id]).await?.is_empty() {
            return Ok(GivenUp::HasARow);
        }
        let Some((epoch, _)) = tx.sale_epoch_and_left(order.voucher).await? else { return Ok(GivenUp::Unsavable) };
        let reason = if epoch > order.epoch { CloseReason::Lost } else { CloseReason::Discarded };
        let failed = match tx.insert_failed(std::slice::from_ref(order), reason, now).await {
            // Of nobody: no row, but the gate holds a unit for him.
            Err(StoreError::UnknownReference) if reason == CloseReason::Discarded => None,
            Err(StoreError::UnknownReference) => return Ok(GivenUp::Unsavable),
            ids => Some(ids?),
        };
        if failed.as_ref().is_some_and(Vec::is_empty) {
            return Ok(GivenUp::Again); // somebody saved it between the two statements
        }
        if reason == CloseReason::Discarded {
            // Only with our own FAILED row: else the unit of a live order would go back on sale.
            tx.put_releases(&[release_of(order)], now).await?;
            done.releases = true;
            if !tx.take_units(order.voucher, order.epoch, 0).await? {
                return Ok(GivenUp::Again); // the books were closed meanwhile: lost, not discarded
            }
        }
        Ok(if failed.is_some() { GivenUp::Failed(reason) } else { GivenUp::Unsavable })
    }

    async fn log(
        &self,
        tx: &mut Tx,
        by: UserId,
        letter: &BuriedLetter,
        decided: LetterState,
        what: &str,
    ) -> Result<(), StoreError> {
        let action = if decided == LetterState::Retried { "dead_letter.retry" } else { "dead_letter.discard" };
        let before = json!({ "state": LetterState::Open.as_str(), "entry": letter.letter.entry_json }).to_string();
        let after = json!({ "state": decided.as_str(), "outcome": what }).to_string();
        let subject = format!("dead letter {}", letter.id);
        tx.audit(&by.to_string(), action, &subject, Some(&before), Some(&after), self.clock.now()).await
    }

    async fn tell(&self, id: i64, placed: Placed) -> Result<BuriedLetter, LetterError> {
        self.bus.publish(&placed.events);
        if placed.releases {
            self.wakes.releases.notify_one();
        }
        if placed.created + placed.failed > 0 {
            self.wakes.early.notify_one();
        }
        if placed.money {
            self.wakes.paid();
            self.wakes.refunds.notify_one();
        }
        self.letter(id).await
    }

    /// For tests: the entry as a retry without its guard would see it, under the epoch of today.
    #[cfg(feature = "fault-injection")]
    async fn perhaps_of_today(&self, mut entry: Entry) -> Result<Entry, StoreError> {
        if crate::fault::mutant("present-epoch") {
            entry.epoch = self.store.sale(entry.voucher).await?.map_or(entry.epoch, |sale| sale.epoch);
        }
        Ok(entry)
    }
}

/// What became of an entry that was given up.
enum GivenUp {
    Failed(CloseReason),
    HasARow,
    Unsavable,
    Again,
}

fn busy() -> LetterError {
    LetterError::Service(ServiceError::Unavailable(String::from("others keep changing what the decision needs")))
}
