//! The sales that are on, known in memory: what the purchase path asks instead of SQL.
//!
//! Filled from SQL once a second, and at once when the bus tells of a change or the gate says "not ready". It carries SQL's
//! committed epoch: a caller that passes it to the gate is stopped by an old primary as soon as it hears of a new epoch.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, Notify, broadcast};

use crate::clock::Clock;
use crate::domain::event::SaleEvent;
use crate::domain::ids::VoucherId;
use crate::domain::sale::Sale;
use crate::domain::time::Millis;
use crate::domain::voucher::Voucher;
use crate::store::{Store, StoreError};

/// How long after its end a sale is still looked at: winners may ask for a queued order, releases may be open.
pub const CLOSED_WITHIN: Duration = Duration::from_hours(1);

/// How often SQL is read when nothing happens.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// How many ids below the highest known one are read again: `PostgreSQL` may commit ids out of order.
const REREAD_IDS: i64 = 1000;

/// What an id means.
#[derive(Debug, Clone)]
pub enum Known {
    /// A sale that is soon, on, or over for less than an hour.
    Sale(Arc<Voucher>, Sale),
    /// A sale that is over for longer.
    Over {
        /// When it ended.
        end: Millis,
    },
    /// An everyday voucher: listed, not sold here.
    Plain,
    /// Nothing has this id.
    Unknown,
    /// SQL could not be read since the start; nobody knows.
    NotLoaded,
}

#[derive(Default)]
struct Contents {
    loaded: bool,
    sales: HashMap<VoucherId, (Arc<Voucher>, Sale)>,
    /// Every voucher ever made: none for an everyday one, else the end of its sale.
    ends: HashMap<VoucherId, Option<Millis>>,
    highest: i64,
}

/// The index; cheap to share.
pub struct SaleIndex {
    store: Store,
    clock: Clock,
    contents: RwLock<Contents>,
    refreshing: Mutex<Option<tokio::time::Instant>>,
    wanted: Notify,
}

impl SaleIndex {
    /// An empty index; [`SaleIndex::refresh`] fills it.
    #[must_use]
    pub fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, contents: RwLock::default(), refreshing: Mutex::new(None), wanted: Notify::new() }
    }

    /// What `voucher` is. Never asks SQL.
    #[must_use]
    pub fn get(&self, voucher: VoucherId) -> Known {
        let contents = self.read();
        if let Some((v, sale)) = contents.sales.get(&voucher) {
            return Known::Sale(v.clone(), *sale);
        }
        match contents.ends.get(&voucher) {
            Some(Some(end)) => Known::Over { end: *end },
            Some(None) => Known::Plain,
            None if contents.loaded => Known::Unknown,
            None => Known::NotLoaded,
        }
    }

    /// Every sale that is soon, on, or over for less than an hour.
    #[must_use]
    pub fn sales(&self) -> Vec<(Arc<Voucher>, Sale)> {
        self.read().sales.values().cloned().collect()
    }

    /// Whether SQL was read at least once.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.read().loaded
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads SQL now. Callers that come while a read is under way share the next one: many "not ready" answers at once
    /// must not become many reads.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let asked = tokio::time::Instant::now();
        let mut last = self.refreshing.lock().await;
        if last.is_some_and(|begun| begun >= asked) {
            return Ok(());
        }
        let begun = tokio::time::Instant::now();
        let now = self.clock.now();
        let highest = self.read().highest;
        let sales = self.store.vouchers_not_over(now, CLOSED_WITHIN).await?;
        let ends = self.store.voucher_ends(VoucherId((highest - REREAD_IDS).max(0))).await?;
        let mut contents = self.contents.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        contents.sales = sales.into_iter().filter_map(|v| v.sale.map(|sale| (v.id, (Arc::new(v), sale)))).collect();
        for (id, end) in ends {
            contents.highest = contents.highest.max(id.0);
            contents.ends.insert(id, end);
        }
        contents.loaded = true;
        drop(contents);
        *last = Some(begun);
        Ok(())
    }

    /// Asks the background task for a read without waiting for it.
    pub fn want_refresh(&self) {
        self.wanted.notify_one();
    }

    /// Reads at once when any process says that a sale changed.
    pub async fn follow(self: Arc<Self>, mut changes: broadcast::Receiver<SaleEvent>, shutdown: crate::shutdown::Shutdown) {
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = shutdown.begun() => return,
            };
            match change {
                Ok(SaleEvent::Changed { .. }) | Err(RecvError::Lagged(_)) => self.want_refresh(),
                Ok(SaleEvent::Stock { .. }) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Keeps the index fresh until the process ends.
    pub async fn keep_fresh(self: Arc<Self>, shutdown: crate::shutdown::Shutdown) {
        loop {
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, "the sales could not be read from SQL; serving from memory");
            }
            tokio::select! {
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(REFRESH_EVERY) => {}
                () = shutdown.begun() => return,
            }
        }
    }
}
