//! The gate: who may come in. Wraps the scripts of `lua/`; every answer becomes a domain value here.
//!
//! Nothing is decided here and nothing is retried but a script that the server does not know. SQL is not visible.

pub mod batcher;
mod figures;
mod load;
mod look;
pub mod order_ids;
mod pages;
#[cfg(feature = "fault-injection")]
mod reload;
mod tally;
#[cfg(feature = "fault-injection")]
mod two_round_trips;

pub use batcher::{AdmitError, Batcher};
pub use figures::{GateFigures, TurnedAway};
pub use load::Load;
pub use look::{GateSnapshot, SaleHash};
pub use order_ids::{BlockRegistry, IdSource, Registered};
pub use pages::HoldersPage;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::domain::admission::Admission;
use crate::domain::ids::{Epoch, Lane, OrderId, UserId, VoucherId};
use crate::fault::fail_point;
use crate::keys;
use crate::redis::scripts::{ADMIT, CLOSE, OPEN, PAUSE, RELEASE};
use crate::redis::{Redis, StreamId};
use tally::Tally;

/// The most buyers that one call admits.
pub const MAX_BATCH: usize = 256;

/// Why the gate gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GateError {
    /// Nothing was sent, or the server refused to begin: nothing happened.
    #[error("the gate cannot be asked: {0}")]
    Unavailable(String),
    /// Sent, and no answer came: it may have happened, or happen yet.
    #[error("the gate gave no answer: {0}")]
    Uncertain(String),
    /// An answer, or a script's error, that this program does not understand: it may have happened.
    #[error("the gate's answer makes no sense: {0}")]
    BadReply(String),
}

impl From<redis::RedisError> for GateError {
    fn from(e: redis::RedisError) -> Self {
        use redis::{ErrorKind, ServerErrorKind as S};
        // Errors that the server raises before it runs anything. A full disk or memory is not among them: a script finds
        // out in the middle.
        let before = e.is_connection_refusal()
            || matches!(e.code(), Some("BUSY" | "NOAUTH"))
            || matches!(
                e.kind(),
                ErrorKind::AuthenticationFailed
                    | ErrorKind::InvalidClientConfig
                    | ErrorKind::Server(
                        S::BusyLoading
                            | S::NoScript
                            | S::Moved
                            | S::Ask
                            | S::TryAgain
                            | S::ClusterDown
                            | S::MasterDown
                            | S::ReadOnly
                    )
            );
        if before {
            Self::Unavailable(e.to_string())
        } else if e.is_io_error() || matches!(e.code(), Some("MISCONF" | "OOM")) {
            Self::Uncertain(e.to_string())
        } else {
            Self::BadReply(e.to_string())
        }
    }
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The unit is back, or that order held none any more.
    Done,
    /// The gate does not fit SQL now; ask again later.
    NotReady,
}

/// What became of a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// Shut for this claim.
    Closed {
        /// The stream's last id: every entry up to it has to be settled before the load. Zero without a stream.
        last_id: StreamId,
    },
    /// A later rebuild is under way.
    Refused,
}

/// The gate of all sales; cheap to clone.
#[derive(Clone)]
pub struct Gate {
    redis: Redis,
    lanes: u16,
    /// How many replicas must have an admission before it is answered, and how long that may take; none: nobody waits.
    replicas: Option<(u16, Duration)>,
    tally: Arc<Tally>,
}

impl Gate {
    /// The gate on `redis`, its vouchers spread over `lanes` (at least 1).
    #[must_use]
    pub fn new(redis: Redis, lanes: u16) -> Self {
        Self { redis, lanes, replicas: None, tally: Arc::default() }
    }

    /// The same gate, which answers an admission only once `replicas` of its server have it; 0: at once. When they do not
    /// within that time, the admission stands and [`GateError::Uncertain`] is told: a "yes" might not outlive a failover.
    #[must_use]
    pub fn with_replicas(mut self, replicas: u16, within: Duration) -> Self {
        self.replicas = (replicas > 0).then_some((replicas, within));
        self
    }

    fn lane(&self, voucher: VoucherId) -> Lane {
        Lane::of(voucher, self.lanes)
    }

