//! Where is my order? Reads over rows, holders and tickets.
//!
//! Nothing is ever QUEUED because nothing was found, and nothing is LOST because it is not in the stream.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::ids::{Epoch, Lane, OrderId, UserId, VoucherId};
use crate::domain::order::{CloseReason, Order, Status};
use crate::domain::ticket::{Ticket, TicketKey};
use crate::domain::voucher::Voucher;
use crate::gate::Gate;
use crate::queue::Queue;
use crate::service::ServiceError;
use crate::service::drain::Drain;
use crate::service::sale_index::{Known, SaleIndex};
use crate::store::Store;

/// What a snapshot looks back over.
const RECENT: Duration = Duration::from_hours(24);

/// The most orders in a snapshot.
const SNAPSHOT_MOST: i64 = 50;

/// Who asks for an order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asker<'a> {
    /// The logged-in user.
    pub user: Option<UserId>,
    /// May see every order.
    pub admin: bool,
    /// A ticket, alone enough for the one order it names.
    pub ticket: Option<&'a str>,
}

/// One page of a list, newest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// The orders.
    pub items: Vec<Order>,
    /// Where the next page begins (orders older than this id); none on the last page.
    pub next: Option<OrderId>,
}

/// What a socket is told when it comes.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The orders, newest first.
    pub orders: Vec<Order>,
    /// The position in its lane of each queued one, where it is known: what "how many before me" is counted from.
    pub positions: Vec<(OrderId, i64)>,
}

/// Reads orders.
pub struct Orders {
    store: Store,
    gate: Gate,
    queue: Queue,
    index: Arc<SaleIndex>,
    tickets: TicketKey,
    clock: Clock,
    lanes: u16,
    drain: Drain,
}

impl Orders {
    /// Reads rows from `store`, places from `gate` and `queue`.
    #[must_use]
    pub fn new(
        store: Store,
        gate: Gate,
        queue: Queue,
        index: Arc<SaleIndex>,
        tickets: TicketKey,
        clock: Clock,
        lanes: u16,
    ) -> Self {
        Self { store, gate, drain: Drain::new(queue.clone()), queue, index, tickets, clock, lanes }
    }

    /// The order `id` as `asker` may see it; none: unknown, or not his.
    pub async fn find(&self, id: OrderId, asker: Asker<'_>) -> Result<Option<Order>, ServiceError> {
        if let Some(ticket) = asker.ticket.and_then(|text| self.tickets.read(text)).filter(|t| t.order == id) {
            return self.by_ticket(&ticket).await;
        }
        let Some(user) = asker.user else { return Ok(None) };
        if let Some(order) = self.store.order(id).await? {
            return Ok((order.user == user || asker.admin).then_some(order));
        }
        if let Some(place) = self.queued_of(user).await?.into_iter().find(|order| order.id == id) {
            let mut placed = self.still_queued(vec![place]).await?;
            if !placed.is_empty() {
                self.add_places(&mut placed).await;
                return Ok(placed.pop());
            }
        }
        // Saved, closed and given back between the two reads: then the row is there by now.
        Ok(self.store.order(id).await?.filter(|order| order.user == user || asker.admin))
    }

    /// Row and epoch in one statement: read apart, a commit between them could make a LOST out of a live order.
    async fn by_ticket(&self, ticket: &Ticket) -> Result<Option<Order>, ServiceError> {
        let (row, epoch) = self.store.order_and_epoch(ticket.order, ticket.voucher).await?;
        if let Some(order) = row {
            // The same number may belong to another buyer's row only after a fault that is alarmed elsewhere.
            return Ok((order.user == ticket.user).then_some(order));
        }
        let Some(epoch) = epoch else { return Ok(None) };
        let Some(voucher) = self.voucher(ticket.voucher).await? else { return Ok(None) };
        if ticket.epoch > epoch {
            return Err(ServiceError::Unavailable(String::from("the database is older than a ticket")));
        }
        let mut order = placeless(ticket.order, ticket.user, &voucher, ticket.epoch);
        if ticket.epoch < epoch {
            // Final: every verdict but LOST is committed under the sale's own epoch, so no row can follow.
            order.status = Status::Failed;
            order.close_reason = Some(CloseReason::Lost);
            order.version = 1;
        } else if ticket.position > 0 {
            order.ahead = self.ahead(ticket.voucher, ticket.position).await;
        } else {
            let mut placed = [order];
            self.add_places(&mut placed).await;
            [order] = placed;
        }
        Ok(Some(order))
    }

