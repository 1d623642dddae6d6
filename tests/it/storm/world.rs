//! What a storm blows at: two servers on one Redis and one database, links that can be broken, and people with sessions.

use std::sync::Arc;
use std::time::Duration;

use seckill::shutdown::Shutdown;
use serde_json::json;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, FromRow, PgConnection, SqliteConnection};
use tokio::sync::Mutex;

use super::history::History;
use super::link::Link;
use super::postgres::StormPostgres;
use super::slot::{Recipe, Slot};
use crate::support::app::On;
use crate::support::http::Http;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;

/// How long an order of a storm may wait for its payment.
const PAY_WINDOW: Duration = Duration::from_secs(6);

/// Somebody with a session.
#[derive(Debug, Clone)]
pub struct Person {
    pub id: i64,
    pub token: String,
}

/// Everything that a storm needs.
pub struct World {
    pub on: On,
    pub history: History,
    pub shop: Shop,
    pub redis: Mutex<TestRedis>,
    /// The socket of the Redis, for who cannot wait for it.
    pub redis_url: String,
    pub postgres: Option<Mutex<StormPostgres>>,
    pub to_redis: Link,
    pub to_postgres: Option<Link>,
    pub slots: [Slot; 2],
    pub https: [Http; 2],
    pub people: Vec<Person>,
    pub admin: String,
    /// Voucher and stock.
    pub sales: Vec<(i64, i64)>,
    /// Sessions as Redis keeps them: people who log in again after a loss.
    sessions: Vec<(String, Vec<u8>)>,
    /// Where another program finds the database: a `SQLite` file, or an address.
    database: String,
    pub tasks: Shutdown,
    pub rest_within: Duration,
}

