//! The composition root: the only file that sees every room. Opens the stores, builds the services, starts the loops and
//! the listener, and takes them down in the right order.

mod data;
mod door;
mod services;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use data_encoding::HEXLOWER;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpListener;

use crate::clock::Clock;
use crate::config::ServeArgs;
use crate::domain::ids::Lane;
use crate::domain::ticket::TicketKey;
use crate::payment_provider::signature::{BadSecret, SigningKeys};
use crate::redis::managed::Managed;
use crate::secrets::Secrets;
use crate::service::code_sender::{CodeSender, SandboxSms};
use crate::service::demo::{Demo, DemoUser};
use crate::service::reconcile::Reconciler;
use crate::service::scrape::Scrape;
use crate::service::shops::Shops;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::web::session::{Captchas, Guesses, Life, LoginCodes, RedisSessions, Sessions};
use crate::web::state::{AppState, Parts};
use crate::worker::consumer::Consumer;
use crate::worker::crew::Crew;
use crate::worker::pace::Pace;

pub use data::{Data, open_store, seed_users};
use services::Place;
pub use services::Services;

/// How long the start waits for its first look at the gates.
const FIRST_LOOK_WITHIN: Duration = Duration::from_secs(5);
/// How long a start waits for its first block of order ids.
const FIRST_IDS_WITHIN: Duration = Duration::from_secs(3);

/// How long requests in flight may take at the end, and then the loops.
const FINISH_WITHIN: Duration = Duration::from_secs(4);

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