    fn lane(&self, voucher: VoucherId) -> Lane {
        Lane::of(voucher, self.lanes)
    }

    /// Orders before the one that was the `position`-th of its voucher's lane; O(1), none when the stream cannot be asked.
    pub async fn ahead(&self, voucher: VoucherId, position: i64) -> Option<i64> {
        let gone = self.drain.gone(self.lane(voucher)).await?;
        Some((position - 1 - gone).max(0))
    }

    /// About how many seconds until a queued order is saved, as the queue was worked off lately; none when unknown.
    pub async fn seconds_until_saved(&self, order: &Order) -> Option<u64> {
        let ahead = order.ahead.filter(|_| order.status == Status::Queued)?;
        self.drain.seconds_for(self.lane(order.voucher), ahead + 1).await
    }

    /// Measures the lanes of the sales that are known, so that a rate is there when somebody asks for it.
    pub async fn measure(&self) {
        let lanes: HashSet<Lane> = self.index.sales().iter().map(|(v, _)| self.lane(v.id)).collect();
        for lane in lanes {
            self.drain.gone(lane).await;
        }
    }

    /// Fills in `ahead` of the queued ones, and answers their positions; what the stream cannot tell stays away.
    async fn add_places(&self, orders: &mut [Order]) -> Vec<(OrderId, i64)> {
        let mut lanes: HashMap<Lane, Vec<usize>> = HashMap::new();
        for (i, order) in orders.iter().enumerate().filter(|(_, o)| o.status == Status::Queued) {
            lanes.entry(self.lane(order.voucher)).or_default().push(i);
        }
        let mut positions = Vec::new();
        for (lane, indices) in lanes {
            let ids: Vec<OrderId> = indices.iter().map(|i| orders[*i].id).collect();
            let Ok(places) = self.queue.places(lane, &ids).await else { continue };
            for (i, position) in indices.into_iter().zip(places).filter_map(|(i, place)| Some((i, place?))) {
                orders[i].ahead = self.ahead(orders[i].voucher, position).await;
                positions.push((orders[i].id, position));
            }
        }
        positions
    }

    /// Whether the stream still has an entry of each of these orders; yes where it cannot be asked.
    pub async fn still_wait(&self, orders: &[&Order]) -> Vec<bool> {
        let mut waits = vec![true; orders.len()];
        let mut lanes: HashMap<Lane, Vec<usize>> = HashMap::new();
        for (i, order) in orders.iter().enumerate() {
            lanes.entry(self.lane(order.voucher)).or_default().push(i);
        }
        for (lane, indices) in lanes {
            let ids: Vec<OrderId> = indices.iter().map(|i| orders[*i].id).collect();
            let Ok(places) = self.queue.places(lane, &ids).await else { continue };
            indices.into_iter().zip(places).for_each(|(i, place)| waits[i] = place.is_some());
        }
        waits
    }

    /// A place that was admitted just now, as it is shown; none for a sale that is not known here.
    #[must_use]
    pub fn just_admitted(&self, id: OrderId, user: UserId, voucher: VoucherId) -> Option<Order> {
        match self.index.get(voucher) {
            Known::Sale(voucher, sale) => Some(placeless(id, user, &voucher, sale.epoch)),
            _ => None,
        }
    }

    /// His places at the gates that are open or closed less than an hour ago, each with its gate's epoch. Not to be shown
    /// before [`still_queued`](Self::still_queued) looked at SQL.
    async fn queued_of(&self, user: UserId) -> Result<Vec<Order>, ServiceError> {
        if !self.index.is_loaded() {
            return Err(ServiceError::Unavailable(String::from("the sales are not known yet")));
        }
        let sales = self.index.sales();
        let ids: Vec<VoucherId> = sales.iter().map(|(v, _)| v.id).collect();
        let held = self.gate.find_holder(&ids, user).await?;
        let mut queued = Vec::new();
        for (voucher, id, epoch) in held {
            let Some((voucher, _)) = sales.iter().find(|(v, _)| v.id == voucher) else { continue };
            queued.push(placeless(id, user, voucher, epoch));
        }
        Ok(queued)
    }

