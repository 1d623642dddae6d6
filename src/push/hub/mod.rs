//! The sockets of this process: who listens, to what, and how each is told. Nothing here knows HTTP.
//!
//! Every queue is bounded. A socket that does not read fast enough is closed rather than waited for.

mod roll;
pub use roll::{Listener, Roll};

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, mpsc, watch};

use super::order_json::{order_message, order_text, sale_message, stock_message};
use crate::clock::Clock;
use crate::domain::event::{OrderEvent, SaleEvent};
use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::domain::order::Order;
use crate::domain::sale::SaleState;
use crate::domain::time::Millis;
use crate::telemetry::meters;

/// Messages that may wait for one socket.
const QUEUE: usize = 64;
/// Sockets that one user may have open at once in this process.
const PER_USER: usize = 10;
/// Vouchers that one socket may watch.
pub const MAX_WATCHED: usize = 50;
/// Queued orders of one user whose places are told.
const MAX_QUEUED: usize = 20;
/// Events that may wait for a reader of [`Hub::sale_events`] or [`Hub::ended_sessions`].
const EVENTS: usize = 256;

/// What a socket's task is to do next.
#[derive(Debug, Clone)]
pub enum ToSocket {
    /// Send this text.
    Text(Arc<str>),
    /// Read the snapshot and send it: something may have been missed.
    Resync,
}

/// Why the server ends a socket. The numbers are the close codes that the page knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// 4401: the session is over.
    SessionOver,
    /// 4409: the user opened more than ten, this was the oldest.
    TooMany,
    /// 1013: it did not read fast enough; it may reconnect.
    TooSlow,
}

impl Closing {
    /// The close code.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::SessionOver => 4401,
            Self::TooMany => 4409,
            Self::TooSlow => 1013,
        }
    }
}

/// A registered socket, held by its task; dropping it takes it off the hub.
#[derive(Debug)]
pub struct Socket {
    id: u64,
    hub: Hub,
    /// What to send, oldest first.
    pub messages: mpsc::Receiver<ToSocket>,
    /// Set once the socket must close.
    pub closing: watch::Receiver<Option<Closing>>,
}

impl Socket {
    /// From now on this socket hears about `voucher`. False when it watches too many already.
    #[must_use]
    pub fn watch(&self, voucher: VoucherId) -> bool {
        self.hub.watch(self.id, voucher)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.hub.lock().remove(self.id);
    }
}

#[derive(Debug)]
struct Entry {
    user: Option<UserId>,
    session: Option<String>,
    since: Millis,
    desk: bool,
    watched: HashSet<VoucherId>,
    messages: mpsc::Sender<ToSocket>,
    closing: watch::Sender<Option<Closing>>,
}

impl Entry {
    fn tell(&self, message: ToSocket) {
        if self.messages.try_send(message).is_ok() {
            meters().push_messages.increment(1);
        } else {
            meters().push_slow.increment(1);
            self.close(Closing::TooSlow);
        }
    }

    fn close(&self, why: Closing) {
        // The first reason stands: a socket that was slow and then lost its session closes once.
        self.closing.send_if_modified(|now| now.is_none() && now.replace(why).is_none());
    }
}

/// A queued order of a user with sockets here: his tabs are told as its place falls.
#[derive(Debug, Clone)]
pub struct Place {
    /// The order as it was queued.
    pub order: Arc<Order>,
    /// How many entries its lane had ever taken with it.
    pub position: i64,
    /// Orders before it, as told last.
    pub told: Option<i64>,
}

/// A user with at least one socket here.
#[derive(Debug, Default)]
struct Person {
    /// His sockets, oldest first.
    ids: Vec<u64>,
    /// Changes of his orders that were told here since his first socket came.
    changes: u64,
    queued: Vec<Place>,
}

/// A session with at least one socket here.
#[derive(Debug, Default)]
struct Watched {
    ids: Vec<u64>,
    /// When somebody should look whether it still lives; 0: at once.
    look_at: Millis,
}

#[derive(Debug, Default)]
struct Registry {
    last_id: u64,
    sockets: HashMap<u64, Entry>,
    of_user: HashMap<UserId, Person>,
    of_session: HashMap<String, Watched>,
    watchers: HashMap<VoucherId, HashSet<u64>>,
}

