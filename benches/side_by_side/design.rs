//! What the classic designs have in common: a process of their own, sessions in Redis, ids from Redis, one route.
//!
//! Each design is a file of its own. The same runtime, allocator, profile and pools serve them and the shop.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use axum::Router;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use redis::aio::MultiplexedConnection;
use seckill::load::target::Target;
use seckill::load::tokens::Buyer;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::children::{self, RedisServer};
use crate::database::{Db, Placed};
use crate::{blocking_queue, empty, shop, stream_as_usual, synchronous};

/// What a design works with.
pub struct Parts {
    /// One connection that all requests share, as the usual clients have it.
    pub redis: MultiplexedConnection,
    /// Where Redis is, for whoever has to block on it.
    pub redis_url: String,
    /// Its own database.
    pub db: Db,
}

impl Parts {
    /// Who presses what: the session's user, whose time is extended, and the voucher of the path.
    pub async fn read(&self, uri: &Uri, headers: &HeaderMap) -> anyhow::Result<(i64, i64)> {
        let voucher = uri.path().rsplit('/').next().and_then(|id| id.parse().ok()).context("no voucher")?;
        let token = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).context("no token")?;
        let session = format!("login:token:{token}");
        // The usual interceptor asks twice; one round trip for both flatters the design.
        let (user, _extended): (Option<i64>, i64) =
            redis::pipe().hget(&session, "id").expire(&session, 1800).query_async(&mut self.redis.clone()).await?;
        Ok((user.context("not logged in")?, voucher))
    }

    /// Seconds since 2022 and the next number of the day's sequence.
    pub async fn next_id(&self) -> anyhow::Result<i64> {
        let seconds = seckill::clock::Clock::default().now().0 / 1000 - 1_640_995_200;
        let day = seconds / 86_400;
        let sequence: i64 = redis::cmd("INCR").arg(format!("icr:order:{day}")).query_async(&mut self.redis.clone()).await?;
        Ok((seconds << 32) + sequence)
    }
}

/// The answer of the usual controller.
pub fn answer(result: anyhow::Result<(Placed, i64)>) -> Response {
    let body = match result {
        Ok((Placed::Yes, id)) => format!(r#"{{"success":true,"data":"{id}"}}"#),
        Ok((Placed::Duplicate, _)) => r#"{"success":false,"errorMsg":"不能重复下单","code":"DUPLICATE"}"#.to_owned(),
        Ok((Placed::SoldOut, _)) => r#"{"success":false,"errorMsg":"库存不足","code":"SOLD_OUT"}"#.to_owned(),
        Err(error) => {
            crate::say(&format!("a design failed a request: {error:#}"));
            return (axum::http::StatusCode::SERVICE_UNAVAILABLE, r#"{"success":false,"code":"BUSY"}"#).into_response();
        }
    };
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Be this design until the parent is gone.
pub async fn serve(name: &str, redis_url: &str, database: &str) -> anyhow::Result<()> {
    let app: Router = if name == "empty" {
        empty::router()
    } else {
        let redis = children::connect(redis_url).await?;
        let parts = Arc::new(Parts { redis, redis_url: redis_url.to_owned(), db: Db::open(database).await? });
        match name {
            "synchronous" => synchronous::router(parts),
            "blocking_queue" => blocking_queue::router(parts)?,
            "stream_as_usual" => stream_as_usual::router(parts).await?,
            _ => bail!("no design is called {name}"),
        }
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    {
        use std::io::Write;
        writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    }
    let listener = listener.tap_io(|stream| {
        // As in the shop. Without it small answers would wait for nothing.
        let _slower = stream.set_nodelay(true);
    });
    let parent_gone = async {
        let read = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ended = tokio::task::spawn_blocking(read).await;
    };
    tokio::select! {
        served = axum::serve(listener, app).into_future() => Ok(served?),
        () = parent_gone => Ok(()),
    }
}

/// A design that runs, with its own Redis and database.
pub struct Design {
    // Dropped from the top: it ends before what it stands on.
    _child: Child,
    /// Where it listens.
    pub target: Target,
    /// Its database; none for the empty one.
    pub db: Option<Db>,
    redis: Option<RedisServer>,
    _dir: TempDir,
}

fn start_process(name: &str, redis: &str, database: &str) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--design", name, "--redis", redis, "--database", database]);
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?)
}

fn target(url: &str) -> anyhow::Result<Target> {
    url.parse().map_err(|why: String| anyhow::anyhow!(why))
}

impl Design {
    /// The handler that does nothing.
    pub async fn empty() -> anyhow::Result<Self> {
        let mut child = start_process("empty", "", "")?;
        let url = children::listening(&mut child).await?;
        Ok(Self { target: target(&url)?, db: None, redis: None, _child: child, _dir: children::folder("empty")? })
    }

    /// A design with `buyers` logged in. `postgres`: a new database there, else SQLite.
    pub async fn start(name: &str, postgres: Option<&str>, buyers: usize) -> anyhow::Result<Self> {
        let dir = children::folder("design")?;
        let database = shop::migrated(dir.path(), postgres).await?;
        let redis = RedisServer::start().await?;
        let mut connection = redis.connect().await?;
        for first in (1..=buyers).step_by(1000) {
            let mut pipe = redis::pipe();
            for user in first..(first + 1000).min(buyers + 1) {
                pipe.hset(format!("login:token:t{user}"), "id", user).ignore();
            }
            let () = pipe.query_async(&mut connection).await?;
        }
        let mut child = start_process(name, &redis.url(), &database)?;
        let url = children::listening(&mut child).await?;
        let db = Some(Db::open(&database).await?);
        Ok(Self { target: target(&url)?, db, redis: Some(redis), _child: child, _dir: dir })
    }

    /// The sessions that it knows.
    pub fn buyers(count: usize) -> Vec<Buyer> {
        (1..=count).map(|user| Buyer { token: format!("t{user}") }).collect()
    }

    /// A sale that is on, in its database and in its Redis.
    pub async fn sale(&self, units: usize) -> anyhow::Result<i64> {
        let (Some(db), Some(redis)) = (&self.db, &self.redis) else { bail!("the empty design sells nothing") };
        let voucher = db.add_sale(i64::try_from(units)?).await?;
        let mut connection = redis.connect().await?;
        let () = redis::cmd("SET").arg(format!("seckill:stock:{voucher}")).arg(units).query_async(&mut connection).await?;
        Ok(voucher)
    }

    /// That it did what it says: as many live orders as units that are gone.
    pub async fn check(&self, voucher: i64, units: usize, accepted: usize) -> anyhow::Result<()> {
        let Some(db) = &self.db else { return Ok(()) };
        let (left, live) = (db.stock_left(voucher).await?, db.live_orders(voucher).await?);
        let (units, accepted) = (i64::try_from(units)?, i64::try_from(accepted)?);
        ensure!(
            left + live == units && live == accepted,
            "its books: {units} units, {left} left, {live} orders, {accepted} accepted"
        );
        Ok(())
    }
}
