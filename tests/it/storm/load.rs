//! The people of a storm: they click, look, cancel, pay, press twice, hold sockets, and write down what they heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::history::{Answer, Asked, Shown};
use super::world::World;
use crate::support::socket::Socket;

/// How long somebody waits for an answer before he gives up.
const PATIENCE: Duration = Duration::from_secs(4);

/// An id with its ticket.
#[derive(Debug, Clone)]
pub struct Mine {
    pub order: i64,
    pub ticket: String,
}

/// An order as an answer or a message shows it.
pub fn shown(order: &Value) -> Option<Shown> {
    Some(Shown {
        order: order["id"].as_str()?.parse().ok()?,
        status: order["status"].as_str()?.to_owned(),
        version: order["version"].as_i64()?,
        reason: order["closeReason"].as_str().unwrap_or_default().to_owned(),
    })
}

impl World {
    /// One call: its JSON, or why there is none.
    async fn call(&self, slot: usize, method: Method, path: &str, token: &str) -> Result<Value, String> {
        let headers = if token.is_empty() { vec![] } else { vec![("authorization", token)] };
        let sent = self.https[slot].try_send(method, path, &headers, "");
        let answer = tokio::time::timeout(PATIENCE, sent).await.map_err(|_| String::from("no answer"))??;
        serde_json::from_slice(&answer.body).map_err(|_| format!("{}", answer.status))
    }

    /// Presses "buy" and writes it down.
    pub async fn buy(&self, slot: usize, client: usize, voucher: i64) -> (Answer, Option<Mine>) {
        let call = self.history.invoke(client, Asked::Buy { voucher });
        let path = format!("/api/voucher-order/seckill/{voucher}");
        let heard = self.call(slot, Method::POST, &path, &self.people[client].token).await;
        let (answer, mine) = match heard {
            Err(why) => (Answer::Unknown(why), None),
            Ok(json) => {
                let id = json["data"].as_str().and_then(|id| id.parse().ok());
                let ticket = json["ticket"].as_str().map(str::to_owned);
                let mine = id.zip(ticket).map(|(order, ticket)| Mine { order, ticket });
                match (json["success"].as_bool(), json["code"].as_str(), id) {
                    (Some(true), _, Some(id)) => (Answer::Told(id), mine),
                    (_, Some(code @ ("UNCERTAIN" | "INTERNAL")), _) => (Answer::Unknown(code.to_owned()), None),
                    (_, Some(code), id) => (Answer::No(code.to_owned(), id), mine),
                    _ => (Answer::Unknown(json.to_string()), None),
                }
            }
        };
        self.history.answer(call, answer.clone());
        if let Some(mine) = &mine {
            self.history.ticket(client, mine.order, &mine.ticket);
        }
        (answer, mine)
    }

    fn note(&self, call: usize, heard: &Result<Value, String>) -> Option<Shown> {
        let answer = match heard {
            Err(why) => Answer::Unknown(why.clone()),
            Ok(json) if json["success"] == true => shown(&json["data"]).map_or(Answer::Done, Answer::Order),
            Ok(json) => match json["code"].as_str() {
                Some("NOT_FOUND") => Answer::No(String::from("NOT_FOUND"), None),
                Some(code) => Answer::Unknown(code.to_owned()),
                None => Answer::Unknown(json.to_string()),
            },
        };
        self.history.answer(call, answer.clone());
        if let Answer::Order(shown) = answer { Some(shown) } else { None }
    }

    /// Looks at an order by its ticket.
    pub async fn read(&self, slot: usize, client: usize, mine: &Mine) -> Option<Shown> {
        let call = self.history.invoke(client, Asked::Read { order: mine.order, ticket: true });
        let path = format!("/api/voucher-order/{}?ticket={}", mine.order, mine.ticket);
        let heard = self.call(slot, Method::GET, &path, "").await;
        self.note(call, &heard)
    }

    /// Looks at an order as its owner.
    pub async fn read_own(&self, slot: usize, client: usize, order: i64) -> Option<Shown> {
        let call = self.history.invoke(client, Asked::Read { order, ticket: false });
        let heard = self.call(slot, Method::GET, &format!("/api/voucher-order/{order}"), &self.people[client].token).await;
        self.note(call, &heard)
    }

