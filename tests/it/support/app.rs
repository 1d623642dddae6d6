//! A whole shop for one test: production wiring, own data dir, own managed Redis, own database, a clock that can be moved.
//!
//! Every test ends with [`TestApp::finish`]: it fails a test that leaves unacknowledged entries, dead letters, open releases
//! or an unbalanced ledger behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use seckill::app::{self, App};
use seckill::clock::Clock;
use seckill::config::ServeArgs;
use seckill::domain::ids::{Lane, OrderId, ShopId, UserId, VoucherId};
use seckill::domain::money::Fen;
use seckill::domain::voucher::{NewSale, NewVoucher};
use seckill::service::users::Registration;
use seckill::store::NewShop;
use seckill::store::RELEASE;
use secrecy::ExposeSecret;
use serde_json::Value;
use tempfile::TempDir;

use super::http::{Answer, Http};
use super::postgres::fresh_database;
use super::redis::TestRedis;
use super::sql::Sql;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    serve: ServeArgs,
}

/// Which database a test stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Sqlite,
    Postgres,
}

impl On {
    /// What a test stands on that names none: `SECKILL_TEST_DATABASE`, `sqlite` (with the managed Redis) when it is not set,
    /// or `postgres` (with a Redis that somebody else runs).
    ///
    /// # Panics
    /// When it says anything else.
    #[expect(clippy::disallowed_methods, reason = "no option of the program: it belongs to the tests alone")]
    pub fn chosen() -> Self {
        match std::env::var("SECKILL_TEST_DATABASE").as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("SECKILL_TEST_DATABASE is sqlite or postgres, not {other}"),
        }
    }
}

/// Makes each of these stories, functions of [`On`], a test on both databases.
macro_rules! on_both_databases {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                super::$story(crate::support::app::On::Sqlite).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                super::$story(crate::support::app::On::Postgres).await;
            })+
        }
    };
}
pub(crate) use on_both_databases;

/// A user with a session.
#[derive(Debug, Clone)]
pub struct Buyer {
    pub id: UserId,
    pub token: String,
}

/// What a test may change before the shop starts.
pub struct Builder {
    on: On,
    options: Vec<String>,
}

impl Builder {
    /// An option of `seckill serve`.
    pub fn with(mut self, option: &str, value: &str) -> Self {
        self.options.push(option.to_owned());
        if !value.is_empty() {
            self.options.push(value.to_owned());
        }
        self
    }

    /// Starts the shop.
    pub async fn start(self) -> TestApp {
        let dir = short_dir();
        let names = |option: &str| self.options.iter().any(|given| given == option);
        let (mut database, mut redis) = (None, None);
        if self.on == On::Postgres {
            // Who names a store brings it; who says how the managed Redis writes means that one.
            if !names("--database-url") {
                database = Some(fresh_database().await);
            }
            if !names("--redis-url") && !names("--redis-fsync") {
                redis = Some(TestRedis::start().await);
            }
        }
        let mut options = vec![String::from("test"), String::from("--listen"), String::from("127.0.0.1:0")];
        options.extend([String::from("--data-dir"), dir.path().join("d").display().to_string()]);
        options.extend([String::from("--rate-limit"), String::from("off")]);
        if let Some(url) = &database {
            options.extend([String::from("--database-url"), url.clone()]);
        }
        if let Some(redis) = &redis {
            options.extend([String::from("--redis-url"), redis.url()]);
        }
        options.extend(self.options);
        // A later option of the test replaces an earlier default.
        let args = Options::try_parse_from(dedup(options)).unwrap().serve;
        Box::pin(TestApp::boot(args, Arc::new(Ground { _dir: dir, _redis: redis }), Clock::default())).await
    }
}

/// What a shop stands on; it lasts until the last instance on it is gone.
pub struct Ground {
    _dir: TempDir,
    /// The Redis beside it, when it is not the managed one.
    _redis: Option<TestRedis>,
}

