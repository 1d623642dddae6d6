//! The primary that Sentinels name, followed when they name another one.
//!
//! A task asks them once a second, and at once after a call that went wrong. Of their answers the one with the highest
//! configuration epoch counts, and only a server that calls itself a primary is adopted: a Sentinel that was away still
//! names the old one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{ConnectionInfo, ErrorKind, RedisResult, ServerErrorKind, Value};
use tokio::sync::Notify;

use super::address::Manner;
use super::node::{Node, lost_its_server};

/// Between two questions to the Sentinels while all is well.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two of them, however many calls go wrong.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The primary of one service.
pub(super) struct Sentinels {
    asked: Vec<Node>,
    service: String,
    manner: Manner,
    current: RwLock<Option<Arc<Node>>>,
    trouble: Notify,
}

impl Sentinels {
    /// Asks once, so that a primary is known when there is one, and goes on asking for as long as anybody holds this.
    pub(super) async fn start(sentinels: Vec<ConnectionInfo>, service: String, manner: Manner) -> RedisResult<Arc<Self>> {
        let asked = sentinels.into_iter().map(Node::new).collect::<RedisResult<_>>()?;
        let this = Arc::new(Self { asked, service, manner, current: RwLock::default(), trouble: Notify::new() });
        let _not_yet = this.look().await;
        super::watch_over(follow(Arc::downgrade(&this)));
        Ok(this)
    }

    /// The primary as far as it is known; an error while there is none.
    pub(super) fn current(&self) -> RedisResult<Arc<Node>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        current.ok_or_else(|| {
            (ErrorKind::Server(ServerErrorKind::MasterDown), "the Sentinels name no primary that can be reached").into()
        })
    }

    /// After a call: whether the primary may be another one by now.
    pub(super) fn note(&self, error: &redis::RedisError) {
        if lost_its_server(error) {
            self.trouble.notify_one();
        }
    }

    /// One look; the error says why no primary was found.
    pub(super) async fn look(&self) -> RedisResult<()> {
        let answers = join_all(self.asked.iter().map(|sentinel| self.ask(sentinel))).await;
        let (mut named, mut error) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Ok(one) => named.push(one),
                Err(e) => error = Some(e),
            }
        }
        named.sort();
        named.dedup();
        while let Some((_, host, port)) = named.pop() {
            let same = self.current().ok().filter(|node| node.place() == format!("{host}:{port}"));
            let known = same.is_some();
            let node = match same {
                Some(node) => node,
                None => Arc::new(Node::new(self.manner.at(&host, port)?)?),
            };
            match is_primary(&node).await {
                Ok(true) if known => return Ok(()),
                Ok(true) => {
                    tracing::info!(primary = node.place(), service = self.service, "the Sentinels name this primary");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(node);
                    return Ok(());
                }
                Ok(false) => {}
                Err(e) => error = Some(e),
            }
        }
        Err(error.unwrap_or_else(|| {
            (ErrorKind::Server(ServerErrorKind::MasterDown), "the Sentinels name no primary that can be reached").into()
        }))
    }

    /// What one Sentinel says: the configuration's epoch, host and port.
    async fn ask(&self, sentinel: &Node) -> RedisResult<(u64, String, u16)> {
        let mut call = redis::cmd("SENTINEL");
        call.arg("MASTER").arg(&self.service);
        let fields: HashMap<String, String> = call.query_async(&mut sentinel.shared.clone()).await?;
        let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
        let found = fields.get("ip").zip(number("port").and_then(|port| u16::try_from(port).ok()));
        let (host, port) = found.ok_or((ErrorKind::UnexpectedReturnType, "a Sentinel's answer has no address"))?;
        Ok((number("config-epoch").unwrap_or(0), host.clone(), port))
    }
}

async fn is_primary(node: &Node) -> RedisResult<bool> {
    let role: Vec<Value> = redis::cmd("ROLE").query_async(&mut node.shared.clone()).await?;
    Ok(matches!(role.first(), Some(Value::BulkString(word)) if word == b"master"))
}

async fn follow(sentinels: Weak<Sentinels>) {
    let mut failing = false;
    loop {
        let Some(this) = sentinels.upgrade() else { return };
        tokio::time::sleep(LOOK_AGAIN).await;
        // Jitter: many processes must not ask in step.
        let rest = LOOK_EVERY.mul_f64(rand::random_range(0.7..1.0));
        let _all_well = tokio::time::timeout(rest, this.trouble.notified()).await;
        match this.look().await {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, service = this.service, "no primary is known; the Sentinels are asked on");
            }
            Err(_) => {}
        }
    }
}
