//! The composition root: the only file that sees every room. Opens the stores, builds the services, starts the loops and
//! the listener, and takes them down in the right order.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;

use crate::clock::Clock;
use crate::config::{DataArgs, PublicUrl, ServeArgs};
use crate::domain::ids::{Lane, UserId};
use crate::domain::user::User;
use crate::gate::Gate;
use crate::gate::batcher::Batcher;
use crate::gate::order_ids::IdSource;
use crate::payment_provider::signature::{BadSecret, SigningKeys};
use crate::push::bus::Bus;
use crate::push::hub::Hub;
use crate::queue::Queue;
use crate::redis::Redis;
use crate::redis::managed::{Managed, socket_of};
use crate::secrets::Secrets;
use crate::service::audit::Audit;
use crate::service::change::Wakes;
use crate::service::demo::{Demo, DemoUser};
use crate::service::id_blocks::SqlBlocks;
use crate::service::money::{Money, MoneyParts};
use crate::service::orders::Orders;
use crate::service::place_orders::PlaceOrders;
use crate::service::purchase::Purchase;
use crate::service::rebuild::Rebuilds;
use crate::service::reconcile::{Nudge, Reconciler};
use crate::service::release::Releases;
use crate::service::sale_index::SaleIndex;
use crate::service::sales::Sales;
use crate::service::shops::Shops;
use crate::service::users::Users;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::web::session::{Life, RedisSessions, Sessions};
use crate::web::state::{AppState, Parts};
use crate::worker::consumer::Consumer;

/// How long requests in flight may take at the end, and then the loops.
const FINISH_WITHIN: Duration = Duration::from_secs(4);

/// The first phone of `user seed`.
const SEED_PHONES_FROM: u64 = 19_900_000_000;

/// Why the shop does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An option does not fit what is there: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Anything else: exit code 1.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// The opened stores.
pub struct Data {
    /// The books.
    pub store: Store,
    /// Gate, stream, sessions.
    pub redis: Redis,
    managed: Option<Managed>,
    lanes: u16,
}

impl Data {
    /// Opens the stores; starts the managed Redis unless its socket answers already or an own one is given.
    pub async fn open(args: &DataArgs) -> anyhow::Result<Self> {
        match Self::open_beside(args).await {
            Ok(data) => Ok(data),
            Err(error) if args.redis_url.is_some() => Err(error),
            Err(_) => Self::open_alone(args).await,
        }
    }

    /// Opens the stores and the managed Redis as its only owner.
    async fn open_alone(args: &DataArgs) -> anyhow::Result<Self> {
        let store = open_store(args).await?;
        let (redis, managed) = if let Some(url) = &args.redis_url {
            (Redis::open(url.expose_secret()).await?, None)
        } else {
            let managed = Managed::start(&args.data_dir, args.redis_server.as_deref(), args.redis_fsync).await?;
            (Redis::open_socket(managed.socket()).await?, Some(managed))
        };
        Ok(Self { store, redis, managed, lanes: args.lanes })
    }

    /// Opens the stores of a server that runs.
    pub async fn open_beside(args: &DataArgs) -> anyhow::Result<Self> {
        let redis = match &args.redis_url {
            Some(url) => Redis::open(url.expose_secret()).await?,
            None => Redis::open_socket(&socket_of(&args.data_dir)?).await?,
        };
        Ok(Self { store: open_store(args).await?, redis, managed: None, lanes: args.lanes })
    }

    /// An auditor of these stores.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit {
            store: self.store.clone(),
            gate: Gate::new(self.redis.clone(), self.lanes),
            queue: Queue::new(self.redis.clone()),
            clock: Clock::default(),
            lanes: self.lanes,
        }
    }

    /// Stops what was started for this.
    pub async fn close(self) {
        self.store.close().await;
        if let Some(managed) = self.managed {
            managed.stop().await;
        }
    }
}

/// Opens the database and applies what migrations are pending.
pub async fn open_store(args: &DataArgs) -> anyhow::Result<Store> {
    make_private_dir(&args.data_dir)?;
    let url = match &args.database_url {
        Some(url) => url.expose_secret().to_owned(),
        None => format!("sqlite://{}", args.data_dir.join("seckill.db").display()),
    };
    let store = Store::open(&url).await.context("cannot open the database")?;
    store.migrate().await.context("cannot bring the database's schema up to date")?;
    let kept = store.keep_setting("lanes", &args.lanes.to_string()).await?;
    anyhow::ensure!(
        kept == args.lanes.to_string(),
        "this data was made with --lanes {kept}; start with that number, orders would be looked for in the wrong streams"
    );
    Ok(store)
}

