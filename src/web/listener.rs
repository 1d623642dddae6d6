//! The accept loop: how many connections at once, how long a client may take to say what it wants, and how it all ends.
//!
//! Our own, because the ready-made one knows neither a time limit for headers nor a limit on connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::shutdown::Shutdown;

/// Connections at once; the next one waits in the kernel's queue until another ends.
const MOST_CONNECTIONS: usize = 60_000;
/// From the first byte of a request to the end of its headers, and between two requests of one connection. A proxy must let
/// go of an idle connection before this (nginx: `keepalive_timeout` of the upstream), or it may send into a closing one.
const HEADERS_WITHIN: Duration = Duration::from_secs(13);
/// Request line and headers together. More than the limits of `finish.rs`, which answers in our own words; only what is
/// larger still gets the library's bare 431.
const HEADER_BYTES: usize = 64 * 1024;
/// After an accept that failed (no file descriptor left, most likely).
const PAUSE_AFTER_TROUBLE: Duration = Duration::from_millis(50);

/// Files that are not connections of clients: stores, logs, the program itself.
const OWN_FILES: u64 = 200;

/// Raises the soft limit on open files to the hard one, and says how many connections that leaves room for.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let sockets = files.saturating_sub(OWN_FILES).min(MOST_CONNECTIONS as u64);
    tracing::info!(files, sockets, "room for this many sockets at once");
    if sockets < 1000 {
        tracing::warn!(sockets, "few sockets: raise the hard limit on open files (LimitNOFILE in the service)");
    }
}

/// Serves `router` until `stop` begins, then takes no new connection. The open ones are tasks of `stop`: they finish the
/// request in flight and end.
pub async fn serve(listener: TcpListener, router: Router, stop: Shutdown) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = stop.begun() => return,
        };
        let Some((stream, client, place)) = accepted else {
            tokio::time::sleep(PAUSE_AFTER_TROUBLE).await;
            continue;
        };
        let (router, until) = (router.clone(), stop.clone());
        stop.spawn(async move {
            converse(stream, client, router, until).await;
            drop(place);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, client)) => Some((stream, client, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            None
        }
    }
}

/// One connection from its first request to its last. A client that breaks off or speaks nonsense is no news.
async fn converse(stream: TcpStream, client: SocketAddr, router: Router, stop: Shutdown) {
    // Small answers at once: Nagle's delay would cost every buyer 40 ms.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(client));
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.begun() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
