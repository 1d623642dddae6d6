//! What an entry of the stream says: read strictly, once, at the edge. Everything behind works with domain values.

use serde_json::{Map, Value};

use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::time::Millis;
use crate::redis::StreamId;

/// An admitted order on its way into SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The id that the buyer was told.
    pub order: OrderId,
    /// Who was admitted.
    pub user: UserId,
    /// To what.
    pub voucher: VoucherId,
    /// The sale's epoch that the gate checked.
    pub epoch: Epoch,
    /// When, by Redis' clock.
    pub admitted_at: Millis,
}

/// An entry that says nothing this program understands. It is buried, never guessed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// What is wrong, for people.
    pub reason: String,
    /// The entry as JSON, field names to texts, cut where it is very long.
    pub raw: String,
}

/// One delivery of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Where the entry stands in its stream.
    pub stream_id: StreamId,
    /// How often it was delivered, this time included; at least 1.
    pub deliveries: u64,
    /// What it says.
    pub entry: Result<Entry, Unreadable>,
}

/// The form of entries that this program writes and reads.
const FORM: u32 = 1;
/// The fields of an entry, all of them and no others.
const FIELDS: [&str; 5] = ["id", "userId", "voucherId", "epoch", "admittedAt"];
/// The most bytes of one field, and the most fields, that are kept of an unreadable entry.
const KEPT_BYTES: usize = 1000;
const KEPT_FIELDS: usize = 20;

impl Entry {
    /// Whether the entry says that it has a later form than this program knows: field `v`, a number above 1. Ours have none.
    /// It is left for a later program, which may be running beside this one already: buried it would be lost to it.
    #[must_use]
    pub fn is_newer(fields: &[(Vec<u8>, Vec<u8>)]) -> bool {
        let version = fields.iter().find(|(name, _)| name == b"v").and_then(|(_, value)| std::str::from_utf8(value).ok());
        version.and_then(|text| text.parse::<u32>().ok()).is_some_and(|version| version > FORM)
    }

    /// Reads the fields of an entry: each of the five exactly once, each a decimal number in its range.
    pub fn read(fields: &[(Vec<u8>, Vec<u8>)]) -> Result<Self, Unreadable> {
        Self::try_read(fields).map_err(|reason| Unreadable { reason, raw: raw(fields) })
    }

    fn try_read(fields: &[(Vec<u8>, Vec<u8>)]) -> Result<Self, String> {
        if let Some((name, _)) = fields.iter().find(|(name, _)| !FIELDS.iter().any(|known| known.as_bytes() == name)) {
            return Err(format!("unknown field {:?}", shortened(name)));
        }
        let text = |name: &str| {
            let mut found = fields.iter().filter(|(field, _)| field == name.as_bytes());
            match (found.next(), found.next()) {
                (Some((_, value)), None) => std::str::from_utf8(value).map_err(|_| format!("{name} is not text")),
                (None, _) => Err(format!("{name} is missing")),
                (Some(_), Some(_)) => Err(format!("{name} is there twice")),
            }
        };
        // Epochs and times have the form of an id: whole, above zero, without sign or leading zero.
        let number = |name: &str| {
            let text = text(name)?;
            text.parse::<OrderId>().map(|n| n.0).map_err(|_| format!("{name} is not a number: {:?}", shortened(text.as_bytes())))
        };
        Ok(Self {
            order: OrderId(number("id")?),
            user: text("userId")?.parse::<UserId>().map_err(|_| String::from("userId is not a user's id"))?,
            voucher: text("voucherId")?.parse::<VoucherId>().map_err(|_| String::from("voucherId is not a voucher's id"))?,
            epoch: number("epoch")?,
            admitted_at: Millis(number("admittedAt")?),
        })
    }
}

fn shortened(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(KEPT_BYTES)]).into_owned()
}

fn raw(fields: &[(Vec<u8>, Vec<u8>)]) -> String {
    let kept: Map<String, Value> =
        fields.iter().take(KEPT_FIELDS).map(|(name, value)| (shortened(name), Value::String(shortened(value)))).collect();
    Value::Object(kept).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        pairs.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
    }

    const GOOD: [(&str, &str); 5] =
        [("id", "610467444359694349"), ("userId", "3"), ("voucherId", "10"), ("epoch", "2"), ("admittedAt", "1790000000000")];

    #[test]
    fn an_entry_is_read_into_domain_values() {
        let read = Entry::read(&fields(&GOOD)).unwrap();
        let wanted = Entry {
            order: OrderId(610_467_444_359_694_349),
            user: UserId(3),
            voucher: VoucherId(10),
            epoch: 2,
            admitted_at: Millis(1_790_000_000_000),
        };
        assert_eq!(read, wanted);
    }

    #[test]
    fn anything_but_the_five_fields_each_a_plain_number_is_unreadable() {
        for i in 0..GOOD.len() {
            let mut missing = GOOD.to_vec();
            missing.remove(i);
            assert!(Entry::read(&fields(&missing)).is_err(), "without {}", GOOD[i].0);
            let mut twice = GOOD.to_vec();
            twice.push(GOOD[i]);
            assert!(Entry::read(&fields(&twice)).is_err(), "twice {}", GOOD[i].0);
            for bad in ["", "0", "-1", "+1", "01", "1.0", "1e3", " 1", "１", "x", "99999999999999999999"] {
                let mut wrong = GOOD.to_vec();
                wrong[i].1 = bad;
                assert!(Entry::read(&fields(&wrong)).is_err(), "{} = {bad:?}", GOOD[i].0);
            }
        }
        let mut more = GOOD.to_vec();
        more.push(("note", "x"));
        assert!(Entry::read(&fields(&more)).is_err());
        assert!(Entry::read(&[]).is_err());
    }

    #[test]
    fn what_is_kept_of_an_unreadable_entry_is_bounded_json() {
        let mut long: Vec<_> = (0..100).map(|i| (format!("f{i}").into_bytes(), vec![b'x'; 100_000])).collect();
        long[0].1 = vec![0xff, 0x00, b'"'];
        let unreadable = Entry::read(&long).unwrap_err();
        assert!(unreadable.raw.len() < 25_000);
        assert!(serde_json::from_str::<Value>(&unreadable.raw).unwrap().is_object());
    }
}
