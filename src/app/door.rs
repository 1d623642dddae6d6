//! The time between the first breath and open stores: a Redis that reads its data, a migration, another instance's migration.
//!
//! Part of the composition root. Nothing is served before the stores are open; but whoever watches is told so.

use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;

use super::{Data, StartError, of_opening};
use crate::config::ServeArgs;
use crate::shutdown::Shutdown;
use crate::web::{listener, waiting};

/// Stores that open within this time are not worth a word: a port that is closed for a moment says the same, and whoever waits
/// for the port finds the whole shop behind it.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How long answers that are under way may take when the shop opens.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// Opens the stores, then takes the port. When the stores take long, the port is taken before, and answers that the shop is
/// not ready; it is handed on without a gap.
pub(super) async fn open(args: &ServeArgs) -> Result<(Data, TcpListener), StartError> {
    let mut opening = pin!(Data::open_alone(&args.data));
    if let Ok(opened) = tokio::time::timeout(AT_ONCE, opening.as_mut()).await {
        return Ok((opened.map_err(of_opening)?, bind(args).await?));
    }
    let kept = bind(args).await?;
    let door = same(&kept).context("the port cannot be shared")?;
    tracing::info!(address = %args.listen, "the stores are not open yet; until they are, this port answers 503");
    let closing = Shutdown::default();
    closing.spawn(listener::serve(door, waiting::router(), closing.clone()));
    let opened = opening.await;
    closing.begin();
    let _all_said = closing.finished(CLOSES_WITHIN).await;
    Ok((opened.map_err(of_opening)?, kept))
}

async fn bind(args: &ServeArgs) -> anyhow::Result<TcpListener> {
    TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))
}

/// The same port once more: one queue of connections, which outlives either of the two.
fn same(listener: &TcpListener) -> std::io::Result<TcpListener> {
    use std::os::fd::AsFd;
    let again = listener.as_fd().try_clone_to_owned()?;
    TcpListener::from_std(std::net::TcpListener::from(again))
}
