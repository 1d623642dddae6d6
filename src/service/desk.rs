//! The control room's desk: everything that an admin sees and does, put together once, and the lists behind the numbers.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::domain::ids::{Lane, OrderId, VoucherId};
use crate::domain::order::Status;
use crate::push::hub::{Hub, Roll};
pub use crate::queue::{Entry, Given, StreamId, Unreadable, WaitingEntry};
use crate::queue::{Queue, Waiting, process_name};
use crate::service::ServiceError;
use crate::service::change::Wakes;
use crate::service::control::Control;
use crate::service::dead_letters::DeadLetters;
use crate::service::figures::Figures;
use crate::service::orders::{Page, placeless};
use crate::service::place_orders::{PlaceOrders, buried_entry};
use crate::service::reports::Reports;
use crate::service::rings::Rings;
use crate::service::sales::Sales;
use crate::shutdown::Shutdown;
use crate::store::{AuditLine, BuriedLetter, OrderFilter, OutboxLine};

/// Dead letters that a list of queued orders looks at.
const LETTERS: i64 = 1000;

/// One page of a list whose lines have numbers, newest first.
#[derive(Debug, Clone)]
pub struct Lines<T> {
    /// The lines.
    pub items: Vec<T>,
    /// Where the next page begins (lines below this number); none on the last page.
    pub next: Option<i64>,
}

impl<T> Lines<T> {
    /// A page of `limit` from the lines that were read, one more than fit, if there are.
    fn of(mut read: Vec<T>, limit: u32, number: impl Fn(&T) -> i64) -> Self {
        let more = read.len() > limit as usize;
        read.truncate(limit as usize);
        let next = read.last().filter(|_| more).map(number);
        Self { items: read, next }
    }
}

/// What waits to be saved, over all lanes.
#[derive(Debug, Clone, Default)]
pub struct WaitingList {
    /// How many entries there are.
    pub all: i64,
    /// The oldest of them, oldest first, each with its lane.
    pub oldest: Vec<(Lane, WaitingEntry)>,
}

/// Lanes that are asked at once.
const LANES_AT_ONCE: usize = 16;

/// The desk.
pub struct Desk {
    /// What this process is called where several are looked at: `HOST-PID`, as the names of its consumers begin.
    pub process: String,
    /// What may be done to a sale.
    pub control: Control,
    /// How a sale stands.
    pub figures: Arc<Figures>,
    /// How it stood in the last minutes.
    pub rings: Arc<Rings>,
    /// What is to be decided by hand.
    pub letters: DeadLetters,
    /// What became of a sale.
    pub reports: Reports,
    /// The sales and their stores.
    pub sales: Arc<Sales>,
    queue: Queue,
    hub: Hub,
}

impl Desk {
    /// Puts the desk together.
    #[must_use]
    pub fn new(sales: Arc<Sales>, place: PlaceOrders, queue: Queue, hub: Hub, wakes: Wakes) -> Self {
        let figures = Arc::new(Figures::new(sales.clone(), sales.rebuilds.lanes));
        let letters =
            DeadLetters { store: sales.store.clone(), place, bus: sales.bus.clone(), wakes, clock: sales.clock.clone() };
        let name = process_name();
        Self {
            process: name.rsplit_once('-').map_or(name.clone(), |(process, _)| process.to_owned()),
            control: Control { sales: sales.clone() },
            reports: Reports { sales: sales.clone(), figures: figures.clone() },
            figures,
            rings: Arc::default(),
            letters,
            sales,
            queue,
            hub,
        }
    }

    /// Starts the sampling of the sales that are on; it lives until `shutdown`.
    pub fn start_sampling(&self, shutdown: &Shutdown) {
        let (rings, sales, figures) = (self.rings.clone(), self.sales.clone(), self.figures.clone());
        shutdown.spawn_loop("samples of the sales", rings.fill(sales, figures, shutdown.clone()));
    }