    /// His orders that have a row, newest first, older than `before`; `limit` 1–100.
    pub async fn list(&self, user: UserId, before: Option<OrderId>, limit: u32) -> Result<Page, ServiceError> {
        let mut items = self.store.orders_of(user, before, i64::from(limit) + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        if before.is_none()
            && let Ok(queued) = self.queued_of(user).await
        {
            // A place without a row yet is newer than every row of the page, or it would have one.
            let mut fresh: Vec<Order> = queued.into_iter().filter(|q| items.iter().all(|o| o.id != q.id)).collect();
            fresh = self.still_queued(fresh).await?;
            self.add_places(&mut fresh).await;
            fresh.extend(items);
            items = fresh;
            items.sort_by_key(|o| std::cmp::Reverse(o.id));
        }
        let next = more.then(|| items.last().map(|o| o.id)).flatten();
        Ok(Page { items, next })
    }

    /// Queued and live orders and those changed in the last 24 h, newest first, at most 50.
    pub async fn snapshot(&self, user: UserId) -> Result<Snapshot, ServiceError> {
        // Places first, rows second: an order saved between the two reads shows up as its row.
        let queued = self.queued_of(user).await.unwrap_or_default();
        let since = self.clock.now() - RECENT;
        let mut orders = self.store.live_and_recent(user, since, SNAPSHOT_MOST).await?;
        let fresh = queued.into_iter().filter(|q| orders.iter().all(|o| o.id != q.id)).collect();
        let mut fresh = self.still_queued(fresh).await?;
        let positions = self.add_places(&mut fresh).await;
        orders.extend(fresh);
        orders.sort_by_key(|o| std::cmp::Reverse(o.id));
        orders.truncate(usize::try_from(SNAPSHOT_MOST).unwrap_or(usize::MAX));
        Ok(Snapshot { orders, positions })
    }

    /// Drops the places whose row is there after all (an older closed order whose release is still to come), and those at a
    /// gate that is not of SQL's epoch: the epoch in our memory would not do, because a process that still talks to an old
    /// primary would say QUEUED of a place that reads LOST everywhere else.
    async fn still_queued(&self, places: Vec<Order>) -> Result<Vec<Order>, ServiceError> {
        let mut queued = Vec::with_capacity(places.len());
        for place in places {
            let (row, epoch) = self.store.order_and_epoch(place.id, place.voucher).await?;
            if row.is_none() && epoch == Some(place.epoch) {
                queued.push(place);
            }
        }
        Ok(queued)
    }

    /// Which of `vouchers` he holds a unit of, and under which order: rows, and places where the gate can be asked.
    pub async fn held(&self, user: UserId, vouchers: &[VoucherId]) -> Result<HashMap<VoucherId, Order>, ServiceError> {
        // A hint beside a button: the epoch in memory will do.
        let fits = |o: &Order| matches!(self.index.get(o.voucher), Known::Sale(_, sale) if sale.epoch == o.epoch);
        let places = self.queued_of(user).await.unwrap_or_default();
        let mut held: HashMap<VoucherId, Order> = places.into_iter().filter(fits).map(|order| (order.voucher, order)).collect();
        for order in self.store.held_by(user, vouchers).await? {
            held.insert(order.voucher, order);
        }
        held.retain(|voucher, _| vouchers.contains(voucher));
        Ok(held)
    }

    async fn voucher(&self, id: VoucherId) -> Result<Option<Arc<Voucher>>, ServiceError> {
        if let Known::Sale(voucher, _) = self.index.get(id) {
            return Ok(Some(voucher));
        }
        Ok(self.store.voucher(id).await?.map(Arc::new))
    }
}

/// An admitted id without a row.
pub(super) fn placeless(id: OrderId, user: UserId, voucher: &Voucher, epoch: Epoch) -> Order {
    Order {
        id,
        user,
        voucher: voucher.id,
        voucher_title: voucher.fields.title.clone(),
        status: Status::Queued,
        version: 0,
        ahead: None,
        pay_amount: voucher.fields.pay_value,
        epoch,
        created_at: id.born_at(),
        pay_before: None,
        paid_at: None,
        closed_at: None,
        refunded_at: None,
        close_reason: None,
        coupon_code: None,
        refund: None,
    }
}
