//! The clicks: every buyer presses once, over a fixed number of connections, as fast as the answers come or at a set rate.
//!
//! A click whose outcome is unknown is pressed again, as a person would: the shop promises that this never buys twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{Answer, Client};
use super::histogram::Histogram;
use super::target::Target;
use super::tokens::Buyer;
use crate::domain::ids::{OrderId, VoucherId};

/// Presses of one buyer whose outcome stays unknown, before he is given up.
const MAX_PRESSES: u32 = 5;

/// What all connections share.
#[derive(Debug)]
pub struct Clicks {
    /// Where the shop is.
    pub target: Target,
    /// What is bought.
    pub voucher: VoucherId,
    /// Who clicks, once each, in this order.
    pub buyers: Vec<Buyer>,
    /// Clicks a second that are begun; none: as fast as answers come.
    pub rate: Option<u32>,
    /// The first click.
    pub start: Instant,
    /// Microseconds from `start` to each buyer's click; 0: not yet.
    clicked: Vec<AtomicU64>,
    next: AtomicUsize,
    answered: AtomicUsize,
    newest: watch::Sender<Option<Accepted>>,
}

impl Clicks {
    /// The clicks of `buyers`, none of them begun; the first is due at `start`.
    #[must_use]
    pub fn new(target: Target, voucher: VoucherId, buyers: Vec<Buyer>, rate: Option<u32>, start: Instant) -> Self {
        let clicked = buyers.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            target,
            voucher,
            buyers,
            rate,
            start,
            clicked,
            next: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            newest: watch::Sender::new(None),
        }
    }

    /// Buyers who have their answer, or were given up.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// The order that was accepted last.
    #[must_use]
    pub fn newest(&self) -> Option<Accepted> {
        self.newest.borrow().clone()
    }

    /// How long ago this buyer clicked; none when he has not.
    #[must_use]
    pub fn since_click(&self, buyer: usize) -> Option<Duration> {
        match self.clicked[buyer].load(Ordering::Acquire) {
            0 => None,
            micros => self.start.elapsed().checked_sub(Duration::from_micros(micros)),
        }
    }

    /// Takes the next buyer, waits until his click is due and notes when it was.
    async fn take(&self) -> Option<(usize, Instant)> {
        let buyer = self.next.fetch_add(1, Ordering::Relaxed);
        if buyer >= self.buyers.len() {
            return None;
        }
        let mut due = Instant::now().max(self.start);
        if let Some(rate) = self.rate {
            // Measured from when it was due, not from when a connection was free: a stalled shop must not hide its stall.
            due = self.start + Duration::from_nanos(1_000_000_000 / u64::from(rate.max(1)) * buyer as u64);
        }
        tokio::time::sleep_until(due).await;
        let micros = u64::try_from((due - self.start).as_micros()).unwrap_or(u64::MAX).max(1);
        self.clicked[buyer].store(micros, Ordering::Release);
        Some((buyer, due))
    }
}

/// An order id that a buyer was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Whose, as an index of the buyers.
    pub buyer: usize,
    /// The id.
    pub order: OrderId,
    /// Opens the order without a session.
    pub ticket: Option<String>,
}

/// What one connection, or all of them, heard.
#[derive(Debug, Default)]
pub struct Tally {
    /// Click to decision.
    pub latency: Histogram,
    /// Ids that were given.
    pub accepted: Vec<Accepted>,
    /// Decisions by their code, `OK` among them.
    pub decisions: BTreeMap<String, u64>,
    /// Clicks without a decision, by code, status or cause.
    pub undecided: BTreeMap<String, u64>,
    /// When the last decision came, from the first click.
    pub last_decision: Duration,
}

impl Tally {
    /// Adds what another connection heard.
    pub fn merge(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.accepted.extend(other.accepted);
        for (mine, theirs) in [(&mut self.decisions, other.decisions), (&mut self.undecided, other.undecided)] {
            for (code, n) in theirs {
                *mine.entry(code).or_default() += n;
            }
        }
        self.last_decision = self.last_decision.max(other.last_decision);
    }
}

/// The answer to one press.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// In: this order is queued.
    Yours { order: OrderId, ticket: Option<String> },
    /// This buyer had it already.
    Held { order: OrderId, ticket: Option<String> },
    /// A definite no.
    Refused(String),
    /// Nothing was taken and nothing was decided; the shop asks to come back later.
    NoDecision(String),
    /// Nobody can tell; press again.
    Unknown(String),
}

#[derive(Deserialize)]
struct Envelope {
    success: bool,
    data: Option<serde_json::Value>,
    code: Option<String>,
    ticket: Option<String>,
}

