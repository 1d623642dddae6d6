//! Every Redis key and channel, spelled once.
//!
//! No other file writes a key. The braces hold the lane: a Cluster hash tag, so that the keys of one script share a slot.

use crate::domain::ids::{Lane, UserId, VoucherId};
use crate::domain::time::UtcDay;

/// The consumer group of every lane's stream.
pub const GROUP: &str = "g1";

/// The pub/sub channel between instances.
pub const BUS_CHANNEL: &str = "seckill:bus";

/// Units left for a voucher.
#[must_use]
pub fn stock(lane: Lane, voucher: VoucherId) -> String {
    format!("seckill:{{{lane}}}:stock:{voucher}")
}

/// Hash user id → order id: who holds a unit.
#[must_use]
pub fn holders(lane: Lane, voucher: VoucherId) -> String {
    format!("seckill:{{{lane}}}:order:{voucher}")
}

/// Where a large holder set is put together before one script renames it.
#[must_use]
pub fn holders_staging(lane: Lane, voucher: VoucherId) -> String {
    format!("seckill:{{{lane}}}:order:{voucher}:next")
}

/// The sale's hash: state, epoch, claim, run id, window, refusal counters.
#[must_use]
pub fn sale(lane: Lane, voucher: VoucherId) -> String {
    format!("seckill:{{{lane}}}:sale:{voucher}")
}

/// Bit string by user id: who was turned away from a sale.
#[must_use]
pub fn turned_away(lane: Lane, voucher: VoucherId) -> String {
    format!("seckill:{{{lane}}}:away:{voucher}")
}

/// The set of vouchers that were loaded into a lane, so that a re-created stream can close them all.
#[must_use]
pub fn lane_sales(lane: Lane) -> String {
    format!("seckill:{{{lane}}}:sales")
}

/// The lane's stream of admitted orders.
#[must_use]
pub fn stream(lane: Lane) -> String {
    format!("stream.orders:{{{lane}}}")
}

/// Hash order id → how many entries the lane's stream had ever taken with it: "how many before me". One field for each
/// entry of the stream.
#[must_use]
pub fn places(lane: Lane) -> String {
    format!("seckill:{{{lane}}}:places")
}

/// Whose turn it is to audit a lane's sales; saves work, decides nothing.
#[must_use]
pub fn audit_turn(lane: Lane) -> String {
    format!("seckill:{{{lane}}}:audit")
}

/// Sorted set process → when it was last heard of: the worker processes; saves work, decides nothing.
#[must_use]
pub fn workers() -> String {
    format!("seckill:{{{}}}:workers", Lane(0))
}

/// The order sequence of a UTC day.
#[must_use]
pub fn order_sequence(day: UtcDay) -> String {
    format!("icr:order:{}", day.colon_date())
}

/// A session, under the lower-case hex SHA-256 of its token.
#[must_use]
pub fn session(token_hash: &str) -> String {
    format!("login:token:{token_hash}")
}

/// The token hashes of one user's sessions, so that all of them can be ended.
#[must_use]
pub fn user_sessions(user: UserId) -> String {
    format!("login:user:{user}")
}

/// A login code sent to a phone.
#[must_use]
pub fn login_code(phone: &str) -> String {
    format!("login:code:{phone}")
}

/// A captcha's challenge, under its id.
#[must_use]
pub fn captcha(id: &str) -> String {
    format!("captcha:{id}")
}

/// From when on the next order may be saved, when orders a second are capped: one for all lanes and workers.
#[must_use]
pub fn order_pace() -> String {
    String::from("limit:orders")
}

/// The state of one limit's bucket.
#[must_use]
pub fn limit(bucket: &str, who: &str) -> String {
    format!("limit:{bucket}:{who}")
}