    /// Asks for a batch of buyers of one voucher, at most [`MAX_BATCH`]: one verdict each, in their order. `backlog` is the
    /// number of waiting entries from which nobody else comes in.
    pub async fn admit(
        &self,
        voucher: VoucherId,
        epoch: Epoch,
        backlog: i64,
        buyers: &[(UserId, OrderId)],
    ) -> Result<Vec<Admission>, GateError> {
        if buyers.len() > MAX_BATCH {
            return Err(GateError::Unavailable(format!("{} buyers in one call", buyers.len())));
        }
        if buyers.is_empty() || epoch < 1 {
            // Epoch 0: never loaded. Asking would only be told so.
            return Ok(vec![Admission::NotReady(None); buyers.len()]);
        }
        #[cfg(feature = "fault-injection")]
        if crate::fault::mutant("two-round-trips") {
            return self.admit_in_two_round_trips(voucher, epoch, buyers).await;
        }
        let lane = self.lane(voucher);
        let keys = [
            keys::sale(lane, voucher),
            keys::stock(lane, voucher),
            keys::holders(lane, voucher),
            keys::stream(lane),
            keys::places(lane),
        ];
        fail_point("before-script");
        let arguments = |call: &mut redis::Cmd| {
            call.arg(epoch).arg(backlog.max(1)).arg(voucher.0);
            for (user, order) in buyers {
                call.arg(user.0).arg(order.0);
            }
        };
        let (reply, missing): (Vec<Value>, bool) = match self.replicas {
            None => (ADMIT.call(&mut self.redis.shared(), &keys, arguments).await?, false),
            Some(wait) => {
                let (reply, counted) = ADMIT.call_and_wait(&self.redis, &keys, arguments, wait).await?;
                (reply, counted < i64::from(wait.0))
            }
        };
        fail_point("after-script");
        let verdicts = read_admissions(voucher, &reply, buyers);
        let verdicts = verdicts.ok_or_else(|| GateError::BadReply(format!("admit: {reply:?}")))?;
        // "Yours" is what must outlive the server; a refusal promises nothing.
        let promises = |one: &Admission| matches!(one, Admission::Admitted { .. } | Admission::Duplicate(_));
        if missing && verdicts.iter().any(promises) {
            return Err(GateError::Uncertain(String::from("too few replicas have the admission yet")));
        }
        self.tally.add(voucher, buyers, &verdicts);
        Ok(verdicts)
    }

    /// Gives back the unit that `order` of `user` holds, if it still does.
    pub async fn release(&self, voucher: VoucherId, epoch: Epoch, user: UserId, order: OrderId) -> Result<Release, GateError> {
        let lane = self.lane(voucher);
        let keys = [keys::sale(lane, voucher), keys::stock(lane, voucher), keys::holders(lane, voucher)];
        #[cfg(feature = "fault-injection")]
        if crate::fault::mutant("bare-incr") {
            let (mut at_once, [_, stock, holders]) = (redis::pipe(), &keys);
            at_once.atomic().cmd("HDEL").arg(holders).arg(user.0).ignore().cmd("INCR").arg(stock).ignore();
            let _: () = at_once.query_async(&mut self.redis.shared()).await?;
            return Ok(Release::Done);
        }
        let reply: String = RELEASE
            .call(&mut self.redis.shared(), &keys, |call| {
                call.arg(epoch).arg(user.0).arg(order.0);
            })
            .await?;
        match reply.as_str() {
            "DONE" => Ok(Release::Done),
            "NOT_READY" => Ok(Release::NotReady),
            _ => Err(GateError::BadReply(reply)),
        }
    }

    /// Shuts the sale for the rebuild that burnt `claim`.
    pub async fn close(&self, voucher: VoucherId, claim: Epoch) -> Result<Close, GateError> {
        let lane = self.lane(voucher);
        let keys = [keys::sale(lane, voucher), keys::stream(lane)];
        let (word, detail): (String, String) = CLOSE
            .call(&mut self.redis.shared(), &keys, |call| {
                call.arg(claim);
            })
            .await?;
        match (word.as_str(), detail.parse()) {
            ("CLOSED", Ok(last_id)) => Ok(Close::Closed { last_id }),
            ("REFUSED", _) => Ok(Close::Refused),
            _ => Err(GateError::BadReply(format!("{word} {detail}"))),
        }
    }

