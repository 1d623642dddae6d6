//! The shop itself as its operators run it: `seckill serve` as a process, its other commands beside it, `audit` at the end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use seckill::load::client::Client;
use seckill::load::target::Target;
use seckill::load::tokens::{self, Buyer};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::children::{self, RedisServer};
use crate::database::Db;

const BINARY: &str = env!("CARGO_BIN_EXE_seckill");
const ADMIN: &str = "13900000000";
const PASSWORD: &str = "korrekt pferd";

/// Runs a command of the shop to its end; what it printed.
async fn run(arguments: &[String], stdin: &str) -> anyhow::Result<String> {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    child.stdin.take().context("no pipe")?.write_all(stdin.as_bytes()).await?;
    let output = timeout(Duration::from_mins(10), child.wait_with_output()).await.context("no end within ten minutes")??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "seckill {}: {text}{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// A database with the shop's schema, for another design; its address as [`Db::open`] takes it.
pub async fn migrated(dir: &Path, postgres: Option<&str>) -> anyhow::Result<String> {
    let mut arguments = vec!["migrate".to_owned(), "--data-dir".to_owned(), dir.display().to_string()];
    if let Some(url) = postgres {
        arguments.extend(["--database-url".to_owned(), url.to_owned()]);
    }
    run(&arguments, "").await?;
    Ok(postgres.map_or_else(|| format!("sqlite:{}/seckill.db", dir.display()), str::to_owned))
}

/// One shop with its data, its Redis, its buyers, and a server that may run.
pub struct Shop {
    // Dropped from the top: the server ends before what it stands on.
    server: Option<(Child, Target)>,
    /// Its Redis.
    pub redis: RedisServer,
    /// A look at its books from outside.
    pub db: Db,
    /// Who is logged in.
    pub buyers: Vec<Buyer>,
    postgres: Option<String>,
    merchant: String,
    admin: String,
    dir: TempDir,
}

impl Shop {
    /// A shop with `buyers` logged in; nothing serves yet.
    pub async fn new(postgres: Option<String>, buyers: usize) -> anyhow::Result<Self> {
        let dir = children::folder("shop")?;
        let data = dir.path().join("d");
        let database = migrated(&data, postgres.as_deref()).await?;
        let mut shop = Self {
            redis: RedisServer::start().await?,
            db: Db::open(&database).await?,
            buyers: Vec::new(),
            postgres,
            merchant: String::new(),
            server: None,
            admin: String::new(),
            dir,
        };
        let merchant = shop.run(&["shop", "add", "--name", "测试小馆"], "").await?;
        merchant.trim().clone_into(&mut shop.merchant);
        shop.run(&["user", "add", "--admin", "--phone", ADMIN], PASSWORD).await?;
        let file = shop.dir.path().join("tokens");
        shop.run(&["user", "seed", "--count", &buyers.to_string(), "--tokens", &file.display().to_string()], "").await?;
        shop.buyers = tokens::read(&file, Some(buyers)).await?;
        Ok(shop)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("d")
    }

    fn arguments(&self, verb: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = verb.iter().map(|&word| word.to_owned()).collect();
        all.extend(["--data-dir".to_owned(), self.data().display().to_string()]);
        all.extend(["--redis-url".to_owned(), self.redis.url()]);
        if let Some(url) = &self.postgres {
            all.extend(["--database-url".to_owned(), url.clone()]);
        }
        all
    }

    async fn run(&self, verb: &[&str], stdin: &str) -> anyhow::Result<String> {
        run(&self.arguments(verb), stdin).await
    }

    /// Starts the server with these options beside the data's, and waits until it is ready; whoever served before ends first.
    pub async fn serve(&mut self, options: &[&str]) -> anyhow::Result<()> {
        self.stop().await?;
        let mut verb = vec!["serve", "--listen", "127.0.0.1:0"];
        verb.extend(options);
        // What it has to say goes to a file: a full pipe would stop it.
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log"))?;
        let mut child = Command::new(BINARY)
            .args(self.arguments(&verb))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let url = children::listening(&mut child).await.with_context(|| self.log_tail())?;
        let target: Target = url.parse().map_err(|why: String| anyhow::anyhow!(why))?;
        self.server = Some((child, target));
        Ok(())
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// SIGTERM, and waits for the end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        if let Some((mut child, _)) = self.server.take() {
            let pid =
                child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)).context("it has ended")?;
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            timeout(Duration::from_secs(20), child.wait()).await.context("it does not end")??;
        }
        Ok(())
    }

    /// Where it serves.
    pub fn target(&self) -> anyhow::Result<Target> {
        Ok(self.server.as_ref().context("nothing serves")?.1.clone())
    }

    /// The server's process.
    pub fn process(&self) -> anyhow::Result<u32> {
        self.server.as_ref().and_then(|(child, _)| child.id()).context("nothing serves")
    }

    async fn post(&self, path: &str, token: &str, body: &serde_json::Value) -> anyhow::Result<serde_json::Value> {
        let target = self.target()?;
        let (host, body) = (&target.authority, body.to_string());
        let authorization = if token.is_empty() { String::new() } else { format!("authorization: {token}\r\n") };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\n{authorization}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = Client::new(target.clone()).ask(request.as_bytes()).await?;
        let json: serde_json::Value = serde_json::from_slice(&answer.body)?;
        ensure!(json["success"] == true, "{path}: {json}");
        Ok(json["data"].clone())
    }

    /// A sale that is on, made through the API by the admin.
    pub async fn sale(&mut self, units: usize) -> anyhow::Result<i64> {
        if self.admin.is_empty() {
            let login = serde_json::json!({"phone": ADMIN, "password": PASSWORD});
            let token = self.post("/api/user/login", "", &login).await?;
            self.admin = String::from(token.as_str().context("no token")?);
        }
        let now = seckill::clock::Clock::default().now();
        let sale = serde_json::json!({
            "shopId": self.merchant.parse::<i64>()?, "title": "下午茶", "payValue": 4900, "actualValue": 10000, "stock": units,
            "beginTime": (now - Duration::from_secs(5)).rfc3339(), "endTime": (now + Duration::from_hours(2)).rfc3339(),
        });
        self.post("/api/voucher/seckill", &self.admin, &sale).await?.as_i64().context("no voucher")
    }

    /// `seckill audit` must find nothing. What is still under way may need a moment.
    pub async fn audit(&self) -> anyhow::Result<()> {
        let mut last = None;
        for _ in 0..10 {
            match self.run(&["audit"], "").await {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
            sleep(Duration::from_millis(500)).await;
        }
        let Some(error) = last else { bail!("the audit never ran") };
        Err(error.context("the audit does not hold"))
    }
}
