//! Identifiers. Numbers inside, decimal strings where a browser could round them.
//!
//! No other file turns an integer into an id of another kind.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::time::{Millis, UtcDay};

/// The largest id that a JSON number carries without loss (2^53 − 1). User, shop and voucher ids stay below it.
pub const MAX_JSON_ID: i64 = (1 << 53) - 1;

/// Why a string is not an id: it must match `[1-9][0-9]{0,18}` and fit the kind's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is a decimal number without sign, space or leading zero")]
pub struct BadId;

/// Reads `[1-9][0-9]{0,18}` into an i64; ASCII digits only, no sign, no space, no overflow.
fn parse_decimal(text: &str, max: i64) -> Result<i64, BadId> {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > 19 || bytes[0] == b'0' || !bytes.iter().all(u8::is_ascii_digit) {
        return Err(BadId);
    }
    let value: i64 = text.parse().map_err(|_| BadId)?;
    if value > max { Err(BadId) } else { Ok(value) }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                parse_decimal(text, MAX_JSON_ID).map(Self)
            }
        }
    };
}

number_id! {
    /// A person with an account. From 1, below 2^53.
    UserId
}
number_id! {
    /// A shop. From 1, below 2^53.
    ShopId
}
number_id! {
    /// A voucher: the product, on sale in a flash sale or listed as an everyday one. From 1, below 2^53.
    VoucherId
}

/// An order: `(seconds since 2022-01-01T00:00:00Z << 32) | sequence of the UTC day`.
///
/// An i64 here and in SQL; a decimal string in JSON, HTML and Lua, because both JavaScript and Lua would round it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub i64);

/// 2022-01-01T00:00:00Z in seconds since 1970; the era that hmdp's ids count from.
const ERA_SECONDS: i64 = 1_640_995_200;

impl OrderId {
    /// Builds the id of an order born at `now` with `sequence`, the number taken from that day's counter.
    ///
    /// Unique as long as a sequence is used once for each UTC day. `now` before 2022 counts as 2022.
    #[must_use]
    pub fn new(now: Millis, sequence: u32) -> Self {
        let seconds = (now.0.div_euclid(1000) - ERA_SECONDS).clamp(0, i64::from(i32::MAX));
        Self((seconds << 32) | i64::from(sequence))
    }

    /// The moment of birth that the id carries, in whole seconds.
    #[must_use]
    pub fn born_at(self) -> Millis {
        Millis(((self.0 >> 32) + ERA_SECONDS) * 1000)
    }

    /// The sequence of the day, the low 32 bits.
    #[must_use]
    pub fn sequence(self) -> u32 {
        u32::try_from(self.0 & 0xffff_ffff).unwrap_or(u32::MAX)
    }

    /// The UTC day whose counter the sequence was taken from.
    #[must_use]
    pub fn day(self) -> UtcDay {
        self.born_at().utc_day()
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for OrderId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        parse_decimal(text, i64::MAX).map(Self)
    }
}

impl Serialize for OrderId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OrderId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Owned: a borrowed &str fails on escaped or already parsed input.
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Fencing number of a sale: grows with every rebuild; 0 means that the sale was never loaded into the gate.
pub type Epoch = i64;

/// Which stream and hash tag a voucher belongs to: voucher id modulo the number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

impl Lane {
    /// The lane of `voucher` among `lanes` (at least 1).
    #[must_use]
    pub fn of(voucher: VoucherId, lanes: u16) -> Self {
        Self(u16::try_from(voucher.0.rem_euclid(i64::from(lanes.max(1)))).unwrap_or(0))
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_a_path_is_strict() {
        assert_eq!("10".parse(), Ok(VoucherId(10)));
        assert_eq!("9223372036854775807".parse(), Ok(OrderId(i64::MAX)));
        for bad in ["", "0", "01", "+1", "-1", " 1", "1 ", "１", "1e3", "9223372036854775808", "12345678901234567890"] {
            assert_eq!(bad.parse::<OrderId>(), Err(BadId), "{bad:?}");
        }
        assert_eq!("9007199254740992".parse::<UserId>(), Err(BadId));
    }

    #[test]
    fn an_order_id_keeps_its_second_and_sequence_and_travels_as_a_string() {
        let id = OrderId::new(Millis(1_782_000_000_999), 4_294_967_295);
        assert_eq!(id.born_at(), Millis(1_782_000_000_000));
        assert_eq!(id.sequence(), u32::MAX);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{}\"", id.0));
        assert_eq!(serde_json::from_str::<OrderId>(&json).unwrap(), id);
    }
}