/// Options given twice: the last one wins.
fn dedup(options: Vec<String>) -> Vec<String> {
    let mut kept: Vec<(String, Option<String>)> = Vec::new();
    let mut rest = options.into_iter().skip(1).peekable();
    while let Some(name) = rest.next() {
        let value = rest.next_if(|v| !v.starts_with("--"));
        kept.retain(|(n, _)| *n != name);
        kept.push((name, value));
    }
    let pairs = kept.into_iter().flat_map(|(name, value)| std::iter::once(name).chain(value));
    std::iter::once(String::from("test")).chain(pairs).collect()
}

/// A directory whose path leaves room for a socket's name.
pub fn short_dir() -> TempDir {
    tempfile::Builder::new().prefix("sk").tempdir_in("/tmp").unwrap()
}

/// A running shop.
pub struct TestApp {
    pub app: App,
    pub http: Http,
    pub base: String,
    pub clock: Clock,
    pub args: ServeArgs,
    pub shop: ShopId,
    ground: Arc<Ground>,
    next_phone: AtomicU64,
    finished: bool,
}

impl TestApp {
    /// A shop on the [chosen](On::chosen) database with its own Redis and no request limits.
    pub async fn start() -> Self {
        Self::on(On::chosen()).start().await
    }

    /// The same, with an option of `seckill serve`.
    pub fn with(option: &str, value: &str) -> Builder {
        Self::on(On::chosen()).with(option, value)
    }

    /// To change something first.
    pub fn on(on: On) -> Builder {
        Builder { on, options: Vec::new() }
    }

    /// Another instance on the same data, with some options of its own. Both need `--redis-url`: a managed Redis has one owner.
    pub async fn beside(&self, options: &[&str]) -> Self {
        let mut all = vec![String::from("test"), String::from("--listen"), String::from("127.0.0.1:0")];
        all.extend([String::from("--rate-limit"), String::from("off")]);
        all.extend(self.data_options());
        all.extend(options.iter().map(|&o| o.to_owned()));
        let args = Options::try_parse_from(dedup(all)).unwrap().serve;
        Box::pin(Self::boot(args, self.ground.clone(), self.clock.clone())).await
    }

    async fn boot(args: ServeArgs, ground: Arc<Ground>, clock: Clock) -> Self {
        let app = app::start(&args, clock.clone()).await.unwrap_or_else(|e| panic!("the shop does not start: {e:?}"));
        let base = format!("http://{}", app.address);
        let shop = if let Some(shop) = app.services.store.shops().await.unwrap().first() {
            shop.id
        } else {
            let mut tx = app.services.store.begin().await.unwrap();
            let id = tx.insert_shop(&NewShop::named("测试小馆"), clock.now()).await.unwrap();
            tx.commit().await.unwrap();
            id
        };
        let http = Http::new(&base);
        Self { app, http, base, clock, args, shop, ground, next_phone: AtomicU64::new(19_700_000_000), finished: false }
    }

    /// The data dir of this shop.
    pub fn data_dir(&self) -> PathBuf {
        self.args.data.data_dir.clone()
    }

    /// Options that let another command open this shop's data.
    pub fn data_options(&self) -> Vec<String> {
        let mut options = vec![String::from("--data-dir"), self.data_dir().display().to_string()];
        if let Some(url) = &self.args.data.database_url {
            options.extend([String::from("--database-url"), url.expose_secret().to_owned()]);
        }
        if let Some(url) = &self.args.data.redis_url {
            options.extend([String::from("--redis-url"), url.expose_secret().to_owned()]);
        }
        options
    }

