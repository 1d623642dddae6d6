//! Between processes: what one of them has to tell, the hubs of all hear. One message for a batch, on one channel.
//!
//! At most once by nature; whenever something may have been missed, every socket is asked to read its snapshot again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::hub::Hub;
use super::order_json::order_text;
use crate::domain::event::{OrderEvent, SaleEvent};
use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::keys;
use crate::redis::Redis;
use crate::shutdown::Shutdown;
use crate::telemetry::meters;

/// Notes that may wait for Redis; beyond it they are dropped and everybody reads again.
const QUEUE: usize = 1024;
/// Notes that go out in one message.
const BATCH: usize = 64;
/// How long one call to Redis may take.
const CALL: Duration = Duration::from_secs(2);
/// How often the listening connection is asked whether it still lives.
const PING: Duration = Duration::from_secs(10);

/// What a batch tells. Short names: it is sent for every batch of orders.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    /// Which process sent it; it has told its own sockets already.
    from: String,
    /// Orders that changed.
    orders: Vec<OrderNote>,
    /// Units left.
    stocks: Vec<(VoucherId, i64)>,
    /// Sales to read again.
    changed: Vec<VoucherId>,
    /// Hashes of sessions that ended.
    ended: Vec<String>,
    /// Something before this was lost.
    resync: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct OrderNote {
    user: UserId,
    id: OrderId,
    kind: String,
    /// The order object, rendered.
    order: String,
}

impl Note {
    fn add(&mut self, other: Self) {
        self.orders.extend(other.orders);
        self.stocks.extend(other.stocks);
        self.changed.extend(other.changed);
        self.ended.extend(other.ended);
        self.resync |= other.resync;
    }

    fn tell(self, hub: &Hub) {
        for o in &self.orders {
            hub.send_rendered(o.user, o.id, &o.kind, &o.order);
        }
        for (voucher, stock) in self.stocks {
            hub.broadcast(SaleEvent::Stock { voucher, stock });
        }
        for voucher in self.changed {
            hub.broadcast(SaleEvent::Changed { voucher });
        }
        for session in &self.ended {
            hub.end_session(session);
        }
        if self.resync {
            hub.resync_all();
        }
    }
}

/// Tells every process, this one included; cheap to clone. Never waits and never fails: what cannot be sent is made good
/// by a resync.
#[derive(Debug, Clone)]
pub struct Bus {
    hub: Hub,
    queue: mpsc::Sender<Note>,
    missed: Arc<AtomicBool>,
}

impl Bus {
    /// Starts the sender and the listener; both live until `shutdown`.
    #[must_use]
    pub fn start(redis: &Redis, hub: Hub, shutdown: &Shutdown) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let missed = Arc::new(AtomicBool::new(false));
        let from = format!("{:016x}", rand::random::<u64>());
        shutdown.spawn_loop("bus, out", send(redis.clone(), waiting, missed.clone(), from.clone(), shutdown.clone()));
        shutdown.spawn_loop("bus, in", listen(redis.clone(), hub.clone(), from, shutdown.clone()));
        Self { hub, queue, missed }
    }

    fn pass_on(&self, note: Note) {
        if self.queue.try_send(note).is_err() {
            meters().push_lost.increment(1);
            self.missed.store(true, Ordering::Release);
        }
    }

    /// Tells the owners of these orders, on every socket anywhere. Call it only after commit and acknowledge.
    pub fn publish(&self, events: &[OrderEvent]) {
        if events.is_empty() {
            return;
        }
        let note = |e: &OrderEvent| OrderNote { user: e.user, id: e.order.id, kind: e.kind().to_owned(), order: order_text(e) };
        let orders: Vec<OrderNote> = events.iter().map(note).collect();
        for o in &orders {
            self.hub.send_rendered(o.user, o.id, &o.kind, &o.order);
        }
        self.pass_on(Note { orders, ..Note::default() });
    }

    /// Tells who watches a sale, and every process that it changed.
    pub fn publish_sale(&self, event: SaleEvent) {
        self.hub.broadcast(event);
        self.pass_on(match event {
            SaleEvent::Stock { voucher, stock } => Note { stocks: vec![(voucher, stock)], ..Note::default() },
            SaleEvent::Changed { voucher } => Note { changed: vec![voucher], ..Note::default() },
        });
    }

    /// Closes the sockets of sessions that ended, by the hashes of their tokens.
    pub fn end_sessions(&self, ended: Vec<String>) {
        for session in &ended {
            self.hub.end_session(session);
        }
        self.pass_on(Note { ended, ..Note::default() });
    }
}

