//! A TCP proxy that passes requests on and swallows answers: what was asked is done, and nobody hears of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seckill::shutdown::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// A proxy in front of `target`.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// Answers still to be swallowed.
    pub swallow: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts it; it ends with `tasks`.
    pub async fn start(target: SocketAddr, tasks: &Shutdown) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let swallow = Arc::new(AtomicUsize::new(0));
        let (left, inner) = (swallow.clone(), tasks.clone());
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(target).await.unwrap();
                inner.spawn(pass(client, server, left.clone()));
            }
        });
        Self { address, swallow }
    }
}

async fn pass(client: TcpStream, server: TcpStream, swallow: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asked = async {
        let _gone = copy(&mut from_client, &mut to_server).await;
    };
    let answered = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(n @ 1..) = from_server.read(&mut buffer).await {
            if swallow.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
                return; // both ends are closed, the answer is gone
            }
            if to_client.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asked => {}
        () = answered => {}
    }
}