    pub async fn cancel(&self, slot: usize, client: usize, order: i64) -> bool {
        let call = self.history.invoke(client, Asked::Cancel { order });
        let path = format!("/api/voucher-order/{order}/cancel");
        let heard = self.call(slot, Method::POST, &path, &self.people[client].token).await;
        self.note(call, &heard).is_some_and(|shown| shown.status == "CANCELLED")
    }

    /// Goes to the provider's page and presses a button.
    pub async fn pay(&self, slot: usize, client: usize, order: i64, button: &str) {
        let call = self.history.invoke(client, Asked::Pay { order });
        let path = format!("/api/voucher-order/{order}/pay");
        let answer = match self.call(slot, Method::POST, &path, &self.people[client].token).await {
            Ok(json) => {
                match json["data"]["payUrl"].as_str().and_then(|url| Some(url[url.find("/sandbox-pay/")?..].to_owned())) {
                    Some(page) => {
                        let headers = [("content-type", "application/x-www-form-urlencoded")];
                        let pressed = self.https[slot].try_send(Method::POST, &page, &headers, format!("do={button}"));
                        match tokio::time::timeout(PATIENCE, pressed).await {
                            Ok(Ok(answer)) if answer.status.is_redirection() => Answer::Done,
                            _ => Answer::Unknown(String::from("the page")),
                        }
                    }
                    None => Answer::Unknown(json["code"].to_string()),
                }
            }
            Err(why) => Answer::Unknown(why),
        };
        self.history.answer(call, answer);
    }

    pub async fn refund(&self, slot: usize, order: i64, restock: bool) {
        let call = self.history.invoke(usize::MAX, Asked::Refund { order });
        let heard = self.as_admin(slot, &format!("/api/voucher-order/{order}/refund"), &json!({"restock": restock})).await;
        self.history.answer(call, heard.map_or(Answer::Unknown(String::new()), |_| Answer::Done));
    }
}

/// People who shop until they are told to stop: each task is several people, one after the other.
pub fn crowd(world: &Arc<World>, seed: u64, tasks: usize, stop: &Arc<AtomicBool>) -> Vec<tokio::task::JoinHandle<()>> {
    let mut all = Vec::new();
    for task in 0..tasks {
        let (world, stop) = (world.clone(), stop.clone());
        let mut rng = StdRng::seed_from_u64(seed ^ (task as u64) << 32);
        let tasks_of = world.tasks.clone();
        all.push(tasks_of.spawn(async move {
            let people: Vec<usize> = (task..world.people.len()).step_by(tasks).collect();
            let mut mine: Vec<Vec<Mine>> = vec![Vec::new(); people.len()];
            while !stop.load(Ordering::Relaxed) {
                let n = rng.random_range(0..people.len());
                act(&world, &mut rng, people[n], &mut mine[n]).await;
                tokio::time::sleep(Duration::from_millis(rng.random_range(5..90))).await;
            }
        }));
    }
    for client in 0..6.min(world.people.len()) {
        all.push(hold_socket(world.clone(), client, stop.clone(), StdRng::seed_from_u64(seed + client as u64)));
    }
    all.push(refund_some(world.clone(), stop.clone(), StdRng::seed_from_u64(seed + 99)));
    all.push(look_at_books(world.clone(), stop.clone()));
    all.push(look_at_gates(world.clone(), stop.clone(), Duration::from_millis(100)));
    all
}

async fn act(world: &World, rng: &mut StdRng, client: usize, mine: &mut Vec<Mine>) {
    let slot = rng.random_range(0..2);
    let keep = |mine: &mut Vec<Mine>, new: Option<Mine>| {
        if let Some(new) = new
            && mine.last().is_none_or(|last| last.order != new.order)
        {
            mine.push(new);
        }
    };
    let some = |rng: &mut StdRng, mine: &[Mine]| {
        // Mostly the newest ones.
        let from = if rng.random_bool(0.8) { mine.len().saturating_sub(3) } else { 0 };
        mine.get(rng.random_range(from..mine.len().max(from + 1))).cloned()
    };
    match rng.random_range(0..100) {
        0..42 => {
            let (voucher, _) = world.sales[rng.random_range(0..world.sales.len())];
            let (_, new) = world.buy(slot, client, voucher).await;
            keep(mine, new);
        }
        42..48 => {
            // A double click, one at each server.
            let (voucher, _) = world.sales[rng.random_range(0..world.sales.len())];
            let ((_, a), (_, b)) = tokio::join!(world.buy(0, client, voucher), world.buy(1, client, voucher));
            keep(mine, a);
            keep(mine, b);
        }
        48..66 => {
            if let Some(one) = some(rng, mine) {
                world.read(slot, client, &one).await;
            }
        }
        66..74 => {
            if let Some(one) = some(rng, mine) {
                world.read_own(slot, client, one.order).await;
            }
        }
        74..84 => {
            if let Some(one) = some(rng, mine) {
                world.cancel(slot, client, one.order).await;
            }
        }
        _ => {
            if let Some(one) = some(rng, mine) {
                let button = ["approve", "approve", "approve", "twice", "decline"][rng.random_range(0..5)];
                world.pay(slot, client, one.order, button).await;
            }
        }
    }
}