impl Registry {
    fn remove(&mut self, id: u64) {
        let Some(entry) = self.sockets.remove(&id) else { return };
        if let Some(user) = entry.user
            && let Some(person) = self.of_user.get_mut(&user)
        {
            person.ids.retain(|other| *other != id);
            if person.ids.is_empty() {
                self.of_user.remove(&user);
            }
        }
        if let Some(session) = entry.session
            && let Some(watched) = self.of_session.get_mut(&session)
        {
            watched.ids.retain(|other| *other != id);
            if watched.ids.is_empty() {
                self.of_session.remove(&session);
            }
        }
        for voucher in entry.watched {
            if let Some(ids) = self.watchers.get_mut(&voucher) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.watchers.remove(&voucher);
                }
            }
        }
    }

    fn entries_of(&self, user: UserId) -> impl Iterator<Item = &Entry> {
        self.of_user.get(&user).into_iter().flat_map(|p| &p.ids).filter_map(|id| self.sockets.get(id))
    }
}

/// All sockets of this process; cheap to clone.
#[derive(Debug, Clone)]
pub struct Hub {
    registry: Arc<Mutex<Registry>>,
    sale_events: broadcast::Sender<SaleEvent>,
    ended: broadcast::Sender<String>,
    clock: Clock,
}

impl Hub {
    /// A hub without sockets.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            registry: Arc::default(),
            sale_events: broadcast::Sender::new(EVENTS),
            ended: broadcast::Sender::new(EVENTS),
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // No code panics while it holds the lock half-way through a change.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a socket: of a user with the hash of his session's token, or of a visitor. The user's oldest is closed
    /// (4409) when this is more than his tenth.
    #[must_use]
    pub fn register(&self, user: Option<UserId>, session: Option<String>) -> Socket {
        let (messages_in, messages) = mpsc::channel(QUEUE);
        let (closing_in, closing) = watch::channel(None);
        let mut registry = self.lock();
        registry.last_id += 1;
        let id = registry.last_id;
        if let Some(user) = user {
            let ids = &mut registry.of_user.entry(user).or_default().ids;
            ids.push(id);
            let surplus = if ids.len() > PER_USER { Some(ids[0]) } else { None };
            if let Some(oldest) = surplus {
                if let Some(entry) = registry.sockets.get(&oldest) {
                    entry.close(Closing::TooMany);
                }
                // Off the books at once, so that the next one does not count it again.
                registry.remove(oldest);
            }
        }
        if let Some(session) = &session {
            // Looked at before it was registered: an end in between told nobody, so it is looked at once more.
            let watched = registry.of_session.entry(session.clone()).or_default();
            watched.ids.push(id);
            watched.look_at = Millis(0);
        }
        let (since, watched) = (self.clock.now(), HashSet::new());
        let entry = Entry { user, session, since, desk: false, watched, messages: messages_in, closing: closing_in };
        registry.sockets.insert(id, entry);
        drop(registry);
        Socket { id, hub: self.clone(), messages, closing }
    }

    fn watch(&self, id: u64, voucher: VoucherId) -> bool {
        let mut registry = self.lock();
        let Some(entry) = registry.sockets.get_mut(&id) else { return false };
        if entry.watched.len() >= MAX_WATCHED && !entry.watched.contains(&voucher) {
            return false;
        }
        entry.watched.insert(voucher);
        registry.watchers.entry(voucher).or_default().insert(id);
        true
    }

    /// Tells every socket of the event's user, and nobody else. Call it only after commit and acknowledge.
    pub fn send(&self, event: &OrderEvent) {
        if self.lock().of_user.contains_key(&event.user) {
            self.send_rendered(event.user, event.order.id, event.kind(), &order_text(event));
        }
    }

    /// As [`Hub::send`], for an order that another process rendered.
    pub fn send_rendered(&self, user: UserId, order: OrderId, kind: &str, order_text: &str) {
        let mut registry = self.lock();
        if let Some(person) = registry.of_user.get_mut(&user) {
            // It waits no more: nothing may say "queued" after this.
            person.changes += 1;
            person.queued.retain(|place| place.order.id != order);
            let text: Arc<str> = order_message(kind, order_text, self.clock.now()).into();
            registry.entries_of(user).for_each(|entry| entry.tell(ToSocket::Text(text.clone())));
        }
    }

    /// Sockets of `user` in this process.
    #[must_use]
    pub fn sockets_of(&self, user: UserId) -> usize {
        self.lock().of_user.get(&user).map_or(0, |person| person.ids.len())
    }

    /// How many changes of his orders a user was told here; none when he has no socket. Read it before asking where an
    /// order stands, and hand it to [`Hub::queue`].
    #[must_use]
    pub fn changes_of(&self, user: UserId) -> Option<u64> {
        self.lock().of_user.get(&user).map(|person| person.changes)
    }

