//! What a load run tells: the last JSON line, and the same for people.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::clicks::Tally;
use super::histogram::Histogram;
use super::saved::Saved;

/// The figures of a run, as the last line of `--json` has them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Clicks that were answered with a yes or a definite no.
    pub decisions: u64,
    /// The same a second, from the first click to the last decision.
    pub decisions_per_second: u64,
    /// Order ids that were given.
    pub accepted: u64,
    /// Accepted orders that reached a row which counts.
    pub saved: u64,
    /// The same a second, from the first click until the last one was seen.
    pub saved_per_second: u64,
    /// Half of the decisions took at most this long, from the click, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 decisions took at most this long.
    pub p99_ms: f64,
    /// 99 of 100 sockets heard `order.created` within this long of the click; left out without `--push`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_p99_ms: Option<f64>,
    /// The audit looked and found nothing.
    pub audit_ok: bool,
}

impl Report {
    /// The figures of what was heard; the audit has still to be asked.
    #[must_use]
    pub fn new(tally: &Tally, saved: &Saved, push: Option<&Histogram>) -> Self {
        let decisions = tally.latency.count();
        Self {
            decisions,
            decisions_per_second: per_second(decisions, tally.last_decision),
            accepted: tally.accepted.len() as u64,
            saved: saved.placed,
            saved_per_second: per_second(saved.placed, saved.last),
            p50_ms: millis(tally.latency.quantile(500)).unwrap_or_default(),
            p99_ms: millis(tally.latency.quantile(990)).unwrap_or_default(),
            push_p99_ms: push.and_then(|heard| millis(heard.quantile(990))),
            audit_ok: false,
        }
    }

    /// The same for people, with the answers by their code.
    #[must_use]
    pub fn words(&self, tally: &Tally, saved: &Saved) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<10} {value}");
        };
        line("decisions", format!("{} ({} a second)", self.decisions, self.decisions_per_second));
        for (code, count) in &tally.decisions {
            line("", format!("{code} {count}"));
        }
        for (code, count) in &tally.undecided {
            line("", format!("no decision: {code} {count}"));
        }
        line("saved", format!("{} of {} accepted ({} a second)", self.saved, self.accepted, self.saved_per_second));
        line("click", format!("p50 {} ms, p99 {} ms", self.p50_ms, self.p99_ms));
        if let Some(push) = self.push_p99_ms {
            line("push", format!("p99 {push} ms after the click"));
        }
        if saved.failed + saved.open > 0 {
            line("", format!("accepted, but failed: {}; still without a row: {}", saved.failed, saved.open));
        }
        line("audit", if self.audit_ok { "holds" } else { "does not hold, or could not look" }.to_owned());
        text
    }
}

fn per_second(count: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(count) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

/// Milliseconds with three decimals; at most 71 minutes.
fn millis(time: Option<Duration>) -> Option<f64> {
    time.map(|t| f64::from(u32::try_from(t.as_micros()).unwrap_or(u32::MAX)) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_promised_names_and_no_null() {
        let report = Report::new(&Tally::default(), &Saved::default(), None);
        let json = serde_json::to_string(&report).unwrap();
        let expected = r#"{"decisions":0,"decisionsPerSecond":0,"accepted":0,"saved":0,"savedPerSecond":0,"p50Ms":0.0,"p99Ms":0.0,"auditOk":false}"#;
        assert_eq!(json, expected);
        assert_eq!(per_second(5000, Duration::from_millis(500)), 10_000);
    }
}
