//! Instants as whole milliseconds, and their two written forms: RFC 3339 for programs, local wall time for forms.
//!
//! Reading the clock is `clock.rs`'s business alone.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

impl Millis {
    /// How long from `self` until `later`; zero when that is past.
    #[must_use]
    pub fn until(self, later: Millis) -> Duration {
        Duration::from_millis(u64::try_from(later.0 - self.0).unwrap_or(0))
    }

    /// RFC 3339 in UTC with milliseconds and `Z`, the form of every instant in the API.
    #[must_use]
    pub fn rfc3339(self) -> String {
        match Timestamp::from_millisecond(self.0) {
            Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
            Err(_) => String::from("9999-12-31T23:59:59.999Z"),
        }
    }

    /// The UTC calendar day.
    #[must_use]
    pub fn utc_day(self) -> UtcDay {
        UtcDay(i32::try_from(self.0.div_euclid(86_400_000)).unwrap_or(i32::MAX))
    }

    /// The wall time in `zone`, for pages. Instants out of range come back as the epoch.
    #[must_use]
    pub fn in_zone(self, zone: &TimeZone) -> DateTime {
        zone.to_datetime(Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}

impl Add<Duration> for Millis {
    type Output = Millis;
    fn add(self, by: Duration) -> Millis {
        Millis(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Millis {
    type Output = Millis;
    fn sub(self, by: Duration) -> Millis {
        Millis(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Days since 1970-01-01 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcDay(pub i32);

impl UtcDay {
    /// `YYYY:MM:DD`, as the counter's key writes it.
    #[must_use]
    pub fn colon_date(self) -> String {
        let at = Timestamp::from_second(i64::from(self.0) * 86_400).unwrap_or(Timestamp::UNIX_EPOCH);
        at.strftime("%Y:%m:%d").to_string()
    }
}

/// Why a text is not an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a time is RFC 3339, with an offset or without one")]
pub struct BadTime;

/// Reads RFC 3339 with an offset, or without one (then as wall time in `zone`; seconds may be missing, as
/// `datetime-local` sends it). A wall time that a zone change skips or repeats takes the earlier offset's reading.
///
/// # Errors
/// [`BadTime`] for anything else, and for years outside 1970–9998.
pub fn parse_instant(text: &str, zone: &TimeZone) -> Result<Millis, BadTime> {
    let well_shaped = text.len() >= 16 && text.is_ascii() && text.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    if !well_shaped || !matches!(text.as_bytes()[10], b'T' | b't') {
        return Err(BadTime);
    }
    let has_offset = text.ends_with(['Z', 'z']) || text[16..].contains(['+', '-']);
    let at = if has_offset {
        text.parse::<Timestamp>().map_err(|_| BadTime)?
    } else {
        let wall: DateTime = text.parse().map_err(|_| BadTime)?;
        zone.to_timestamp(wall).map_err(|_| BadTime)?
    };
    let millis = at.as_millisecond();
    if (0..253_370_764_800_000).contains(&millis) { Ok(Millis(millis)) } else { Err(BadTime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shanghai() -> TimeZone {
        TimeZone::get("Asia/Shanghai").unwrap()
    }

    #[test]
    fn a_time_without_offset_is_read_in_the_given_zone_and_printed_in_utc() {
        let at = parse_instant("2026-07-04T10:00:00", &shanghai()).unwrap();
        assert_eq!(at.rfc3339(), "2026-07-04T02:00:00.000Z");
        assert_eq!(parse_instant("2026-07-04T10:00", &shanghai()), Ok(at));
        assert_eq!(parse_instant("2026-07-04T02:00:00Z", &shanghai()), Ok(at));
        assert_eq!(parse_instant("2026-07-04T10:00:00.000+08:00", &shanghai()), Ok(at));
        for bad in [
            "",
            "2026-07-04",
            "10:00",
            "2026-13-04T10:00:00",
            "2026-07-04 10:00:00",
            "１０２６-07-04T10:00:00",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(parse_instant(bad, &shanghai()), Err(BadTime), "{bad:?}");
        }
    }

    #[test]
    fn a_day_is_written_with_colons() {
        assert_eq!(Millis(1_783_123_200_000).utc_day().colon_date(), "2026:07:04");
    }
}