/// Users with a session each, for load tests.
pub async fn seed_users(data: &Data, count: u32) -> anyhow::Result<Vec<(UserId, String, String)>> {
    let clock = Clock::default();
    let shutdown = Shutdown::default();
    let hub = Hub::new(clock.clone());
    let bus = Bus::start(&data.redis, hub.clone(), &shutdown);
    // A load test uses its sessions at once or not at all.
    let life = Life { idle: Duration::from_hours(1), max: Duration::from_hours(24) };
    let sessions = Sessions::new(RedisSessions::new(data.redis.clone()), life, clock, &hub, bus, &shutdown);
    let mut tx = data.store.begin().await?;
    let ids = tx.insert_users_bulk(SEED_PHONES_FROM, u64::from(count), Clock::default().now()).await?;
    tx.commit().await?;
    let named =
        |(i, id): (usize, UserId)| User { id, nick_name: format!("user_{i:010}"), admin: false, disabled: false, credits: 0 };
    let users: Vec<User> = ids.into_iter().enumerate().map(named).collect();
    let tokens = sessions.seed(&users).await?;
    shutdown.begin();
    let phones = (SEED_PHONES_FROM..).map(|phone| phone.to_string());
    Ok(users.into_iter().zip(phones).zip(tokens).map(|((user, phone), token)| (user.id, phone, token)).collect())
}

/// A running shop.
pub struct App {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who may log in to the demo of this start.
    pub demo_users: Vec<DemoUser>,
    /// The services, for whoever stands beside the front doors.
    pub services: Services,
    /// Who is logged in.
    pub sessions: Sessions,
    shutdown: Shutdown,
    stop_listening: Shutdown,
    managed: Option<Managed>,
}

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
    /// Do the books balance.
    pub audit: Audit,
    /// People.
    pub users: Users,
    /// What becomes of a saved order.
    pub money: Money,
    /// Wakes the reconciler.
    pub nudge: Nudge,
}

impl Services {
    fn new(
        data: &Data,
        args: &ServeArgs,
        secrets: &Secrets,
        at: &Place,
        clock: &Clock,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Self> {
        let (store, redis, lanes) = (data.store.clone(), data.redis.clone(), args.data.lanes);
        let gate = Gate::new(redis.clone(), lanes);
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
            batcher: Batcher::new(gate.clone(), ids, args.backlog, shutdown.clone()),
            gate: gate.clone(),
            tickets: secrets.ticket_key(),
            nudge: nudge.clone(),
            clock: clock.clone(),
        };
        let orders =
            Orders::new(store.clone(), gate.clone(), queue.clone(), index.clone(), secrets.ticket_key(), clock.clone(), lanes);
        let orders = Arc::new(orders);
        let releases = Releases { store: store.clone(), gate: gate.clone(), clock: clock.clone() };
        let money = Money::new(MoneyParts {
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
        });
        let sales = Sales {
            store: store.clone(),
            gate: gate.clone(),
            rebuilds: rebuilds.clone(),
            index: index.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
        };
        Ok(Self {
            place: PlaceOrders::new(store.clone(), clock.clone(), args.pay_window.0),
            releases,
            audit: Audit { store: store.clone(), gate: gate.clone(), queue: queue.clone(), clock: clock.clone(), lanes },
            users: Users::new(store.clone(), clock.clone())?,
            sales: Arc::new(sales),
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
            nudge,
        })
    }
}

/// Where the shop is, and whom it believes about money.
struct Place {
    /// For browsers.
    public: PublicUrl,
    /// For the process itself.
    local: String,
    keys: SigningKeys,
}

impl Place {
    fn new(args: &ServeArgs, address: SocketAddr, keys: SigningKeys) -> Self {
        let mut own = address;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        let public = args.public_url.clone().unwrap_or_else(|| PublicUrl(format!("http://{address}")));
        Self { public, local: format!("http://{own}"), keys }
    }
}

/// The given secrets of payment, if any, and whether the sandbox may be used where this shop listens.
fn check_payments(args: &ServeArgs) -> Result<Option<SigningKeys>, StartError> {
    if args.payment_url.is_none() && !args.sandbox_payments && !args.listen.ip().is_loopback() {
        return Err(StartError::Usage(String::from(
            "payments need --payment-url; on a listener that is not loopback the sandbox, which takes no money, is used only with --sandbox-payments",
        )));
    }
    let read = |secret: &SecretString| secret.expose_secret().parse();
    args.payment_secret.as_ref().map(read).transpose().map_err(|e: BadSecret| StartError::Usage(format!("--payment-secret: {e}")))
}

