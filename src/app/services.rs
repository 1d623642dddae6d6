//! The services, put together once: what the front doors and the loops share.
//!
//! Part of the composition root; nothing is decided here.

use super::Data;
use crate::clock::Clock;
use crate::config::{PublicUrl, ServeArgs};
use crate::domain::ticket::TicketKey;
use crate::gate::Gate;
use crate::gate::batcher::Batcher;
use crate::gate::order_ids::IdSource;
use crate::payment_provider::signature::SigningKeys;
use crate::push::bus::Bus;
use crate::push::hub::Hub;
use crate::queue::Queue;
use crate::redis::Redis;
use crate::secrets::Secrets;
use crate::service::audit::Audit;
use crate::service::change::Wakes;
use crate::service::desk::Desk;
use crate::service::drift::Drift;
use crate::service::id_blocks::SqlBlocks;
use crate::service::money::{Money, MoneyParts};
use crate::service::orders::Orders;
use crate::service::place_orders::PlaceOrders;
use crate::service::purchase::Purchase;
use crate::service::rebuild::Rebuilds;
use crate::service::reconcile::Nudge;
use crate::service::release::Releases;
use crate::service::sale_index::SaleIndex;
use crate::service::sales::Sales;
use crate::service::users::Users;
use crate::shutdown::Shutdown;
use crate::store::Store;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// What the front doors and the loops share; cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The books.
    pub store: Store,
    /// Redis itself.
    pub redis: Redis,
    /// The gates.
    pub gate: Gate,
    /// The streams.
    pub queue: Queue,
    /// Between instances.
    pub bus: Bus,
    /// Sockets of this instance.
    pub hub: Hub,
    /// The sales in memory.
    pub index: Arc<SaleIndex>,
    /// Vouchers and sales.
    pub sales: Arc<Sales>,
    /// Clicks.
    pub purchase: Arc<Purchase>,
    /// Orders, read.
    pub orders: Arc<Orders>,
    /// Orders, saved.
    pub place: PlaceOrders,
    /// Units given back.
    pub releases: Releases,
    /// Gates put right.
    pub rebuilds: Rebuilds,
    /// Finds drift between books and gate.
    pub drift: Drift,
    /// Do the books balance.
    pub audit: Audit,
    /// People.
    pub users: Users,
    /// What becomes of a saved order.
    pub money: Arc<Money>,
    /// The control room.
    pub desk: Arc<Desk>,
    /// Wakes the reconciler.
    pub nudge: Nudge,
    /// Where order ids come from.
    pub ids: Arc<IdSource>,
}

impl Services {
    pub(super) fn new(
        data: &Data,
        args: &ServeArgs,
        secrets: &Secrets,
        tickets: TicketKey,
        at: &Place,
        clock: &Clock,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Self> {
        let (store, redis, lanes) = (data.store.clone(), data.redis.clone(), args.data.lanes);
        let gate = Gate::new(redis.clone(), lanes).with_replicas(args.redis_wait_replicas, args.redis_wait_within.0);
        let queue = Queue::new(redis.clone());
        let hub = Hub::new(clock.clone());
        let bus = Bus::start(&redis, hub.clone(), shutdown);
        let index = Arc::new(SaleIndex::new(store.clone(), clock.clone()));
        let nudge = Nudge::default();
        let rebuilds = Rebuilds {
            store: store.clone(),
            gate: gate.clone(),
            queue: queue.clone(),
            clock: clock.clone(),
            shutdown: shutdown.clone(),
            lanes,
        };
        let ids = IdSource::start(redis.clone(), clock.clone(), Arc::new(SqlBlocks(store.clone())), shutdown);
        let purchase = Purchase {
            index: index.clone(),
            batcher: Batcher::new(gate.clone(), ids.clone(), args.backlog, shutdown.clone()),
            gate: gate.clone(),
            tickets: tickets.clone(),
            nudge: nudge.clone(),
            clock: clock.clone(),
        };
        let orders = Orders::new(store.clone(), gate.clone(), queue.clone(), index.clone(), tickets, clock.clone(), lanes);
        let orders = Arc::new(orders);
        let drift = Drift {
            store: store.clone(),
            gate: gate.clone(),
            queue: queue.clone(),
            rebuilds: rebuilds.clone(),
            clock: clock.clone(),
        };
        let releases = Releases { store: store.clone(), gate: gate.clone(), clock: clock.clone() };
        let money = Arc::new(Money::new(MoneyParts {
            store: store.clone(),
            orders: orders.clone(),
            releases: releases.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            wakes: Wakes::default(),
            keys: at.keys.clone(),
            pay_window: args.pay_window.0,
            provider_url: args.payment_url.clone().map(|url| url.0),
            local: at.local.clone(),
            public: at.public.0.clone(),
            sandbox_token: secrets.sandbox_token(),
        }));
        let sales = Sales {
            store: store.clone(),
            gate: gate.clone(),
            rebuilds: rebuilds.clone(),
            index: index.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
        };
        let sales = Arc::new(sales);
        let place = PlaceOrders::new(store.clone(), clock.clone(), args.pay_window.0);
        let desk = Desk::new(sales.clone(), place.clone(), queue.clone(), hub.clone(), money.wakes.clone());
        Ok(Self {
            desk: Arc::new(desk),
            place,
            releases,
            audit: Audit { store: store.clone(), gate: gate.clone(), queue: queue.clone(), clock: clock.clone(), lanes },
            users: Users::new(store.clone(), clock.clone())?,
            sales,
            purchase: Arc::new(purchase),
            orders,
            money,
            store,
            redis,
            gate,
            queue,
            bus,
            hub,
            index,
            rebuilds,
            drift,
            nudge,
            ids,
        })
    }
}

/// Where the shop is, and whom it believes about money.
pub(super) struct Place {
    /// For browsers.
    pub(super) public: PublicUrl,
    /// For the process itself.
    pub(super) local: String,
    pub(super) keys: SigningKeys,
}

impl Place {
    pub(super) fn new(args: &ServeArgs, address: SocketAddr, keys: SigningKeys) -> Self {
        let mut own = address;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        let public = args.public_url.clone().unwrap_or_else(|| PublicUrl(format!("http://{address}")));
        Self { public, local: format!("http://{own}"), keys }
    }
}
