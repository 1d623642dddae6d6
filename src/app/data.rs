//! The opened stores: the database and Redis, the managed one included.
//!
//! Part of the composition root; nothing is decided here.

use crate::clock::Clock;
use crate::config::DataArgs;
use crate::domain::ids::UserId;
use crate::domain::user::User;
use crate::gate::Gate;
use crate::push::bus::Bus;
use crate::push::hub::Hub;
use crate::queue::Queue;
use crate::redis::Redis;
use crate::redis::managed::{Managed, socket_of};
use crate::service::audit::Audit;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::web::session::{Life, RedisSessions, Sessions};
use anyhow::Context;
use secrecy::ExposeSecret;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// The first phone of `user seed`.
const SEED_PHONES_FROM: u64 = 19_900_000_000;

/// The opened stores.
pub struct Data {
    /// The books.
    pub store: Store,
    /// Gate, stream, sessions.
    pub redis: Redis,
    pub(super) managed: Option<Managed>,
    pub(super) lanes: u16,
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
    pub(super) async fn open_alone(args: &DataArgs) -> anyhow::Result<Self> {
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
    let url = if let Some(url) = &args.database_url {
        url.expose_secret().to_owned()
    } else {
        let file = args.data_dir.join("seckill.db");
        make_private_file(&file)?;
        format!("sqlite://{}", file.display())
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

fn make_private_dir(dir: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| format!("cannot make {}", dir.display()))
}

/// The folder may be somebody else's work and open to all; who bought what, and the hashes of passwords, are not. SQLite
/// gives its other files the mode of this one.
fn make_private_file(file: &Path) -> anyhow::Result<()> {
    let open = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
    open.map(drop).with_context(|| format!("cannot make {}", file.display()))
}