fn hold_socket(world: Arc<World>, client: usize, stop: Arc<AtomicBool>, mut rng: StdRng) -> tokio::task::JoinHandle<()> {
    let tasks = world.tasks.clone();
    tasks.spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            let base = world.slots[rng.random_range(0..2)].base.clone();
            let lived = async {
                let Some(mut socket) = Socket::try_open(&base, &world.people[client].token).await else { return };
                while let Some(message) = socket.next_ever().await {
                    let orders = message["orders"].as_array().cloned().unwrap_or_default();
                    for order in orders.iter().chain(std::iter::once(&message["order"])) {
                        if let Some(shown) = shown(order) {
                            world.history.push(client, shown);
                        }
                    }
                }
            };
            let _cut = tokio::time::timeout(Duration::from_millis(rng.random_range(500..8000)), lived).await;
            tokio::time::sleep(Duration::from_millis(rng.random_range(50..300))).await;
        }
    })
}

fn refund_some(world: Arc<World>, stop: Arc<AtomicBool>, mut rng: StdRng) -> tokio::task::JoinHandle<()> {
    let tasks = world.tasks.clone();
    tasks.spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(rng.random_range(50..400))).await;
            let paid: Vec<(i64,)> =
                world.sql("SELECT id FROM orders WHERE status = 'PAID' ORDER BY id LIMIT 40").await.unwrap_or_default();
            if paid.len() > 4 {
                let order = paid[rng.random_range(0..paid.len())].0;
                world.refund(rng.random_range(0..2), order, rng.random_bool(0.8)).await;
            }
        }
    })
}

/// Whether stock and holders make the total, looked at in one step.
pub fn look_at_gates(world: Arc<World>, stop: Arc<AtomicBool>, every: Duration) -> tokio::task::JoinHandle<()> {
    const LOOK: &str = "return {redis.call('HGET', KEYS[1], 'total'), redis.call('GET', KEYS[2]), redis.call('HLEN', KEYS[3])}";
    let tasks = world.tasks.clone();
    tasks.spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(every).await;
            for (voucher, _) in &world.sales {
                let keys = ["sale", "stock", "order"].map(|key| format!("seckill:{{0}}:{key}:{voucher}"));
                let words = ["EVAL", LOOK, "3", &keys[0], &keys[1], &keys[2]];
                // A key that is missing is no sum.
                if let Some((Some(total), Some(stock), holders)) = world.redis::<(Option<i64>, Option<i64>, i64)>(&words).await
                    && stock + holders != total
                {
                    world.history.sum(format!("sale {voucher} has {stock} and {holders} holders of {total}"));
                }
            }
        }
    })
}

/// What must hold in every snapshot, not only at rest.
fn look_at_books(world: Arc<World>, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
    const SNAPSHOT: &str = "SELECT s.voucher_id, s.stock_total, s.stock_left, \
        (SELECT COUNT(*) FROM orders o WHERE o.voucher_id = s.voucher_id AND o.live), \
        (SELECT COUNT(DISTINCT o.user_id) FROM orders o WHERE o.voucher_id = s.voucher_id AND o.live) FROM flash_sale s";
    let tasks = world.tasks.clone();
    tasks.spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let sales: Vec<(i64, i64, i64, i64, i64)> = world.sql(SNAPSHOT).await.unwrap_or_default();
            for (voucher, total, left, live, buyers) in sales {
                if left + live != total || left < 0 || live != buyers {
                    world
                        .history
                        .wrong(&format!("sale {voucher}: {left} left, {live} live orders of {buyers} buyers, of {total}"));
                }
            }
        }
    })
}