    /// Users with a session each.
    pub async fn buyers(&self, count: usize) -> Vec<Buyer> {
        let services = &self.app.services;
        let first = self.next_phone.fetch_add(count as u64, Ordering::Relaxed);
        let mut tx = services.store.begin().await.unwrap();
        let ids = tx.insert_users_bulk(first, count as u64, self.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        let mut users = Vec::with_capacity(count);
        for id in ids {
            users.push(services.users.by_id(id).await.unwrap().unwrap());
        }
        let tokens = self.app.sessions.seed(&users).await.unwrap();
        users.into_iter().zip(tokens).map(|(user, token)| Buyer { id: user.id, token }).collect()
    }

    /// One user with a session.
    pub async fn buyer(&self) -> Buyer {
        self.buyers(1).await.pop().unwrap()
    }

    /// A new session of a user who is there already.
    pub async fn session_of(&self, user: UserId) -> Buyer {
        let user = self.app.services.users.by_id(user).await.unwrap().unwrap();
        let token = self.app.sessions.seed(std::slice::from_ref(&user)).await.unwrap().pop().unwrap();
        Buyer { id: user.id, token }
    }

    /// An admin with a session, made as an operator makes one.
    pub async fn admin(&self) -> Buyer {
        let phone = self.next_phone.fetch_add(1, Ordering::Relaxed).to_string();
        let services = &self.app.services;
        let typed = Registration { phone, password: "korrekt pferd".to_owned().into(), nick_name: None, admin: true };
        let user = services.users.register(typed).await.unwrap();
        let token = self.app.sessions.seed(std::slice::from_ref(&user)).await.unwrap().pop().unwrap();
        Buyer { id: user.id, token }
    }

    /// A sale that is on, with `stock` units.
    pub async fn sale(&self, stock: i64) -> VoucherId {
        self.sale_between(stock, -1_000, 3_600_000).await
    }

    /// A sale whose window is given in milliseconds from now.
    pub async fn sale_between(&self, stock: i64, begin: i64, end: i64) -> VoucherId {
        let now = self.clock.now().0;
        let sale = NewSale {
            stock,
            begin: seckill::domain::time::Millis(now + begin),
            end: seckill::domain::time::Millis(now + end),
            captcha: false,
        };
        self.app.services.sales.create_sale(None, None, &self.voucher("下午茶"), &sale).await.unwrap()
    }

    /// The fields of some voucher.
    pub fn voucher(&self, title: &str) -> NewVoucher {
        NewVoucher {
            shop: self.shop,
            title: title.to_owned(),
            sub_title: String::from("全天"),
            rules: String::new(),
            pay_value: Fen(4900),
            actual_value: Fen(10_000),
        }
    }

    /// A click.
    pub async fn buy(&self, buyer: &Buyer, voucher: VoucherId) -> Answer {
        self.http.post_as(&buyer.token, &format!("/api/voucher-order/seckill/{voucher}")).await
    }

    /// A click that is admitted: the order id.
    #[track_caller]
    #[expect(clippy::unused_self, reason = "a test reads as what a shop did")]
    pub fn admitted(&self, answer: &Answer) -> OrderId {
        answer.data().as_str().unwrap_or_else(|| panic!("no order id in {}", answer.text())).parse().unwrap()
    }

    /// A click that leads to an order, new or held before: its id.
    #[track_caller]
    #[expect(clippy::unused_self, reason = "a test reads as what a shop did")]
    pub fn admitted_or_held(&self, answer: &Answer) -> OrderId {
        let json = answer.json();
        assert!(json["success"] == true || json["code"] == "DUPLICATE", "{}", answer.text());
        json["data"].as_str().unwrap().parse().unwrap()
    }

    /// The order as the API tells it.
    pub async fn order(&self, buyer: &Buyer, id: OrderId) -> Value {
        self.http.get_as(&buyer.token, &format!("/api/voucher-order/{id}")).await.data()
    }

    /// Waits until nothing is under way: streams empty, releases applied. Panics after 30 s.
    pub async fn settled(&self) {
        let services = &self.app.services;
        let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let mut waiting = services.store.open_outbox_count(RELEASE).await.unwrap_or(1);
            for lane in 0..self.args.data.lanes {
                waiting += services.queue.depth(Lane(lane)).await.map_or(1, |d| d.len);
            }
            if waiting == 0 {
                return;
            }
            assert!(tokio::time::Instant::now() < give_up, "{waiting} entries or releases are still under way after 30 s");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Fails unless every equation holds.
    #[track_caller]
    pub fn balanced(&self) -> impl Future<Output = ()> {
        let audit = self.app.services.audit.clone();
        async move {
            let report = audit.run().await.unwrap();
            assert!(report.ok, "the books do not balance: {}", serde_json::to_string_pretty(&report).unwrap());
        }
    }

    /// A Redis command, its words split at spaces.
    pub async fn ask<T: redis::FromRedisValue>(&self, words: &str) -> T {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.query_async(&mut self.app.services.redis.shared()).await.unwrap()
    }

    /// Stops the shop and keeps its data for whoever looks at it next.
    pub async fn stop_and_keep(mut self) -> Arc<Ground> {
        self.stop().await;
        self.ground.clone()
    }

    /// Clicks until there is a definite answer: 503 means "again". Panics after 15 s.
    pub async fn buy_for_sure(&self, buyer: &Buyer, voucher: VoucherId) -> Answer {
        let give_up = tokio::time::Instant::now() + Duration::from_secs(15);
        loop {
            let answer = self.buy(buyer, voucher).await;
            if answer.status != 503 {
                return answer;
            }
            assert!(tokio::time::Instant::now() < give_up, "still {}", answer.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where this shop's rows are.
    pub fn database_url(&self) -> String {
        match &self.args.data.database_url {
            Some(url) => url.expose_secret().to_owned(),
            None => format!("sqlite://{}", self.data_dir().join("seckill.db").display()),
        }
    }

    /// A connection of its own to this shop's database: another program that reads, writes or locks.
    pub async fn sql(&self) -> Sql {
        Sql::open(&self.database_url()).await
    }

    /// A statement of somebody who works on this shop's database by hand.
    pub async fn execute(&self, text: &str) {
        self.sql().await.execute(text).await;
    }

    /// Somebody else lets nobody write into this shop's database, until the connection is closed.
    pub async fn lock_writes(&self) -> Sql {
        let mut sql = self.sql().await;
        sql.lock_writes().await;
        sql
    }

    /// The end of a test that means to leave a mess, told in `why`.
    pub async fn abandon(mut self, why: &str) {
        assert!(!why.is_empty());
        self.stop().await;
    }

    /// The end of every other test.
    pub async fn finish(mut self) {
        self.settled().await;
        self.balanced().await;
        let dead = self.app.services.store.open_dead_letter_count().await.unwrap();
        assert_eq!(dead, 0, "dead letters are left behind");
        if self.args.data.database_url.is_some() {
            let deadlocks = self.sql().await.deadlocks().await;
            assert_eq!(deadlocks, 0, "two transactions took the same rows in opposite orders");
        }
        self.stop().await;
    }

    async fn stop(&mut self) {
        self.finished = true;
        assert!(self.app.stop_by_ref().await, "the shop did not stop in time");
    }

    /// Stops the shop, lets `time` go by, and starts it again on the same data.
    pub async fn restart_later(mut self, time: Duration) -> Self {
        self.stop().await;
        self.clock.advance(time);
        let (args, ground, clock) = (self.args.clone(), self.ground.clone(), self.clock.clone());
        drop(self);
        Box::pin(Self::boot(args, ground, clock)).await
    }

    /// Stops this process' part and starts it again on the same data.
    pub async fn restart(mut self) -> Self {
        self.stop().await;
        let (args, ground, clock) = (self.args.clone(), self.ground.clone(), self.clock.clone());
        drop(self);
        Box::pin(Self::boot(args, ground, clock)).await
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        assert!(
            !(!self.finished && !std::thread::panicking()),
            "the test ended without finish(): nobody checked what it left behind"
        );
    }
}
