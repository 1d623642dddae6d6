//! A shop of real processes: one data dir, an operator's admin, seeded buyers; its servers are killed and started again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::app::{On, short_dir};
use super::http::Http;
use super::postgres::fresh_database;
use super::process::{Process, command, database_of, run};
use super::redis::TestRedis;
use super::sql::Sql;

/// Data that outlives its servers.
pub struct Shop {
    dir: TempDir,
    /// Tokens of seeded buyers.
    pub buyers: Vec<String>,
    /// The admin's phone.
    pub admin_phone: String,
    merchant: i64,
    /// Options of every command: other stores than the data dir's own.
    options: Vec<String>,
    /// The Redis beside it, when nobody named one and the database is not in the data dir either.
    _redis: Option<TestRedis>,
}

/// What one buyer was told.
#[derive(Debug, Clone)]
pub struct Told {
    pub buyer: usize,
    pub order: String,
    pub ticket: String,
}

const PASSWORD: &str = "korrekt pferd";

impl Shop {
    /// An empty shop.
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// An empty shop whose commands all get these options: servers that share their stores.
    pub async fn with(options: &[&str]) -> Self {
        Self::on(On::chosen(), options).await
    }

    /// The same, on this database unless the options name one.
    pub async fn on(on: On, options: &[&str]) -> Self {
        let mut options: Vec<String> = options.iter().map(|&o| o.to_owned()).collect();
        let names = |options: &[String], name: &str| options.iter().any(|option| option == name);
        let mut redis = None;
        if on == On::Postgres && !names(&options, "--redis-url") {
            let server = TestRedis::start().await;
            options.extend([String::from("--redis-url"), server.url()]);
            redis = Some(server);
        }
        let (dir, admin_phone) = (short_dir(), String::from("13900000000"));
        if on != On::chosen() && !names(&options, "--database-url") {
            let url = match on {
                On::Sqlite => format!("sqlite://{}", dir.path().join("d/seckill.db").display()),
                On::Postgres => fresh_database().await,
            };
            options.extend([String::from("--database-url"), url]);
        }
        let mut shop = Self { dir, buyers: Vec::new(), admin_phone, merchant: 0, options, _redis: redis };
        let (code, out, err) = shop.run(&["shop", "add", "--name", "测试小馆"], "").await;
        assert_eq!(code, 0, "{err}");
        shop.merchant = out.trim().parse().unwrap();
        let (code, _, err) = shop.run(&["user", "add", "--admin", "--phone", &shop.admin_phone], PASSWORD).await;
        assert_eq!(code, 0, "{err}");
        shop
    }

    /// Runs a verb on this shop's data.
    pub async fn run(&self, verb: &[&str], stdin: &str) -> (i32, String, String) {
        let data = self.data();
        let mut arguments = verb.to_vec();
        arguments.extend(["--data-dir", data.to_str().unwrap()]);
        arguments.extend(self.options.iter().map(String::as_str));
        run(&arguments, stdin).await
    }

