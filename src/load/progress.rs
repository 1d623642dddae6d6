//! A progress bar on stderr, for a person at a terminal; nothing at all for a file or a pipe.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::clicks::Clicks;

const WIDTH: usize = 40;

/// Draws until `over`, five times a second; returns at once when stderr is no terminal.
pub async fn show(clicks: Arc<Clicks>, over: CancellationToken) {
    if !io::stderr().is_terminal() {
        return;
    }
    let all = clicks.buyers.len().max(1);
    while !over.is_cancelled() {
        draw(clicks.answered(), all);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
            () = over.cancelled() => {}
        }
    }
    draw(clicks.answered(), all);
    let _ = writeln!(io::stderr());
}

fn draw(done: usize, all: usize) {
    let filled = (done * WIDTH / all).min(WIDTH);
    // A bar that cannot be drawn is nothing to stop for.
    let _ = write!(io::stderr(), "\r[{}{}] {done}/{all}", "#".repeat(filled), ".".repeat(WIDTH - filled));
}