    /// From now on the user is told as the places of these queued orders (each with its position) fall. Does nothing when
    /// he was told of a change after `changes`: what was read then may be older than that.
    pub fn queue(&self, user: UserId, changes: u64, places: Vec<(Order, i64)>) {
        let mut registry = self.lock();
        let Some(person) = registry.of_user.get_mut(&user).filter(|person| person.changes == changes) else { return };
        for (order, position) in places {
            if person.queued.len() < MAX_QUEUED && person.queued.iter().all(|known| known.order.id != order.id) {
                let told = order.ahead;
                person.queued.push(Place { order: Arc::new(order), position, told });
            }
        }
    }

    /// The queued orders of users with sockets here.
    #[must_use]
    pub fn places(&self) -> Vec<(UserId, Place)> {
        let registry = self.lock();
        registry.of_user.iter().flat_map(|(user, p)| p.queued.iter().map(|place| (*user, place.clone()))).collect()
    }

    /// Tells every socket of the user how many are before his queued order, rendered with that figure; only when it is
    /// fewer than he was told before.
    pub fn send_place(&self, user: UserId, order: OrderId, ahead: i64, order_text: &str) {
        let mut registry = self.lock();
        let Some(person) = registry.of_user.get_mut(&user) else { return };
        let Some(i) = person.queued.iter().position(|place| place.order.id == order) else { return };
        if person.queued[i].told.is_some_and(|told| told <= ahead) {
            return;
        }
        person.queued[i].told = Some(ahead);
        let text: Arc<str> = order_message("order.queued", order_text, self.clock.now()).into();
        registry.entries_of(user).for_each(|entry| entry.tell(ToSocket::Text(text.clone())));
    }

    fn tell_watchers(&self, voucher: VoucherId, text: impl FnOnce() -> String) {
        let registry = self.lock();
        if let Some(ids) = registry.watchers.get(&voucher) {
            let text: Arc<str> = text().into();
            let entries = ids.iter().filter_map(|id| registry.sockets.get(id));
            entries.for_each(|entry| entry.tell(ToSocket::Text(text.clone())));
        }
    }

    /// Passes an event of a sale on to who reads [`Hub::sale_events`]; a stock figure also to the watchers.
    pub fn broadcast(&self, event: SaleEvent) {
        if let SaleEvent::Stock { voucher, stock } = event {
            let now = self.clock.now();
            self.tell_watchers(voucher, || stock_message(voucher, stock, now, now));
        }
        // No reader is no error.
        let _ = self.sale_events.send(event);
    }

    /// Tells the watchers how many units were left at `as_of`.
    pub fn send_stock(&self, voucher: VoucherId, stock: i64, as_of: Millis) {
        self.tell_watchers(voucher, || stock_message(voucher, stock, as_of, self.clock.now()));
    }

    /// Tells the watchers the state of a sale.
    pub fn send_sale(&self, voucher: VoucherId, state: SaleState, begin: Millis, end: Millis) {
        self.tell_watchers(voucher, || sale_message(voucher, state, begin, end, self.clock.now()));
    }

    /// Events of sales as they arrive, also from other processes. A reader that lags reads everything again.
    #[must_use]
    pub fn sale_events(&self) -> broadcast::Receiver<SaleEvent> {
        self.sale_events.subscribe()
    }

