//! After the storm: waits until everything sells again and nothing is under way, then writes down what is there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::checker::{AtRest, Money, Row, SaleAtRest};
use super::faults::pause;
use super::history::{Answer, Shown};
use super::load::{Mine, shown};
use super::world::World;
use crate::support::socket::Socket;

/// Id, user, voucher, status, version, live, reason.
type OrderRow = (i64, i64, i64, String, i64, bool, Option<String>);

impl World {
    /// Lets everything through and thaws what was frozen.
    pub fn heal(&self) {
        self.to_redis.heal();
        if let Some(link) = &self.to_postgres {
            link.heal();
        }
        for slot in &self.slots {
            slot.signal(rustix::process::Signal::CONT);
        }
    }

    /// How long it takes until both servers are ready and every sale gives a definite answer, in ms.
    pub async fn open_again(&self) -> Option<u64> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(90) {
            if self.sells().await {
                return u64::try_from(started.elapsed().as_millis()).ok();
            }
            pause(50).await;
        }
        for n in 0..2 {
            if let Ok(answer) = self.https[n].try_send(http::Method::GET, "/readyz", &[], "").await {
                self.history.wrong(&format!("server {n} says {} {}", answer.status, answer.text()));
            }
        }
        None
    }

    /// Whether both servers are ready and every sale gives a definite answer.
    pub async fn sells(&self) -> bool {
        for n in 0..2 {
            let ready = self.https[n].try_send(http::Method::GET, "/readyz", &[], "");
            if !matches!(tokio::time::timeout(Duration::from_secs(2), ready).await, Ok(Ok(answer)) if answer.status == 200) {
                return false;
            }
            for (voucher, _) in &self.sales {
                let (answer, _) = self.buy(n, 0, *voucher).await;
                let definite = match &answer {
                    Answer::Told(_) => true,
                    Answer::No(code, _) => code == "DUPLICATE" || code == "SOLD_OUT",
                    _ => false,
                };
                if !definite {
                    return false;
                }
            }
        }
        true
    }

    async fn left_over(&self) -> BTreeMap<&'static str, i64> {
        let mut left = BTreeMap::new();
        for (name, query) in [
            ("open outbox rows", "SELECT COUNT(*) FROM outbox WHERE done_at IS NULL"),
            ("notices that were not sent", "SELECT COUNT(*) FROM sandbox_letter WHERE done_at IS NULL"),
            ("payments without a decision", "SELECT COUNT(*) FROM payment WHERE state IN ('EARLY', 'REFUND_DUE')"),
            ("refunds that are due", "SELECT COUNT(*) FROM refund WHERE state = 'DUE'"),
            ("orders in REFUNDING", "SELECT COUNT(*) FROM orders WHERE status = 'REFUNDING'"),
        ] {
            left.insert(name, self.sql::<(i64,)>(query).await.map_or(-1, |rows| rows[0].0));
        }
        let dead = self.sql::<(i64,)>("SELECT COUNT(*) FROM dead_letter WHERE state = 'OPEN'").await.map_or(-1, |rows| rows[0].0);
        left.insert("dead letters", (dead - i64::try_from(self.history.buried()).unwrap()).max(0));
        left.insert("entries in the stream", self.redis(&["XLEN", "stream.orders:{0}"]).await.unwrap_or(-1));
        let pending: Option<(i64, redis::Value, redis::Value, redis::Value)> =
            self.redis(&["XPENDING", "stream.orders:{0}", "g1"]).await;
        left.insert("unacknowledged entries", pending.map_or(-1, |summary| summary.0));
        left
    }

    /// Waits for rest and reads everything.
    pub async fn at_rest(self: &Arc<Self>, open_after: Option<u64>) -> AtRest {
        let mut rest = AtRest { open_after, ..AtRest::default() };
        let started = Instant::now();
        loop {
            rest.left_over = self.left_over().await;
            if rest.left_over.values().all(|left| *left == 0) || started.elapsed() > self.rest_within {
                break;
            }
            pause(100).await;
        }
        self.read_verdicts(&mut rest).await;
        // Unpaid orders still end by themselves: what is read in several steps is of one moment when nothing changed meanwhile.
        for _ in 0..20 {
            let before = self.versions().await;
            rest.read_at = Some(self.history.now());
            self.read_books(&mut rest).await;
            rest.left_over = self.left_over().await;
            if self.versions().await == before && rest.left_over.values().all(|left| *left == 0) {
                break;
            }
            pause(200).await;
        }
        self.compare_views().await;
        rest
    }

    /// Asks for every id that was told, by its newest ticket.
    async fn read_verdicts(self: &Arc<Self>, rest: &mut AtRest) {
        let tickets = self.history.tickets();
        let mut clients = tokio::task::JoinSet::new();
        let all: Vec<(i64, (usize, String))> = tickets.into_iter().collect();
        for few in all.chunks(all.len() / 8 + 1) {
            let (world, few, looks) = (self.clone(), few.to_vec(), self.rest_within.as_millis() / 300);
            clients.spawn(async move {
                let mut verdicts = Vec::new();
                for (order, (client, ticket)) in few {
                    let mine = Mine { order, ticket };
                    let mut verdict = world.read(0, client, &mine).await;
                    for _ in 0..looks {
                        if verdict.as_ref().is_some_and(|shown| shown.status != "QUEUED") {
                            break;
                        }
                        pause(50).await;
                        verdict = world.read(1, client, &mine).await;
                    }
                    verdicts.extend(verdict.map(|shown| (order, shown)));
                }
                verdicts
            });
        }
        rest.verdicts = clients.join_all().await.into_iter().flatten().collect();
    }

    async fn versions(&self) -> Option<(i64, i64)> {
        let query = "SELECT COUNT(*), COALESCE(CAST(SUM(version) AS BIGINT), 0) FROM orders";
        self.sql::<(i64, i64)>(query).await?.pop()
    }

    async fn read_books(&self, rest: &mut AtRest) {
        let clients: HashMap<i64, usize> = self.people.iter().enumerate().map(|(n, person)| (person.id, n)).collect();
        let client = |user: i64| clients.get(&user).copied().unwrap_or(usize::MAX);
        let orders: Vec<OrderRow> =
            self.sql("SELECT id, user_id, voucher_id, status, version, live, close_reason FROM orders").await.unwrap();
        for (order, user, voucher, status, version, live, reason) in orders {
            let shown = Shown { order, status, version, reason: reason.unwrap_or_default() };
            rest.rows.insert(order, Row { client: client(user), voucher, live, shown });
        }
        for (voucher, total, left) in
            self.sql::<(i64, i64, i64)>("SELECT voucher_id, stock_total, stock_left FROM flash_sale").await.unwrap()
        {
            let holders: HashMap<i64, i64> =
                self.redis(&["HGETALL", &format!("seckill:{{0}}:order:{voucher}")]).await.unwrap_or_default();
            let sale = SaleAtRest {
                total,
                left,
                gate_stock: self.redis(&["GET", &format!("seckill:{{0}}:stock:{voucher}")]).await,
                holders: holders.into_iter().map(|(user, order)| (client(user), order)).collect(),
            };
            rest.sales.insert(voucher, sale);
        }
        let money = |(transaction, order, amount, word)| Money { transaction, order, amount, word };
        let payments = "SELECT transaction_id, order_id, amount, state FROM payment";
        let provider = "SELECT transaction_id, order_id, amount, kind FROM sandbox_entry";
        rest.payments = self.sql(payments).await.unwrap().into_iter().map(money).collect();
        rest.provider = self.sql(provider).await.unwrap().into_iter().map(money).collect();
    }

    /// Page, API and push say the same of an order.
    async fn compare_views(&self) {
        for client in 0..self.people.len().min(12) {
            let token = &self.people[client].token;
            let opened = Socket::try_open(&self.slots[client % 2].base, token);
            let Ok(Some(mut socket)) = tokio::time::timeout(Duration::from_secs(5), opened).await else {
                self.history.wrong(&format!("client {client} gets no socket at rest"));
                continue;
            };
            let Ok(Some(snapshot)) = tokio::time::timeout(Duration::from_secs(5), socket.next_ever()).await else {
                self.history.wrong(&format!("client {client} gets no snapshot at rest"));
                continue;
            };
            for pushed in snapshot["orders"].as_array().into_iter().flatten().take(5).filter_map(shown) {
                // Unpaid orders still end by themselves while this looks.
                for _ in 0..3 {
                    let api = self.read_own((client + 1) % 2, client, pushed.order).await;
                    let path = format!("/orders/{}", pushed.order);
                    let page = self.https[client % 2].page(Some(&format!("seckill_session={token}")), &path).await.text();
                    let again = self.read_own(client % 2, client, pushed.order).await;
                    if api != again {
                        continue;
                    }
                    let word = api.as_ref().map(|shown| format!("data-status=\"{}\"", shown.status)).unwrap_or_default();
                    let pushed_fits = api.as_ref().is_some_and(|now| {
                        now.version > pushed.version || (now.version == pushed.version && now.status == pushed.status)
                    });
                    if word.is_empty() || !page.contains(&word) || !pushed_fits {
                        self.history.wrong(&format!(
                            "order {}: the API says {api:?}, the push {pushed:?}, the page something else",
                            pushed.order
                        ));
                    }
                    break;
                }
            }
        }
    }
}
