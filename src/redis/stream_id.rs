//! The id of a stream entry, `MS-SEQ`, compared as Redis compares it.

use std::fmt;
use std::str::FromStr;

/// Where an entry stands in its stream. Ordered by time, then by sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId {
    /// Milliseconds of the server's clock when it was added.
    pub ms: u64,
    /// Its number within that millisecond.
    pub seq: u64,
}

/// Why a text is not a stream id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stream id is two whole numbers with a hyphen between them")]
pub struct BadStreamId;

impl StreamId {
    /// Before every entry.
    pub const ZERO: Self = Self { ms: 0, seq: 0 };

    /// The next id that could be given out.
    #[must_use]
    pub fn next(self) -> Self {
        match self.seq.checked_add(1) {
            Some(seq) => Self { seq, ..self },
            None => Self { ms: self.ms.saturating_add(1), seq: 0 },
        }
    }
}

impl FromStr for StreamId {
    type Err = BadStreamId;
    fn from_str(text: &str) -> Result<Self, BadStreamId> {
        let number = |part: &str| {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(BadStreamId);
            }
            part.parse().map_err(|_| BadStreamId)
        };
        let (ms, seq) = text.split_once('-').ok_or(BadStreamId)?;
        Ok(Self { ms: number(ms)?, seq: number(seq)? })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_id_is_read_strictly_and_written_back() {
        for text in ["0-0", "1790000000000-0", "18446744073709551615-18446744073709551615"] {
            assert_eq!(text.parse::<StreamId>().unwrap().to_string(), text);
        }
        for bad in ["", "1", "-", "1-", "-1", "1-2-3", "+1-0", " 1-0", "1-0 ", "a-0", "18446744073709551616-0", "１-0"] {
            assert_eq!(bad.parse::<StreamId>(), Err(BadStreamId), "{bad:?}");
        }
    }

    #[test]
    fn a_later_millisecond_is_after_every_sequence_of_an_earlier_one() {
        let id = |text: &str| text.parse::<StreamId>().unwrap();
        assert!(id("2-0") > id("1-18446744073709551615"));
        assert!(id("10-0") > id("9-0"));
        assert!(id("5-10") > id("5-9"));
        assert_eq!(id("5-9").next(), id("5-10"));
        assert_eq!(id("5-18446744073709551615").next(), id("6-0"));
        assert!(StreamId::ZERO < id("0-1"));
    }
}