/// Waits a little longer after every failure, up to five seconds, and never in step with other processes.
/// False when the end has begun.
async fn back_off(failures: &mut u32, shutdown: &Shutdown) -> bool {
    let cap = 100u64 << (*failures).min(6);
    *failures += 1;
    shutdown.sleep(Duration::from_millis(rand::random_range(cap / 2..=cap))).await
}

async fn send(redis: Redis, mut waiting: mpsc::Receiver<Note>, missed: Arc<AtomicBool>, from: String, shutdown: Shutdown) {
    let mut failures = 0;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            n = waiting.recv_many(&mut batch, BATCH) => if n == 0 { return },
            () = shutdown.begun() => return,
        }
        let mut note = Note { from: from.clone(), resync: missed.swap(false, Ordering::AcqRel), ..Note::default() };
        batch.drain(..).for_each(|n| note.add(n));
        loop {
            let text = serde_json::to_string(&note).unwrap_or_default();
            match publish(&redis, &text).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    // The orders in it may or may not have been heard: saying less, but surely, is enough.
                    tracing::debug!(%error, "the bus cannot be reached");
                    note = Note { from: from.clone(), ended: note.ended, changed: note.changed, resync: true, ..Note::default() };
                    if back_off(&mut failures, &shutdown).await {
                        continue;
                    }
                    return;
                }
            }
            break;
        }
    }
}

async fn publish(redis: &Redis, text: &str) -> Result<(), String> {
    let mut connection = redis.shared();
    let mut command = redis::cmd("PUBLISH");
    command.arg(keys::BUS_CHANNEL).arg(text);
    match tokio::time::timeout(CALL, command.query_async::<i64>(&mut connection)).await {
        Ok(answer) => answer.map(drop).map_err(|e| e.to_string()),
        Err(_) => Err(String::from("no answer in time")),
    }
}

async fn listen(redis: Redis, hub: Hub, from: String, shutdown: Shutdown) {
    let mut failures = 0;
    let mut first = true;
    while !shutdown.has_begun() {
        let outcome = tokio::select! {
            outcome = hear(&redis, &hub, &from, &mut first, &mut failures) => outcome,
            () = shutdown.begun() => return,
        };
        if let Err(error) = outcome {
            meters().push_lost.increment(1);
            tracing::debug!(%error, "the bus was lost");
        }
        if !back_off(&mut failures, &shutdown).await {
            return;
        }
    }
}

/// Hears until the connection is lost.
async fn hear(redis: &Redis, hub: &Hub, from: &str, first: &mut bool, failures: &mut u32) -> Result<(), String> {
    let subscribed = async {
        let mut pubsub = redis.pubsub().await.map_err(|e| e.to_string())?;
        pubsub.subscribe(keys::BUS_CHANNEL).await.map_err(|e| e.to_string())?;
        Ok::<_, String>(pubsub)
    };
    let pubsub = tokio::time::timeout(CALL, subscribed).await.map_err(|_| String::from("no answer in time"))??;
    let (mut sink, mut stream) = pubsub.split();
    *failures = 0;
    if !std::mem::take(first) {
        // What was said while nobody listened is lost; subscribed first, read again after.
        hub.resync_all();
    }
    loop {
        match tokio::time::timeout(PING, stream.next()).await {
            Ok(Some(message)) => {
                let note = serde_json::from_slice::<Note>(message.get_payload_bytes());
                match note {
                    Ok(note) if note.from == from => {}
                    Ok(note) => note.tell(hub),
                    Err(error) => tracing::warn!(%error, "a message on the bus was not understood"),
                }
            }
            Ok(None) => return Err(String::from("closed")),
            // Silence: a half-open connection would stay silent for ever.
            Err(_) => match tokio::time::timeout(CALL, sink.ping::<redis::Value>()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err(String::from("no answer in time")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_note_survives_the_way_and_reaches_the_right_sockets() {
        let hub = Hub::new(Clock::default());
        let mut mine = hub.register(Some(UserId(1)), Some("a".into()));
        let theirs = hub.register(Some(UserId(2)), Some("b".into()));
        let mut note = Note::default();
        note.add(Note {
            orders: vec![OrderNote {
                user: UserId(1),
                id: OrderId(5),
                kind: "order.created".into(),
                order: r#"{"id":"5"}"#.into(),
            }],
            ..Note::default()
        });
        note.add(Note { ended: vec!["b".into()], ..Note::default() });
        let text = serde_json::to_string(&note).unwrap();
        serde_json::from_str::<Note>(&text).unwrap().tell(&hub);
        assert!(matches!(mine.messages.try_recv(), Ok(super::super::hub::ToSocket::Text(t)) if t.contains(r#"{"id":"5"}"#)));
        assert!(theirs.closing.borrow().is_some() && mine.closing.borrow().is_none());
    }
}