fn read_answer(answer: &Answer) -> Heard {
    let Ok(envelope) = serde_json::from_slice::<Envelope>(&answer.body) else {
        return Heard::NoDecision(format!("HTTP {}", answer.status));
    };
    let order = envelope.data.as_ref().and_then(|data| data.as_str()?.parse().ok());
    match (envelope.success, order, envelope.code) {
        (true, Some(order), _) => Heard::Yours { order, ticket: envelope.ticket },
        (false, Some(order), Some(code)) if code == "DUPLICATE" => Heard::Held { order, ticket: envelope.ticket },
        (false, _, Some(code)) if code == "UNCERTAIN" => Heard::Unknown(code),
        (false, _, Some(code)) if answer.status == 200 && code != "CAPTCHA_REQUIRED" => Heard::Refused(code),
        (_, _, code) => Heard::NoDecision(code.unwrap_or_else(|| format!("HTTP {}", answer.status))),
    }
}

/// Clicks for one buyer after the other over one connection, until none is left.
pub async fn press_for_all(clicks: &Clicks, mut client: Client) -> Tally {
    let mut tally = Tally::default();
    let mut request = Vec::with_capacity(512);
    while let Some((buyer, due)) = clicks.take().await {
        write_request(&mut request, clicks, buyer);
        press(clicks, &mut client, &request, (buyer, due), &mut tally).await;
        clicks.answered.fetch_add(1, Ordering::Relaxed);
    }
    tally
}

fn write_request(request: &mut Vec<u8>, clicks: &Clicks, buyer: usize) {
    request.clear();
    for part in [
        "POST /api/voucher-order/seckill/",
        &clicks.voucher.to_string(),
        " HTTP/1.1\r\nhost: ",
        &clicks.target.authority,
        "\r\nauthorization: ",
        &clicks.buyers[buyer].token,
        "\r\ncontent-length: 0\r\n\r\n",
    ] {
        request.extend_from_slice(part.as_bytes());
    }
}

async fn press(clicks: &Clicks, client: &mut Client, request: &[u8], (buyer, due): (usize, Instant), tally: &mut Tally) {
    for presses in 1..=MAX_PRESSES {
        let heard = match client.ask(request).await {
            Ok(answer) => read_answer(&answer),
            Err(error) => Heard::Unknown(error.to_string()),
        };
        let (code, accepted) = match heard {
            Heard::Yours { order, ticket } => ("OK".to_owned(), Some((order, ticket))),
            // Held after an unknown press: that press was the one that got in.
            Heard::Held { order, ticket } if presses > 1 => ("OK".to_owned(), Some((order, ticket))),
            Heard::Held { .. } => ("DUPLICATE".to_owned(), None),
            Heard::Refused(code) => (code, None),
            Heard::NoDecision(code) => {
                *tally.undecided.entry(code).or_default() += 1;
                return;
            }
            Heard::Unknown(code) if presses == MAX_PRESSES => {
                *tally.undecided.entry(code).or_default() += 1;
                return;
            }
            Heard::Unknown(_) => {
                tokio::time::sleep(Duration::from_millis(rand::random_range(20..50) << presses)).await;
                continue;
            }
        };
        let now = Instant::now();
        tally.latency.record(now - due);
        tally.last_decision = now - clicks.start;
        *tally.decisions.entry(code).or_default() += 1;
        if let Some((order, ticket)) = accepted {
            let accepted = Accepted { buyer, order, ticket };
            clicks.newest.send_replace(Some(accepted.clone()));
            tally.accepted.push(accepted);
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(status: u16, body: &str) -> Heard {
        read_answer(&Answer { status, retry_after: None, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn every_kind_of_answer_is_told_apart() {
        let order = OrderId(610_467_444_359_694_349);
        let yes = r#"{"success":true,"data":"610467444359694349","ticket":"t"}"#;
        assert_eq!(heard(200, yes), Heard::Yours { order, ticket: Some("t".into()) });
        let held = r#"{"success":false,"errorMsg":"x","code":"DUPLICATE","data":"610467444359694349"}"#;
        assert_eq!(heard(200, held), Heard::Held { order, ticket: None });
        assert_eq!(heard(200, r#"{"success":false,"code":"SOLD_OUT"}"#), Heard::Refused("SOLD_OUT".into()));
        let early = r#"{"success":false,"code":"NOT_BEGUN","data":{"beginTime":"x"}}"#;
        assert_eq!(heard(200, early), Heard::Refused("NOT_BEGUN".into()));
        assert_eq!(heard(503, r#"{"success":false,"code":"UNCERTAIN"}"#), Heard::Unknown("UNCERTAIN".into()));
        assert_eq!(heard(503, r#"{"success":false,"code":"BUSY"}"#), Heard::NoDecision("BUSY".into()));
        assert_eq!(heard(401, r#"{"success":false,"code":"LOGIN_REQUIRED"}"#), Heard::NoDecision("LOGIN_REQUIRED".into()));
        assert_eq!(heard(502, "<html>"), Heard::NoDecision("HTTP 502".into()));
    }
}
