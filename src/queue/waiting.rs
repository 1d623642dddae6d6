//! What waits in a lane, as a list shows it: the oldest entries, and who was given each. Read only; nothing is claimed.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use super::reader::{RawEntry, read, read_entries};
use super::{Entry, Queue, QueueError, StreamId, Unreadable};
use crate::domain::ids::Lane;
use crate::keys;

/// Entries that were given to somebody may stand in that list and no more in the stream: so many more are looked at.
const SPARE: usize = 100;

/// Who was given an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The consumer: `HOST-PID-RANDOM` of its process.
    pub consumer: String,
    /// How long ago, the last time.
    pub ago: Duration,
    /// How often it was given to somebody; at least 1.
    pub deliveries: u64,
}

/// One entry that is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingEntry {
    /// Where it stands.
    pub stream_id: StreamId,
    /// What it says.
    pub entry: Result<Entry, Unreadable>,
    /// Who works on it; none: nobody was given it yet.
    pub given: Option<Given>,
}

/// What waits in one lane at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waiting {
    /// How many entries there are.
    pub all: i64,
    /// The oldest of them, oldest first.
    pub oldest: Vec<WaitingEntry>,
}

impl Queue {
    /// The oldest entries of a lane, `most` at most, and how many there are; one round trip, one instant. Nothing without a
    /// stream.
    pub async fn waiting(&self, lane: Lane, most: usize) -> Result<Waiting, QueueError> {
        let key = keys::stream(lane);
        let mut asked = redis::pipe();
        asked.atomic().ignore_errors().cmd("XLEN").arg(&key);
        asked.cmd("XRANGE").arg(&key).arg("-").arg("+").arg("COUNT").arg(most);
        asked.cmd("XPENDING").arg(&key).arg(keys::GROUP).arg("-").arg("+").arg(most + SPARE);
        let answers: Vec<Value> = asked.query_async(&mut self.redis.shared()).await?;
        let [all, entries, given] = <[Value; 3]>::try_from(answers).map_err(|got| QueueError::BadReply(format!("{got:?}")))?;
        // An error here is another type in the stream's place, or a group that is missing: then nobody was given anything.
        let Ok(all) = read(all) else { return Ok(Waiting::default()) };
        let given: Vec<(String, String, u64, u64)> = read(given).unwrap_or_default();
        let mut given: HashMap<String, Given> = given
            .into_iter()
            .map(|(id, consumer, ms, deliveries)| (id, Given { consumer, ago: Duration::from_millis(ms), deliveries }))
            .collect();
        let shown = |(stream_id, fields): RawEntry| {
            let given = given.remove(&stream_id.to_string());
            Some(WaitingEntry { stream_id, entry: Entry::read(&fields?), given })
        };
        Ok(Waiting { all, oldest: read_entries(entries)?.into_iter().filter_map(shown).collect() })
    }
}