/// Starts the shop: everything answers when this returns.
pub async fn start(args: &ServeArgs, clock: Clock) -> Result<App, StartError> {
    let given_keys = check_payments(args)?;
    let data = Data::open_alone(&args.data).await?;
    let secrets = Secrets::load_or_create(&args.data.data_dir)?;
    let keys = match given_keys {
        Some(keys) => keys,
        None => secrets.payment_secret().expose_secret().parse().context("the secrets of this shop are damaged")?,
    };
    // Before the services, because some must know where it is; whoever connects now is served once all is ready.
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr().context("no local address")?;
    let place = Place::new(args, address, keys);
    let shutdown = Shutdown::default();
    let services = Services::new(&data, args, &secrets, &place, &clock, &shutdown)?;

    // The index first: a purchase that comes with the first connection must find its sale.
    services.index.refresh().await.context("cannot read the sales")?;
    shutdown.spawn(services.index.clone().keep_fresh(shutdown.clone()));
    if args.roles.worker {
        start_workers(&services, args.data.lanes, &shutdown, &clock).await?;
    }

    if args.roles.web {
        crate::worker::money::start_sandbox(&services.money, &shutdown);
    }
    let life = Life { idle: args.session_idle.0, max: args.session_max.0 };
    let sessions = Sessions::new(
        RedisSessions::new(data.redis.clone()),
        life,
        clock.clone(),
        &services.hub,
        services.bus.clone(),
        &shutdown,
    );
    let mut demo_users = Vec::new();
    if args.demo {
        demo_users = start_demo(&services, &sessions, &clock).await?;
    }
    let state = AppState::new(Parts {
        store: services.store.clone(),
        redis: data.redis.clone(),
        clock: clock.clone(),
        sessions: sessions.clone(),
        users: services.users.clone(),
        shops: Shops::new(services.store.clone()),
        sales: services.sales.clone(),
        purchase: services.purchase.clone(),
        orders: services.orders.clone(),
        hub: services.hub.clone(),
        zone: args.time_zone.0.clone(),
        public_url: place.public,
        money: services.money.clone(),
        rate_limit: args.rate_limit,
        trusted_proxies: args.trusted_proxies.clone(),
        session_max: args.session_max.0,
        pay_window: args.pay_window.0,
        metrics: Some(crate::telemetry::start_metrics()),
        shutdown: shutdown.clone(),
    });
    let stop_listening = Shutdown::default();
    let router = if args.roles.web {
        shutdown.spawn(crate::web::sale_watch::run(state.clone()));
        crate::web::routes::router(state)
    } else {
        crate::web::routes::health_only(state)
    };
    stop_listening.spawn(crate::web::listener::serve(listener, router, stop_listening.clone()));
    Ok(App { address, demo_users, services, sessions, shutdown, stop_listening, managed: data.managed })
}

async fn start_workers(services: &Services, lanes: u16, shutdown: &Shutdown, clock: &Clock) -> anyhow::Result<()> {
    for lane in 0..lanes {
        let reader = services.queue.reader(Lane(lane));
        let consumer = Consumer {
            reader,
            place: services.place.clone(),
            bus: services.bus.clone(),
            wakes: services.money.wakes.clone(),
            shutdown: shutdown.clone(),
        };
        shutdown.spawn(consumer.run());
    }
    let wake = services.money.wakes.releases.clone();
    shutdown.spawn(crate::worker::releaser::run(services.releases.clone(), wake, shutdown.clone()));
    crate::worker::money::start(&services.money, clock, shutdown);
    let reconciler = Reconciler {
        store: services.store.clone(),
        gate: services.gate.clone(),
        rebuilds: services.rebuilds.clone(),
        index: services.index.clone(),
        clock: clock.clone(),
        closed_since: Mutex::default(),
    };
    // One round now, so that the sales are open when the ready line is printed; trouble is the loop's to repeat.
    if let Err(error) = reconciler.round().await {
        tracing::warn!(%error, "the gates could not be looked at");
    }
    services.index.refresh().await.context("cannot read the sales")?;
    shutdown.spawn(crate::worker::reconciler::run(reconciler, services.nudge.clone(), shutdown.clone()));
    Ok(())
}

async fn start_demo(services: &Services, sessions: &Sessions, clock: &Clock) -> Result<Vec<DemoUser>, StartError> {
    let demo = Demo { store: &services.store, sales: &services.sales, users: &services.users, clock };
    let failed = |e: crate::service::ServiceError| StartError::Failed(anyhow::anyhow!("cannot make the demo: {e}"));
    if demo.has_own_users().await.map_err(failed)? {
        return Err(StartError::Usage(String::from(
            "--demo gives its users new passwords, and this data dir has users of its own: leave --demo out, or give --data-dir an empty folder",
        )));
    }
    let users = demo.users().await.map_err(failed)?;
    for user in &users {
        sessions.end_all(user.id, None).await.context("cannot end the sessions of the last demo")?;
    }
    demo.shop(users[1].id).await.map_err(failed)?;
    Ok(users.into())
}

impl App {
    /// Takes no new requests, finishes what is in flight, closes the sockets, lets every loop finish its batch, stops the
    /// managed Redis. False when something did not finish in time.
    pub async fn stop(mut self) -> bool {
        self.stop_by_ref().await
    }

    /// [`App::stop`] for an owner that cannot be taken apart; a second call has nothing left to do.
    pub async fn stop_by_ref(&mut self) -> bool {
        self.stop_listening.begin();
        // Sockets hear 1001 now: the listener waits for its connections.
        self.shutdown.begin();
        let served = self.stop_listening.finished(FINISH_WITHIN).await;
        let finished = self.shutdown.finished(FINISH_WITHIN).await;
        self.services.store.close().await;
        if let Some(managed) = self.managed.take() {
            managed.stop().await;
        }
        served && finished
    }
}

/// Returns on SIGTERM or Ctrl-C.
pub async fn until_told_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = interrupt => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(interrupt.await),
    }
}

fn make_private_dir(dir: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| format!("cannot make {}", dir.display()))
}