/// What differs from storm to storm.
pub struct Plan {
    pub on: On,
    pub people: usize,
    pub stocks: Vec<i64>,
    /// Taken out of every server.
    pub mutant: &'static str,
    /// Options of the first and of the second server.
    pub options: [Vec<&'static str>; 2],
    pub pay_window: Duration,
    /// How long the shop may take to come to rest.
    pub rest_within: Duration,
}

impl Plan {
    pub fn new(on: On) -> Self {
        // One sale with more than enough for everybody, two that are fought over.
        Self {
            on,
            people: 72,
            stocks: vec![100, 12, 40],
            mutant: "",
            options: [vec![], vec![]],
            pay_window: PAY_WINDOW,
            rest_within: Duration::from_mins(1),
        }
    }
}

/// A port that is free now and that the system gives to nobody by itself.
fn port() -> u16 {
    loop {
        let port = rand::random_range(20_000..32_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl World {
    /// Starts everything and waits until it sells.
    pub async fn start(plan: Plan) -> Arc<Self> {
        let tasks = Shutdown::default();
        let redis = TestRedis::start().await;
        let to_redis = Link::start(redis.socket(), &tasks).await;
        let postgres = (plan.on == On::Postgres).then(StormPostgres::start);
        let mut options = vec![String::from("--redis-url"), redis.url()];
        let mut server = vec![String::from("--redis-url"), format!("redis://{}", to_redis.address)];
        let mut to_postgres = None;
        if let Some(postgres) = &postgres {
            let link = Link::start(postgres.socket(), &tasks).await;
            options.extend([String::from("--database-url"), postgres.url()]);
            server.extend([
                String::from("--database-url"),
                format!("postgres://seckill@{}/postgres?sslmode=disable", link.address),
            ]);
            to_postgres = Some(link);
        }
        let mut shop = Shop::on(plan.on, &options.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let data = shop.data();
        server.extend([String::from("--data-dir"), data.display().to_string()]);
        server.extend(["--rate-limit", "off", "--pay-window"].map(String::from));
        server.push(format!("{}s", plan.pay_window.as_secs()));
        let slot = |n: usize| {
            let mut options = server.clone();
            options.extend(plan.options[n].iter().map(|&o| o.to_owned()));
            let recipe = Recipe { options, log: data.with_file_name(format!("server{n}.log")), always: plan.mutant.to_owned() };
            Slot::keep(port(), recipe, &tasks)
        };
        let slots = [slot(0), slot(1)];
        for slot in &slots {
            assert!(slot.until(Duration::from_mins(1), |state| state.ready).await, "a server does not start");
        }
        shop.seed(plan.people).await;
        let people = read_people(&shop);
        let https = [Http::new(&slots[0].base), Http::new(&slots[1].base)];
        let admin = shop.admin(&https[0]).await;
        let mut sales = Vec::new();
        for stock in &plan.stocks {
            sales.push((shop.sale(&https[0], *stock).await, *stock));
        }
        let database = postgres.as_ref().map_or_else(|| data.join("seckill.db").display().to_string(), StormPostgres::url);
        let redis_url = redis.url();
        let mut world = Self {
            on: plan.on,
            history: History::new(),
            shop,
            redis: Mutex::new(redis),
            redis_url,
            postgres: postgres.map(Mutex::new),
            to_redis,
            to_postgres,
            slots,
            https,
            people,
            admin,
            sales,
            sessions: Vec::new(),
            database,
            tasks,
            rest_within: plan.rest_within,
        };
        world.sessions = world.read_sessions().await;
        Arc::new(world)
    }

    /// A command on the Redis itself, whatever becomes of the links; none when it gives no answer.
    pub async fn redis<T: redis::FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        let ask = async {
            let client = redis::Client::open(self.redis_url.as_str()).ok()?;
            let mut connection = client.get_multiplexed_async_connection().await.ok()?;
            redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.ok()
        };
        tokio::time::timeout(Duration::from_secs(3), ask).await.ok()?
    }

    async fn read_sessions(&self) -> Vec<(String, Vec<u8>)> {
        let mut sessions = Vec::new();
        for key in self.redis::<Vec<String>>(&["KEYS", "login:token:*"]).await.unwrap() {
            let dump = self.redis(&["DUMP", &key]).await.unwrap();
            sessions.push((key, dump));
        }
        sessions
    }

    /// Everybody logs in again, under the token that he had.
    pub async fn log_in_again(&self) {
        let client = redis::Client::open(self.redis_url.as_str()).unwrap();
        let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return };
        for (key, dump) in &self.sessions {
            let mut call = redis::cmd("RESTORE");
            let _not_now = call.arg(key).arg(1_800_000).arg(dump).arg("REPLACE").exec_async(&mut connection).await;
        }
    }

    /// Rows from the database itself; none when it gives no answer.
    pub async fn sql<T>(&self, query: &'static str) -> Option<Vec<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let ask = async {
            match self.on {
                On::Sqlite => {
                    let mut connection = SqliteConnection::connect(&self.database).await.ok()?;
                    sqlx::query_as(query).fetch_all(&mut connection).await.ok()
                }
                On::Postgres => {
                    let mut connection = PgConnection::connect(&self.database).await.ok()?;
                    sqlx::query_as(query).fetch_all(&mut connection).await.ok()
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(3), ask).await.ok()?
    }

    /// Another program works on the database for `time`: it holds what `locks` takes.
    pub async fn hold(&self, locks: &'static str, time: Duration) {
        let begin = if self.on == On::Sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
        match self.on {
            On::Sqlite => {
                let Ok(mut connection) = SqliteConnection::connect(&self.database).await else { return };
                if sqlx::query(begin).execute(&mut connection).await.is_ok() {
                    tokio::time::sleep(time).await;
                }
                let _closed = connection.close().await;
            }
            On::Postgres => {
                let Ok(mut connection) = PgConnection::connect(&self.database).await else { return };
                for text in [begin, locks] {
                    let _not_now = sqlx::query(text).execute(&mut connection).await;
                }
                tokio::time::sleep(time).await;
                let _closed = connection.close().await;
            }
        }
    }

    /// Changes the schema by hand.
    pub async fn alter(&self, text: &'static str) {
        match self.on {
            On::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.database).await.unwrap();
                sqlx::query(text).execute(&mut connection).await.unwrap();
            }
            On::Postgres => {
                let mut connection = PgConnection::connect(&self.database).await.unwrap();
                sqlx::query(text).execute(&mut connection).await.unwrap();
            }
        }
    }

    /// A call that an admin makes; none without an answer.
    pub async fn as_admin(&self, slot: usize, path: &str, body: &serde_json::Value) -> Option<serde_json::Value> {
        let headers = [("content-type", "application/json"), ("authorization", self.admin.as_str())];
        let sent = self.https[slot].try_send(http::Method::POST, path, &headers, body.to_string());
        let answer = tokio::time::timeout(Duration::from_secs(4), sent).await.ok()?.ok()?;
        serde_json::from_slice(&answer.body).ok().or(Some(json!({})))
    }

    /// Ends the servers as an operator does; their exit codes.
    pub async fn stop(&self) -> [i32; 2] {
        let codes = [self.slots[0].quit().await, self.slots[1].quit().await];
        self.tasks.begin();
        codes
    }
}

fn read_people(shop: &Shop) -> Vec<Person> {
    let lines = std::fs::read_to_string(shop.tokens_file()).unwrap();
    let person = |line: &str| {
        let mut words = line.split(' ');
        let id = words.next().unwrap().parse().unwrap();
        Person { id, token: words.nth(1).unwrap().to_owned() }
    };
    lines.lines().map(person).collect()
}