    /// Opens the sale after the rebuild's commit; false when somebody else is rebuilding it by now.
    pub async fn open(&self, voucher: VoucherId, claim: Epoch) -> Result<bool, GateError> {
        let keys = [keys::sale(self.lane(voucher), voucher)];
        let reply: String = OPEN
            .call(&mut self.redis.shared(), &keys, |call| {
                call.arg(claim);
            })
            .await?;
        yes_or_no(&reply, "OPEN", "REFUSED")
    }

    /// Copies "paused" into the gate; false when the gate is of another epoch (its load copies it anyway).
    pub async fn set_paused(&self, voucher: VoucherId, epoch: Epoch, paused: bool) -> Result<bool, GateError> {
        let keys = [keys::sale(self.lane(voucher), voucher)];
        let reply: String = PAUSE
            .call(&mut self.redis.shared(), &keys, |call| {
                call.arg(epoch).arg(i64::from(paused));
            })
            .await?;
        yes_or_no(&reply, "SET", "STALE")
    }
}

fn yes_or_no(reply: &str, yes: &str, no: &str) -> Result<bool, GateError> {
    match reply {
        _ if reply == yes => Ok(true),
        _ if reply == no => Ok(false),
        _ => Err(GateError::BadReply(reply.to_owned())),
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn read_admissions(voucher: VoucherId, reply: &[Value], buyers: &[(UserId, OrderId)]) -> Option<Vec<Admission>> {
    match text(reply.first()?)? {
        "NOT_READY" => {
            let epoch = text(reply.get(1)?)?;
            tracing::debug!(%voucher, hash_epoch = epoch, misfit = text(reply.get(2)?)?, "the gate is not ready");
            Some(vec![Admission::NotReady(epoch.parse().ok()); buyers.len()])
        }
        "READY" => {
            let Value::Int(mut position) = *reply.get(1)? else { return None };
            let trouble = text(reply.get(2)?)?;
            if !trouble.is_empty() {
                tracing::error!(%voucher, trouble, "the server refuses to write an entry");
            }
            let answers = &reply[3..];
            if answers.len() != buyers.len() {
                return None;
            }
            let one = |(answer, (_, order)): (&Value, &(UserId, OrderId))| {
                Some(match text(answer)? {
                    "OK" => {
                        position += 1;
                        Admission::Admitted { order: *order, position }
                    }
                    "PAUSED" => Admission::Paused,
                    "NOT_BEGUN" => Admission::NotBegun,
                    "ENDED" => Admission::Ended,
                    "SOLD_OUT" => Admission::SoldOut,
                    "BUSY" => Admission::BacklogFull,
                    held => Admission::Duplicate(held.parse().ok()?),
                })
            };
            answers.iter().zip(buyers).map(one).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_batch_are_read_in_order_and_nothing_is_guessed() {
        let word = |w: &str| Value::BulkString(w.as_bytes().to_vec());
        let buyers = [(UserId(1), OrderId(11)), (UserId(2), OrderId(12)), (UserId(3), OrderId(13))];
        let reply = [word("READY"), Value::Int(40), word(""), word("OK"), word("9000000000000000001"), word("OK")];
        let read = read_admissions(VoucherId(1), &reply, &buyers).unwrap();
        assert_eq!(read[0], Admission::Admitted { order: OrderId(11), position: 41 });
        assert_eq!(read[1], Admission::Duplicate(OrderId(9_000_000_000_000_000_001)));
        assert_eq!(read[2], Admission::Admitted { order: OrderId(13), position: 42 });
        for bad in ["", "0", "01", "ok", "OK "] {
            let reply = [word("READY"), Value::Int(0), word(""), word("OK"), word(bad), word("OK")];
            assert_eq!(read_admissions(VoucherId(1), &reply, &buyers), None, "{bad:?}");
        }
        assert_eq!(read_admissions(VoucherId(1), &reply[..5], &buyers), None);
        let not_ready = [word("NOT_READY"), word("7"), word("run_id")];
        assert_eq!(read_admissions(VoucherId(1), &not_ready, &buyers), Some(vec![Admission::NotReady(Some(7)); 3]));
    }
}