/// What tickets are signed with: kept in the database, because every process of the shop must read the tickets of all.
async fn ticket_key(store: &Store) -> anyhow::Result<TicketKey> {
    let kept = store.keep_setting("ticket_key", &HEXLOWER.encode(&rand::random::<[u8; 32]>())).await?;
    let key = HEXLOWER.decode(kept.as_bytes()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    key.map(TicketKey::new).context("the database's ticket_key is damaged")
}

/// A running shop.
pub struct App {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where the figures are, when they have a listener of their own.
    pub metrics_address: Option<SocketAddr>,
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

/// Whether what takes no money and sends no message may stand in for the real thing.
fn sandbox_allowed(args: &ServeArgs) -> bool {
    args.sandbox_payments || args.listen.ip().is_loopback()
}

/// The given secrets of payment, if any, and whether the sandbox may be used where this shop listens.
fn check_payments(args: &ServeArgs) -> Result<Option<SigningKeys>, StartError> {
    if args.payment_url.is_none() && !sandbox_allowed(args) {
        return Err(StartError::Usage(String::from(
            "payments need --payment-url; on a listener that is not loopback the sandbox, which takes no money, is used only with --sandbox-payments",
        )));
    }
    let read = |secret: &SecretString| secret.expose_secret().parse();
    args.payment_secret.as_ref().map(read).transpose().map_err(|e: BadSecret| StartError::Usage(format!("--payment-secret: {e}")))
}

/// An address that can never work is a wrong option; a store that does not answer is not.
fn of_opening(error: anyhow::Error) -> StartError {
    let wrong_address = matches!(error.downcast_ref(), Some(crate::redis::RedisError::BadAddress(_)))
        || matches!(error.downcast_ref(), Some(crate::store::StoreError::BadUrl));
    if wrong_address { StartError::Usage(format!("{error:#}")) } else { StartError::Failed(error) }
}

/// Starts the shop: everything answers when this returns.
pub async fn start(args: &ServeArgs, clock: Clock) -> Result<App, StartError> {
    let given_keys = check_payments(args)?;
    // The port before the services, because some must know where it is; whoever connects now is served once all is ready.
    let (data, listener) = door::open(args).await?;
    if args.data.redis_url.is_some() {
        for warning in data.redis.durability_warnings().await {
            tracing::warn!("{warning}");
        }
    }
    let secrets = Secrets::load_or_create(&args.data.data_dir)?;
    let keys = match given_keys {
        Some(keys) => keys,
        None => secrets.payment_secret().expose_secret().parse().context("the secrets of this shop are damaged")?,
    };
    let address = listener.local_addr().context("no local address")?;
    let metrics_listener = match args.metrics_listen {
        Some(at) => Some(TcpListener::bind(at).await.with_context(|| format!("cannot listen on {at} for /metrics"))?),
        None => None,
    };
    let metrics_address = metrics_listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let place = Place::new(args, address, keys);
    let shutdown = Shutdown::default();
    let tickets = ticket_key(&data.store).await?;
    let services = Services::new(&data, args, &secrets, tickets, &place, &clock, &shutdown)?;
    if args.roles.web && !services.ids.ready(FIRST_IDS_WITHIN).await {
        tracing::warn!("no order ids are at hand yet; buyers hear BUSY until there are");
    }

    // The index first: a purchase that comes with the first connection must find its sale.
    services.index.refresh().await.context("cannot read the sales")?;
    shutdown.spawn_loop("the sales in memory", services.index.clone().keep_fresh(shutdown.clone()));
    shutdown.spawn_loop("news of sales", services.index.clone().follow(services.hub.sale_events(), shutdown.clone()));
    if args.roles.worker {
        start_workers(&services, args, &shutdown, &clock).await?;
    }

    if args.roles.web {
        crate::web::listener::raise_file_limit();
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
    let sandbox_sms = sandbox_allowed(args).then(|| Arc::new(SandboxSms::new(clock.clone())));
    let sender = sandbox_sms.clone().map(|sandbox| sandbox as Arc<dyn CodeSender>);
    let state = AppState::new(Parts {
        store: services.store.clone(),
        redis: data.redis.clone(),
        clock: clock.clone(),
        sessions: sessions.clone(),
        codes: LoginCodes::new(data.redis.clone(), sender),
        guesses: Guesses::new(data.redis.clone(), args.rate_limit.burst()),
        captchas: Captchas::new(data.redis.clone()),
        sandbox_sms,
        sandbox_for_all: args.sandbox_payments,
        users: services.users.clone(),
        shops: Shops::new(services.store.clone()),
        sales: services.sales.clone(),
        desk: services.desk.clone(),
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
        metrics: crate::telemetry::start_metrics(&shutdown),
        metrics_elsewhere: args.metrics_listen.is_some(),
        scrape: Scrape::new(services.store.clone(), services.queue.clone(), args.data.lanes, clock.clone()),
        shutdown: shutdown.clone(),
    });
    let stop_listening = Shutdown::default();
    if let (Some(listener), Some(address)) = (metrics_listener, metrics_address) {
        tracing::info!(%address, "figures are served here");
        let router = crate::web::routes::metrics_only(state.clone());
        stop_listening.spawn(crate::web::listener::serve(listener, router, stop_listening.clone()));
    }
    let router = if args.roles.web {
        services.desk.start_sampling(&shutdown);
        shutdown.spawn_loop("sale watch", crate::web::sale_watch::run(state.clone()));
        shutdown.spawn_loop("queue watch", crate::web::queue_watch::run(state.clone()));
        shutdown.spawn_loop("session watch", crate::web::session_watch::run(state.clone()));
        crate::web::routes::router(state)
    } else {
        crate::web::routes::health_only(state)
    };
    stop_listening.spawn(crate::web::listener::serve(listener, router, stop_listening.clone()));
    Ok(App { address, metrics_address, demo_users, services, sessions, shutdown, stop_listening, managed: data.managed })
}

async fn start_workers(services: &Services, args: &ServeArgs, shutdown: &Shutdown, clock: &Clock) -> anyhow::Result<()> {
    let lanes = args.data.lanes;
    let pace = Pace::new(services.queue.clone(), args.max_orders_per_second, lanes, shutdown.clone());
    for lane in 0..lanes {
        let reader = services.queue.reader(Lane(lane));
        let consumer = Consumer {
            reader,
            queue: services.queue.clone(),
            place: services.place.clone(),
            pace: pace.clone(),
            bus: services.bus.clone(),
            wakes: services.money.wakes.clone(),
            shutdown: shutdown.clone(),
        };
        shutdown.spawn_loop("consumer", consumer.run());
    }
    let crew = Crew::alone();
    shutdown.spawn_loop("crew", crate::worker::crew::keep_count(crew.clone(), services.queue.clone(), shutdown.clone()));
    let (wake, releases) = (services.money.wakes.releases.clone(), services.releases.clone());
    shutdown.spawn_loop("releaser", crate::worker::releaser::run(releases, wake, crew.clone(), shutdown.clone()));
    crate::worker::money::start(&services.money, clock, &crew, shutdown);
    crate::worker::reporter::start(services.desk.reports.clone(), &crew, shutdown);
    let reconciler = Reconciler {
        store: services.store.clone(),
        gate: services.gate.clone(),
        rebuilds: services.rebuilds.clone(),
        index: services.index.clone(),
        clock: clock.clone(),
        closed_since: Mutex::default(),
        has_looked: AtomicBool::default(),
        swept_at: Mutex::default(),
    };
    // One round now, so that the sales are open when the ready line is printed; trouble is the loop's to repeat. Bounded: a
    // rebuild drains for as long as it takes, and meanwhile pages, orders and BUSY are better than a closed port. A round
    // that is given up is like one whose process died: the loop begins anew, with a number of its own.
    match tokio::time::timeout(FIRST_LOOK_WITHIN, reconciler.round()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the gates could not be looked at"),
        Err(_) => tracing::warn!("a gate is still being rebuilt; its buyers hear BUSY until it is open"),
    }
    services.index.refresh().await.context("cannot read the sales")?;
    shutdown.spawn_loop("reconciler", crate::worker::reconciler::run(reconciler, services.nudge.clone(), crew, shutdown.clone()));
    shutdown.spawn_loop("auditor", crate::worker::auditor::run(services.drift.clone(), shutdown.clone()));
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

    /// Returns when a background loop has panicked: this process must end, with exit code 1.
    pub fn failed(&self) -> impl Future<Output = ()> + use<> {
        let shutdown = self.shutdown.clone();
        async move { shutdown.failed().await }
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

/// Listens for SIGTERM and Ctrl-C from now on; what it answers returns when one comes. Call it before the ready line is
/// printed: whoever waits for that line may send one at once.
pub fn told_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        match heard {
            (Ok(mut terminate), Ok(mut interrupt)) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            _ => drop(tokio::signal::ctrl_c().await),
        }
    }
}