    /// The data dir.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("d")
    }

    /// Where its rows are.
    pub async fn database_url(&self) -> String {
        if let Some(url) = self.option("--database-url") {
            return url.to_owned();
        }
        database_of(&self.data()).await.unwrap_or_else(|| format!("sqlite://{}", self.data().join("seckill.db").display()))
    }

    /// Where its Redis is.
    pub fn redis_url(&self) -> String {
        let managed = || format!("unix://{}", self.data().join("redis.sock").display());
        self.option("--redis-url").map_or_else(managed, str::to_owned)
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().skip_while(|o| *o != name).nth(1).map(String::as_str)
    }

    /// `seckill serve` on this data, not started yet.
    pub async fn command(&self, options: &[&str]) -> tokio::process::Command {
        let data = self.data();
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        all.extend(self.options.iter().map(String::as_str));
        all.extend(options);
        command(&all).await
    }

    /// A server on this data.
    pub async fn serve(&self, options: &[&str]) -> Process {
        self.serve_without(None, options).await
    }

    /// A server on this data with a guard taken out, or none.
    pub async fn serve_without(&self, mutant: Option<&str>, options: &[&str]) -> Process {
        let mut all: Vec<&str> = self.options.iter().map(String::as_str).collect();
        all.extend(options);
        Process::serve_without(mutant, &self.data(), &all).await
    }

    /// Another server, its own data dir empty: what it shares comes by `options`.
    pub async fn serve_beside(&self, mutant: Option<&str>, options: &[&str]) -> Process {
        Process::serve_without(mutant, &self.dir.path().join("b"), options).await
    }

    /// A server with a data dir of its own, as on another machine: what it shares comes by `options`.
    pub async fn serve_at(&self, name: &str, options: &[&str]) -> Process {
        Process::serve(&self.dir.path().join(name), options).await
    }

    /// Seeds `count` buyers beside a running server (or without one).
    pub async fn seed(&mut self, count: usize) {
        let file = self.dir.path().join("tokens");
        let seed = ["user", "seed", "--count", &count.to_string(), "--tokens", file.to_str().unwrap()];
        let (code, _, err) = self.run(&seed, "").await;
        assert_eq!(code, 0, "{err}");
        let lines = std::fs::read_to_string(&file).unwrap();
        self.buyers = lines.lines().map(|l| l.split(' ').nth(2).unwrap().to_owned()).collect();
        assert_eq!(self.buyers.len(), count);
    }

    /// The file that [`Shop::seed`] wrote.
    pub fn tokens_file(&self) -> PathBuf {
        self.dir.path().join("tokens")
    }

    /// A session of the admin.
    pub async fn admin(&self, http: &Http) -> String {
        let login = http.json(None, "/api/user/login", &json!({"phone": self.admin_phone, "password": PASSWORD})).await;
        login.data().as_str().unwrap().to_owned()
    }

    /// A sale that is on, made through the API by the admin.
    pub async fn sale(&self, http: &Http, stock: i64) -> i64 {
        let token = self.admin(http).await;
        let body = json!({
            "shopId": self.merchant, "title": "下午茶", "payValue": 4900, "actualValue": 10000, "stock": stock,
            "beginTime": "2026-01-01T00:00:00Z", "endTime": "2026-12-31T00:00:00Z",
        });
        let mut body = body;
        let now = seckill::clock::Clock::default().now();
        body["beginTime"] = Value::from((now - Duration::from_secs(5)).rfc3339());
        body["endTime"] = Value::from((now + Duration::from_hours(1)).rfc3339());
        http.json(Some(&token), "/api/voucher/seckill", &body).await.data().as_i64().unwrap()
    }

    /// Lets buyers `from..to` click once each over `connections` connections. Stops early when the server is gone. Returns
    /// what they were told, and how many got no definite answer.
    pub async fn click(
        &self,
        http: &Http,
        voucher: i64,
        from: usize,
        to: usize,
        connections: usize,
        told: Arc<AtomicUsize>,
    ) -> (Vec<Told>, usize) {
        let next = Arc::new(AtomicUsize::new(from));
        let mut clients = JoinSet::new();
        for _ in 0..connections {
            let (next, http, told) = (next.clone(), http.clone(), told.clone());
            let buyers = self.buyers.clone();
            clients.spawn(async move {
                let (mut heard, mut unsure) = (Vec::new(), 0);
                loop {
                    let buyer = next.fetch_add(1, Ordering::Relaxed);
                    if buyer >= to {
                        return (heard, unsure);
                    }
                    let headers = [("authorization", buyers[buyer].as_str())];
                    let path = format!("/api/voucher-order/seckill/{voucher}");
                    if let Ok(answer) = http.try_send(http::Method::POST, &path, &headers, "").await {
                        let json = answer.json();
                        if json["success"] == true || json["code"] == "DUPLICATE" {
                            let order = json["data"].as_str().unwrap().to_owned();
                            let ticket = json["ticket"].as_str().unwrap().to_owned();
                            heard.push(Told { buyer, order, ticket });
                            told.fetch_add(1, Ordering::Relaxed);
                        } else if answer.status == 503 {
                            unsure += 1;
                        }
                    } else {
                        unsure += 1;
                        return (heard, unsure);
                    }
                }
            });
        }
        let mut heard = Vec::new();
        let mut unsure = 0;
        for (h, u) in clients.join_all().await {
            heard.extend(h);
            unsure += u;
        }
        (heard, unsure)
    }

    /// Waits until each of these orders reads as something final or PENDING; the statuses, by order. Panics after 60 s.
    pub async fn verdicts(&self, http: &Http, told: &[Told]) -> Vec<String> {
        let give_up = tokio::time::Instant::now() + Duration::from_mins(1);
        let mut verdicts = Vec::with_capacity(told.len());
        for t in told {
            loop {
                let answer = http.get(&format!("/api/voucher-order/{}?ticket={}", t.order, t.ticket)).await;
                let json = answer.json();
                let status = json["data"]["status"].as_str().unwrap_or("none");
                if answer.status == 200 && status != "QUEUED" {
                    verdicts.push(status.to_owned());
                    break;
                }
                assert!(tokio::time::Instant::now() < give_up, "order {} still reads {}", t.order, answer.text());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        verdicts
    }

    /// `seckill audit` beside the running server; panics unless it exits 0 within a few tries (entries may be under way).
    pub async fn audited(&self) {
        if let Err(last) = self.audit().await {
            panic!("the audit does not pass: {last}");
        }
    }

    /// The same, and what it printed when it does not pass.
    pub async fn audit(&self) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..5 {
            let (code, out, err) = self.run(&["audit"], "").await;
            if code == 0 {
                return Ok(());
            }
            last = format!("{out}{err}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Err(last)
    }

    /// A count from the database, read by a connection of its own.
    pub async fn count(&self, query: &'static str) -> i64 {
        // A sum of whole numbers has a type of its own on Postgres.
        let query = format!("SELECT CAST(({query}) AS BIGINT)");
        let rows: Vec<(i64,)> = Sql::open(&self.database_url().await).await.rows(&query).await;
        rows[0].0
    }
}
