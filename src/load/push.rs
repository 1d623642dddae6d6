//! Sockets that listen while the load runs: how long after the click does `order.created` arrive?
//!
//! One socket for each of the first buyers, opened before the first click and kept open until the end, as browsers would.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;

use super::CannotRun;
use super::clicks::Clicks;
use super::histogram::Histogram;
use super::socket;
use super::target::Target;
use super::tokens::Buyer;
use crate::shutdown::Shutdown;

/// A live channel of this shop.
pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Handshakes under way at once.
const HANDSHAKES: usize = 64;

/// Opens a socket for each buyer; the first that fails ends it.
pub async fn open(target: &Target, buyers: &[Buyer]) -> Result<Vec<Socket>, CannotRun> {
    let mut sockets = stream::iter(buyers).map(|buyer| socket::open(target, &buyer.token)).buffered(HANDSHAKES);
    let mut open = Vec::with_capacity(buyers.len());
    while let Some(socket) = sockets.next().await {
        open.push(socket?);
    }
    Ok(open)
}

/// The listening sockets.
#[derive(Debug)]
pub struct Listeners {
    heard: Arc<AtomicUsize>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<Option<Duration>>>,
}

impl Listeners {
    /// Lets every socket listen; the n-th belongs to the n-th buyer of `clicks`.
    #[must_use]
    pub fn start(shutdown: &Shutdown, clicks: &Arc<Clicks>, sockets: Vec<Socket>) -> Self {
        let (heard, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let listen_one = |(buyer, socket)| shutdown.spawn(listen(clicks.clone(), buyer, socket, heard.clone(), stop.clone()));
        let tasks = sockets.into_iter().enumerate().map(listen_one).collect();
        Self { heard, stop, tasks }
    }

    /// Waits until `expected` sockets have heard of their order, for `limit` at most, and closes all of them.
    pub async fn finish(self, expected: usize, limit: Duration) -> Histogram {
        let give_up = Instant::now() + limit;
        while self.heard.load(Ordering::Relaxed) < expected && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.stop.cancel();
        let mut latency = Histogram::default();
        for task in self.tasks {
            if let Ok(Some(time)) = task.await {
                latency.record(time);
            }
        }
        latency
    }
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
}

async fn listen(
    clicks: Arc<Clicks>,
    buyer: usize,
    mut socket: Socket,
    heard: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> Option<Duration> {
    let mut latency = None;
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            () = stop.cancelled() => break,
        };
        let Some(Ok(message)) = message else { break };
        if let Message::Text(text) = message
            && latency.is_none()
            && serde_json::from_str::<Told>(&text).is_ok_and(|told| told.kind == "order.created")
            && let Some(time) = clicks.since_click(buyer)
        {
            latency = Some(time);
            heard.fetch_add(1, Ordering::Relaxed);
        }
    }
    // A goodbye that is not heard is no reason to wait.
    let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
    latency
}
