//! A tab as the page's script behaves: snapshot on every connect, versions that only grow, older ones dropped, back-off.

#![expect(clippy::disallowed_methods, reason = "a tab lives beside the test that opened it")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::socket::Socket;

/// What a tab has shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// Order id → version and status on the page.
    pub orders: HashMap<String, (i64, String)>,
    /// What no tab may ever see.
    pub contradictions: Vec<String>,
    /// From commit to receipt of each `order.created` heard while connected, in ms.
    pub delays: Vec<i64>,
    /// Connections made.
    pub connections: usize,
}

impl Shown {
    fn hear(&mut self, message: &Value) {
        let kind = message["type"].as_str().unwrap_or_default();
        if kind == "snapshot" {
            for order in message["orders"].as_array().unwrap() {
                self.show(order);
            }
        } else if kind.starts_with("order.") {
            let order = &message["order"];
            if self.show(order) && kind == "order.created" {
                let committed: jiff::Timestamp = order["createdAt"].as_str().unwrap().parse().unwrap();
                self.delays.push(seckill::clock::Clock::default().now().0 - committed.as_millisecond());
            }
        }
    }

    /// Whether it was news.
    fn show(&mut self, order: &Value) -> bool {
        let (id, version) = (order["id"].as_str().unwrap().to_owned(), order["version"].as_i64().unwrap());
        let status = order["status"].as_str().unwrap().to_owned();
        match self.orders.get(&id) {
            Some((known, shown)) if *known == version && *shown != status => {
                self.contradictions.push(format!("order {id} version {version}: {shown} and {status}"));
                false
            }
            Some((known, _)) if *known >= version => false,
            _ => {
                self.orders.insert(id, (version, status));
                true
            }
        }
    }
}

/// A tab that listens until it is dropped.
pub struct Tab {
    pub shown: Arc<Mutex<Shown>>,
    task: JoinHandle<()>,
}

impl Tab {
    /// Opens it. Each connection is cut without a word after the time that `cut_after` says, and comes back after `away`.
    pub fn open(
        base: &str,
        token: &str,
        cut_after: impl Fn() -> Duration + Send + 'static,
        away: impl Fn() -> Duration + Send + 'static,
    ) -> Self {
        let shown = Arc::new(Mutex::new(Shown::default()));
        let (base, token, mine) = (base.to_owned(), token.to_owned(), shown.clone());
        let task = tokio::task::spawn(async move {
            loop {
                let lived = async {
                    let Some(mut socket) = Socket::try_open(&base, &token).await else { return };
                    mine.lock().unwrap().connections += 1;
                    while let Some(message) = socket.next_ever().await {
                        mine.lock().unwrap().hear(&message);
                    }
                };
                let _ = tokio::time::timeout(cut_after(), lived).await;
                tokio::time::sleep(away()).await;
            }
        });
        Self { shown, task }
    }

    /// A tab on a good line.
    pub fn steady(base: &str, token: &str) -> Self {
        Self::open(base, token, || Duration::from_hours(1), || Duration::from_millis(rand::random_range(100..500)))
    }

    /// What it shows of an order.
    pub fn status(&self, order: &str) -> Option<String> {
        self.shown.lock().unwrap().orders.get(order).map(|(_, status)| status.clone())
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        self.task.abort();
    }
}