    /// How many sockets are open here.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.lock().sockets.len()
    }

    /// The vouchers that at least one socket watches.
    #[must_use]
    pub fn watched(&self) -> Vec<VoucherId> {
        self.lock().watchers.keys().copied().collect()
    }

    /// The order waits no more and nobody told what became of it (whoever saved it died before it could): every socket of
    /// the user reads its snapshot again. False when he was told meanwhile.
    #[must_use]
    pub fn untold(&self, user: UserId, order: OrderId) -> bool {
        let mut registry = self.lock();
        let Some(person) = registry.of_user.get_mut(&user) else { return false };
        let waiting = person.queued.len();
        person.queued.retain(|place| place.order.id != order);
        let untold = person.queued.len() < waiting;
        if untold {
            registry.entries_of(user).for_each(|entry| entry.tell(ToSocket::Resync));
        }
        untold
    }

    /// Asks every socket of a user to read its snapshot again: the bus was away and may have missed something, the end of
    /// a session too.
    pub fn resync_all(&self) {
        let mut registry = self.lock();
        registry.of_session.values_mut().for_each(|watched| watched.look_at = Millis(0));
        registry.sockets.values().filter(|e| e.user.is_some()).for_each(|e| e.tell(ToSocket::Resync));
    }

    /// Closes (4401) the sockets of a session that ended.
    pub fn end_session(&self, session: &str) {
        let registry = self.lock();
        let ids = registry.of_session.get(session).into_iter().flat_map(|watched| &watched.ids);
        ids.filter_map(|id| registry.sockets.get(id)).for_each(|entry| entry.close(Closing::SessionOver));
        let _ = self.ended.send(session.to_owned());
    }

    /// Sessions with sockets here that should be looked at by now.
    #[must_use]
    pub fn sessions_to_look_at(&self, now: Millis) -> Vec<String> {
        self.lock().of_session.iter().filter(|(_, w)| w.look_at <= now).map(|(session, _)| session.clone()).collect()
    }

    /// A session was looked at and lives; it need not be looked at before `at`.
    pub fn look_again(&self, session: &str, at: Millis) {
        if let Some(watched) = self.lock().of_session.get_mut(session) {
            watched.look_at = at;
        }
    }

    /// Hashes of sessions as they end, also in other processes.
    #[must_use]
    pub fn ended_sessions(&self) -> broadcast::Receiver<String> {
        self.ended.subscribe()
    }

    /// Closes (4401) every socket of a user.
    pub fn end_user(&self, user: UserId) {
        self.lock().entries_of(user).for_each(|e| e.close(Closing::SessionOver));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(n: i64) -> (Option<UserId>, Option<String>) {
        (Some(UserId(n)), Some(format!("s{n}")))
    }

    fn text(socket: &mut Socket) -> Option<String> {
        match socket.messages.try_recv().ok()? {
            ToSocket::Text(text) => Some(text.to_string()),
            ToSocket::Resync => Some(String::from("resync")),
        }
    }

    #[test]
    fn every_tab_of_the_user_hears_and_nobody_else() {
        let hub = Hub::new(Clock::default());
        let mut tabs = [hub.register(user(1).0, user(1).1), hub.register(user(1).0, user(1).1)];
        let mut other = hub.register(user(2).0, user(2).1);
        hub.send_rendered(UserId(1), OrderId(5), "order.created", "{}");
        assert!(tabs.iter_mut().all(|t| text(t).is_some_and(|m| m.contains("order.created"))));
        assert_eq!(text(&mut other), None);
    }

    #[test]
    fn the_eleventh_socket_closes_the_oldest_and_a_dropped_one_makes_room() {
        let hub = Hub::new(Clock::default());
        let mut ten: Vec<_> = (0..10).map(|_| hub.register(user(1).0, user(1).1)).collect();
        drop(ten.pop());
        let tenth = hub.register(user(1).0, user(1).1);
        assert_eq!(*ten[0].closing.borrow(), None);
        let eleventh = hub.register(user(1).0, user(1).1);
        assert_eq!(*ten[0].closing.borrow(), Some(Closing::TooMany));
        assert!(ten[1..].iter().chain([&tenth, &eleventh]).all(|s| s.closing.borrow().is_none()));
    }

    #[test]
    fn who_does_not_read_is_closed_and_holds_nobody_up() {
        let hub = Hub::new(Clock::default());
        let slow = hub.register(user(1).0, user(1).1);
        for _ in 0..=QUEUE {
            hub.send_rendered(UserId(1), OrderId(5), "order.queued", "{}");
        }
        assert_eq!(*slow.closing.borrow(), Some(Closing::TooSlow));
    }

    #[test]
    fn an_ended_session_closes_its_own_sockets_only() {
        let hub = Hub::new(Clock::default());
        let phone = hub.register(Some(UserId(1)), Some("phone".into()));
        let laptop = hub.register(Some(UserId(1)), Some("laptop".into()));
        hub.end_session("phone");
        assert_eq!((*phone.closing.borrow(), *laptop.closing.borrow()), (Some(Closing::SessionOver), None));
        hub.end_user(UserId(1));
        assert_eq!(*laptop.closing.borrow(), Some(Closing::SessionOver));
    }

    #[test]
    fn a_watcher_hears_its_voucher_until_it_leaves() {
        let hub = Hub::new(Clock::default());
        let mut visitor = hub.register(None, None);
        assert!(visitor.watch(VoucherId(10)));
        hub.send_stock(VoucherId(10), 3, Millis(1));
        hub.send_stock(VoucherId(11), 3, Millis(1));
        assert!(text(&mut visitor).is_some_and(|m| m.contains("voucher.stock")));
        assert_eq!(text(&mut visitor), None);
        drop(visitor);
        assert_eq!(hub.watched(), Vec::new());
    }
}
