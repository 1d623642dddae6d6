//! A TCP proxy that delays, hangs, refuses, cuts, swallows answers, and cuts a connection right after a COMMIT was sent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seckill::shutdown::Shutdown;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// What a link does to whatever passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mode {
    delay: Duration,
    hangs: bool,
    refuses: bool,
    /// Connections of an older one are over.
    generation: u64,
}

/// A link that can be broken.
#[derive(Clone)]
pub struct Link {
    /// Where it listens.
    pub address: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    swallow: Arc<AtomicUsize>,
    commits: Arc<AtomicUsize>,
}

impl Link {
    /// A link to a unix socket; it ends with `tasks`.
    pub async fn start(target: PathBuf, tasks: &Shutdown) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = Self {
            address: listener.local_addr().unwrap(),
            mode: Arc::new(watch::Sender::new(Mode::default())),
            swallow: Arc::default(),
            commits: Arc::default(),
        };
        let (mine, inner) = (link.clone(), tasks.clone());
        tasks.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = inner.begun() => return,
                };
                let Ok((client, _)) = accepted else { continue };
                if mine.mode.borrow().refuses {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&target).await else { continue };
                let _nodelay = client.set_nodelay(true);
                let (mine, until) = (mine.clone(), inner.clone());
                inner.spawn(async move {
                    tokio::select! {
                        () = mine.pass(client, server) => {}
                        () = until.begun() => {}
                    }
                });
            }
        });
        link
    }

    async fn pass(self, client: TcpStream, server: UnixStream) {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mut mode = self.mode.subscribe();
        let generation = mode.borrow().generation;
        let over = mode.wait_for(move |mode| mode.generation != generation);
        tokio::select! {
            () = self.pump(from_client, to_server, true) => {}
            () = self.pump(from_server, to_client, false) => {}
            _ = over => {}
        }
    }

    async fn pump(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, asks: bool) {
        let mut mode = self.mode.subscribe();
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            let Ok(now) = mode.wait_for(|mode| !mode.hangs).await.map(|mode| *mode) else { return };
            if !now.delay.is_zero() {
                tokio::time::sleep(now.delay).await;
            }
            if !asks && take_one(&self.swallow) {
                return;
            }
            if to.write_all(&buffer[..n]).await.is_err() {
                return;
            }
            if asks && buffer[..n].windows(6).any(|word| word == b"COMMIT") && take_one(&self.commits) {
                // It was sent, and runs; its answer has nowhere to go.
                tokio::time::sleep(Duration::from_millis(20)).await;
                return;
            }
        }
    }

    /// Every answer takes this much longer, each way.
    pub fn delay(&self, delay: Duration) {
        self.mode.send_modify(|mode| mode.delay = delay);
    }

    /// Nothing passes, and nothing is closed, until it is told otherwise.
    pub fn hang(&self, hangs: bool) {
        self.mode.send_modify(|mode| mode.hangs = hangs);
    }

    /// Cuts what is open; nothing new gets through while `refuses`.
    pub fn cut(&self, refuses: bool) {
        self.mode.send_modify(|mode| {
            mode.generation += 1;
            mode.refuses = refuses;
        });
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.swallow.store(0, Ordering::SeqCst);
        self.commits.store(0, Ordering::SeqCst);
        self.mode.send_modify(|mode| *mode = Mode { generation: mode.generation, ..Mode::default() });
    }

    /// The next `n` answers are lost, with their connections.
    pub fn swallow(&self, n: usize) {
        self.swallow.store(n, Ordering::SeqCst);
    }

    /// The next `n` connections on which a COMMIT is sent are cut before its answer.
    pub fn cut_after_commit(&self, n: usize) {
        self.commits.store(n, Ordering::SeqCst);
    }
}

fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}