    /// Sockets that are open in this process.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.hub.sockets()
    }

    /// The sockets that are open in this process: counted, and the newest, `most` at most.
    #[must_use]
    pub fn roll(&self, most: usize) -> Roll {
        self.hub.roll(most)
    }

    /// What waits to be saved, over all lanes: how much, and the oldest, `most` at most. One round trip a lane.
    pub async fn waiting(&self, most: usize) -> Result<WaitingList, ServiceError> {
        let lanes = (0..self.sales.rebuilds.lanes).map(Lane);
        let asked = lanes.map(|lane| async move { self.queue.waiting(lane, most).await.map(|waiting| (lane, waiting)) });
        let answers: Vec<_> = stream::iter(asked).buffered(LANES_AT_ONCE).try_collect().await?;
        let all = answers.iter().map(|(_, waiting)| waiting.all).sum();
        let of = |(lane, waiting): (Lane, Waiting)| waiting.oldest.into_iter().map(move |entry| (lane, entry));
        let mut oldest: Vec<_> = answers.into_iter().flat_map(of).collect();
        oldest.sort_by_key(|(lane, entry)| (entry.stream_id, *lane));
        oldest.truncate(most);
        Ok(WaitingList { all, oldest })
    }

    /// The orders of a sale that have a row and pass `filter`, older than `before`, newest first; `limit` 1–100.
    pub async fn orders_of_voucher(
        &self,
        voucher: VoucherId,
        filter: OrderFilter,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Page, ServiceError> {
        if filter.status == Some(Status::Queued) {
            return self.queued_of_voucher(voucher, before, limit).await;
        }
        let mut items = self.sales.store.orders_of_voucher(voucher, filter, before, i64::from(limit) + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = more.then(|| items.last().map(|order| order.id)).flatten();
        Ok(Page { items, next })
    }

    /// Admitted orders that wait for their rows, in the stream or among the dead letters. Reads the stream of the lane.
    async fn queued_of_voucher(&self, voucher: VoucherId, before: Option<OrderId>, limit: u32) -> Result<Page, ServiceError> {
        let store = &self.sales.store;
        let Some(known) = store.voucher(voucher).await? else { return Ok(Page { items: Vec::new(), next: None }) };
        let epoch = known.sale.map_or(0, |sale| sale.epoch);
        let waiting = self.queue.entries(self.figures.lane(voucher)).await?;
        let letters = store.open_dead_letters(LETTERS).await?;
        let entries = waiting.into_iter().filter_map(|delivery| delivery.entry.ok());
        let buried = letters.iter().filter_map(|letter| buried_entry(&letter.letter.entry_json));
        let mut found: Vec<_> = entries.chain(buried).filter(|e| e.voucher == voucher && e.epoch == epoch).collect();
        found.retain(|entry| before.is_none_or(|before| entry.order < before));
        found.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.order));
        found.dedup_by_key(|entry| entry.order);
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let items: Vec<_> = found.iter().map(|e| placeless(e.order, e.user, &known, e.epoch)).collect();
        let next = more.then(|| items.last().map(|order| order.id)).flatten();
        Ok(Page { items, next })
    }

    /// The dead letters, open and decided.
    pub async fn dead_letters(&self, before: Option<i64>, limit: u32) -> Result<Lines<BuriedLetter>, ServiceError> {
        let read = self.sales.store.dead_letters(before, i64::from(limit) + 1).await?;
        Ok(Lines::of(read, limit, |letter| letter.id))
    }

    /// The outbox: what must happen outside SQL. `open`: only what waits; `voucher`: only what waits for this sale.
    pub async fn outbox(
        &self,
        open: bool,
        voucher: Option<VoucherId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Lines<OutboxLine>, ServiceError> {
        let (store, most) = (&self.sales.store, i64::from(limit) + 1);
        let read = if open || voucher.is_some() {
            store.open_outbox_lines(voucher, before, most).await?
        } else {
            store.outbox_lines(before, most).await?
        };
        Ok(Lines::of(read, limit, |line| line.id))
    }

    /// What moved the units of a sale, or counted them anew, newest first.
    pub async fn stock_log(&self, voucher: VoucherId, before: Option<i64>, limit: u32) -> Result<Lines<AuditLine>, ServiceError> {
        let read = self.sales.store.stock_lines(voucher, before, i64::from(limit) + 1).await?;
        Ok(Lines::of(read, limit, |line| line.id))
    }

    /// The audit log.
    pub async fn audit_log(&self, before: Option<i64>, limit: u32) -> Result<Lines<AuditLine>, ServiceError> {
        let read = self.sales.store.audit_lines(before, i64::from(limit) + 1).await?;
        Ok(Lines::of(read, limit, |line| line.id))
    }
}
