//! When did the last accepted order reach its row, and did every one of them?
//!
//! Orders are saved in the order of the stream, so one connection asks for the newest again and again, and each of the
//! others is asked for at the end: the question must not be a load of its own.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clicks::{Accepted, Clicks};
use super::client::Client;
use crate::shutdown::Shutdown;

/// Connections that look every order up at the end.
const LOOKERS: usize = 16;

/// What became of the accepted orders.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Orders with a row that counts.
    pub placed: u64,
    /// Orders that ended FAILED: told plainly, but not sold.
    pub failed: u64,
    /// Orders that were still queued, or could not be asked for, when the time was up.
    pub open: u64,
    /// When the last one was first seen decided, from the first click.
    pub last: Duration,
}

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Waiting,
    Saved,
    Failed,
}

/// Follows the newest order while the clicks go on, until `over` and the last one has its row, or 30 s after `over`.
/// Answers when an order was last seen getting its row, from the first click.
pub async fn follow_newest(clicks: Arc<Clicks>, over: CancellationToken) -> Duration {
    let mut client = Client::new(clicks.target.clone());
    let (mut seen, mut last, mut give_up) = (None, Duration::ZERO, None);
    loop {
        // Read before the newest is: after the last answer there is no newer one.
        let is_over = over.is_cancelled();
        let newest = clicks.newest().filter(|one| seen != Some(one.order));
        if is_over {
            let at = *give_up.get_or_insert_with(|| Instant::now() + Duration::from_secs(30));
            if newest.is_none() || Instant::now() > at {
                return last;
            }
        }
        if let Some(one) = newest
            && ask(&mut client, &write_request(&clicks, &one)).await != Fate::Waiting
        {
            (seen, last) = (Some(one.order), clicks.start.elapsed());
        }
        // Fifty questions a second at most: nothing worth counting beside the clicks.
        tokio::time::sleep(Duration::from_micros(rand::random_range(10_000..20_000))).await;
    }
}

/// Looks every accepted order up, and waits for those that have no row yet: 30 s and 5 ms for each order at most. `last` is
/// what [`follow_newest`] saw.
pub async fn look_up_all(shutdown: &Shutdown, clicks: &Arc<Clicks>, accepted: &[Accepted], last: Duration) -> Saved {
    let limit = Duration::from_secs(30) + Duration::from_millis(5) * u32::try_from(accepted.len()).unwrap_or(u32::MAX);
    let give_up = Instant::now() + limit;
    let lookers: Vec<_> = accepted
        .chunks(accepted.len().div_ceil(LOOKERS).max(1))
        .map(|share| {
            let (clicks, share) = (clicks.clone(), share.to_vec());
            shutdown.spawn(async move {
                let (mut found, mut client) = (Saved::default(), Client::new(clicks.target.clone()));
                for one in &share {
                    look_up(&clicks, &mut client, one, give_up, &mut found).await;
                }
                found
            })
        })
        .collect();
    let mut all = Saved { last, ..Saved::default() };
    for looker in lookers {
        if let Ok(found) = looker.await {
            all.placed += found.placed;
            all.failed += found.failed;
            all.open += found.open;
            all.last = all.last.max(found.last);
        }
    }
    all
}

/// Asks for one order until it is decided. It moves "last" only when it had to be waited for: whatever is decided at the
/// first look was so before the newest was.
async fn look_up(clicks: &Clicks, client: &mut Client, one: &Accepted, give_up: Instant, found: &mut Saved) {
    let request = write_request(clicks, one);
    let mut waited = false;
    loop {
        let fate = ask(client, &request).await;
        if fate == Fate::Waiting && Instant::now() < give_up {
            waited = true;
            tokio::time::sleep(Duration::from_micros(rand::random_range(20_000..60_000))).await;
            continue;
        }
        match fate {
            Fate::Saved => found.placed += 1,
            Fate::Failed => found.failed += 1,
            Fate::Waiting => found.open += 1,
        }
        if waited && fate != Fate::Waiting {
            found.last = clicks.start.elapsed();
        }
        return;
    }
}

fn write_request(clicks: &Clicks, one: &Accepted) -> Vec<u8> {
    let host = &clicks.target.authority;
    // A ticket is in base64url: it needs no escaping, and no session is read for it.
    let text = if let Some(ticket) = &one.ticket {
        format!("GET /api/voucher-order/{}?ticket={ticket} HTTP/1.1\r\nhost: {host}\r\n\r\n", one.order)
    } else {
        let token = &clicks.buyers[one.buyer].token;
        format!("GET /api/voucher-order/{} HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n\r\n", one.order)
    };
    text.into_bytes()
}

#[derive(Deserialize)]
struct Envelope {
    data: Option<OrderStatus>,
}

#[derive(Deserialize)]
struct OrderStatus {
    status: String,
}

async fn ask(client: &mut Client, request: &[u8]) -> Fate {
    match client.ask(request).await {
        Ok(answer) if answer.status == 200 => read_fate(&answer.body),
        _ => Fate::Waiting,
    }
}

fn read_fate(body: &[u8]) -> Fate {
    match serde_json::from_slice::<Envelope>(body).ok().and_then(|e| e.data) {
        Some(order) if order.status == "FAILED" => Fate::Failed,
        Some(order) if order.status != "QUEUED" => Fate::Saved,
        _ => Fate::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_row_counts_as_saved() {
        assert_eq!(read_fate(br#"{"success":true,"data":{"id":"1","status":"QUEUED","ahead":3}}"#), Fate::Waiting);
        assert_eq!(read_fate(br#"{"success":true,"data":{"id":"1","status":"PENDING"}}"#), Fate::Saved);
        assert_eq!(read_fate(br#"{"success":true,"data":{"id":"1","status":"FAILED"}}"#), Fate::Failed);
        assert_eq!(read_fate(b"<html>"), Fate::Waiting);
    }
}
