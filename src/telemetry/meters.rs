//! The figures of the process: what each is called, what it means, and the handles that hot places hold.
//!
//! A handle is made once and is an atomic number from then on: no place that buyers wait for takes a lock to count. Rare
//! events may use the macros of `metrics`; their names stand in [`CATALOGUE`] too.

use std::sync::OnceLock;

use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};

use super::recorder;
use crate::clock::Clock;

/// How a figure moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only upwards, from 0 at the start of the process.
    Counter,
    /// Up and down.
    Gauge,
    /// Counts of values by size.
    Histogram,
}

/// A figure that `/metrics` may show.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// Its name, without what a histogram hangs on it.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it is, in one sentence.
    pub help: &'static str,
    unit: Unit,
}

const fn meter(name: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Meter {
    Meter { name, kind, help, unit }
}

/// Every figure that this program can show.
pub const CATALOGUE: &[Meter] = &[
    meter(
        "http_server_request_duration_seconds",
        Kind::Histogram,
        Unit::Seconds,
        "Seconds from the head of a request to the head of its answer, by method, route and status.",
    ),
    meter("seckill_admissions_total", Kind::Counter, Unit::Count, "Purchases that the gate was asked for, by outcome."),
    meter(
        "seckill_batch_size",
        Kind::Histogram,
        Unit::Count,
        "Purchases in one call of the gate (step admit), orders in one round of the worker (step save).",
    ),
    meter("seckill_audits_total", Kind::Counter, Unit::Count, "Sales that this process compared with their orders."),
    meter("seckill_rebuilds_total", Kind::Counter, Unit::Count, "Gates that this process built anew, by reason."),
    meter("seckill_redis_breaker_open", Kind::Gauge, Unit::Count, "1 while the circuit breaker in front of Redis is open."),
    meter(
        "seckill_redis_breaker_opened_total",
        Kind::Counter,
        Unit::Count,
        "Times that a silent Redis opened the circuit breaker.",
    ),
    meter("seckill_build_info", Kind::Gauge, Unit::Count, "Always 1; the label names the version."),
    meter(
        "seckill_captchas_total",
        Kind::Counter,
        Unit::Count,
        "Captchas that were asked for, and answers that were right or wrong.",
    ),
    meter("seckill_database_up", Kind::Gauge, Unit::Count, "1 when the database answered this scrape, else 0."),
    meter("seckill_dead_letters", Kind::Gauge, Unit::Count, "Entries that wait for a person's decision."),
    meter("seckill_dead_letters_total", Kind::Counter, Unit::Count, "Entries put aside by this process."),
    meter(
        "seckill_drift_units",
        Kind::Gauge,
        Unit::Count,
        "Things in a sale that do not fit and are not mended yet, by voucher.",
    ),
    meter("seckill_notices_total", Kind::Counter, Unit::Count, "Notices of payment, by what became of them."),
    meter("seckill_orders_saved_total", Kind::Counter, Unit::Count, "Orders that this process saved."),
    meter(
        "seckill_orders_timed_out_total",
        Kind::Counter,
        Unit::Count,
        "Orders that this process closed because nobody paid in time.",
    ),
    meter("seckill_outbox_open", Kind::Gauge, Unit::Count, "Follow-ups that are not done yet, by kind."),
    meter("seckill_pool_connections", Kind::Gauge, Unit::Count, "Connections to the database, by pool and state."),
    meter(
        "seckill_push_lost_total",
        Kind::Counter,
        Unit::Count,
        "Times that the bus between instances broke or was full; sockets read their snapshot again.",
    ),
    meter("seckill_push_messages_total", Kind::Counter, Unit::Count, "Messages handed to sockets of this process."),
    meter("seckill_push_slow_total", Kind::Counter, Unit::Count, "Sockets closed because they did not read."),
    meter("seckill_redis_up", Kind::Gauge, Unit::Count, "1 when Redis answered this scrape, else 0."),
    meter("seckill_refunds_overdue", Kind::Gauge, Unit::Count, "Refunds that were due for more than five minutes."),
    meter("seckill_sockets_open", Kind::Gauge, Unit::Count, "Sockets that listen on this process."),
    meter("seckill_stream_lag", Kind::Gauge, Unit::Count, "Admitted orders that no worker has read yet, by lane."),
    meter("seckill_stream_length", Kind::Gauge, Unit::Count, "Admitted orders that are not settled yet, by lane."),
    meter("process_open_fds", Kind::Gauge, Unit::Count, "Open files and sockets of the process."),
    meter("process_resident_memory_bytes", Kind::Gauge, Unit::Bytes, "Memory of the process that is in RAM."),
    meter("process_start_time_seconds", Kind::Gauge, Unit::Seconds, "When the process started, in seconds since 1970."),
];

/// What the gate may answer, as the label `outcome` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Outcome {
    /// A unit is held.
    Admitted,
    /// The buyer holds one already.
    Duplicate,
    /// None is left.
    SoldOut,
    /// Too early.
    NotBegun,
    /// Too late.
    Ended,
    /// Paused.
    Paused,
    /// The backlog is full.
    BacklogFull,
    /// The gate does not fit the books.
    NotReady,
    /// No order id was at hand, or Redis could not be asked: nothing happened.
    Unavailable,
    /// It was sent and no answer came.
    Uncertain,
}

const OUTCOMES: [&str; 10] = [
    "admitted",
    "duplicate",
    "sold_out",
    "not_begun",
    "ended",
    "paused",
    "backlog_full",
    "not_ready",
    "unavailable",
    "uncertain",
];

/// The handles.
pub struct Meters {
    admissions: [Counter; OUTCOMES.len()],
    /// Purchases in one call of the gate.
    pub admit_batch: Histogram,
    /// Orders in one round of a worker.
    pub save_batch: Histogram,
    /// Orders saved here.
    pub orders_saved: Counter,
    /// Entries put aside here.
    pub buried: Counter,
    /// Entries that wait for a person.
    pub dead_letters: Gauge,
    /// Refunds that are late.
    pub refunds_overdue: Gauge,
    /// Sockets here.
    pub sockets_open: Gauge,
    /// Messages handed to sockets.
    pub push_messages: Counter,
    /// Sockets that did not read.
    pub push_slow: Counter,
    /// The bus broke or was full.
    pub push_lost: Counter,
    /// Redis answers.
    pub redis_up: Gauge,
    /// The database answers.
    pub database_up: Gauge,
    /// Open files.
    pub open_files: Gauge,
    /// Memory in RAM.
    pub resident_bytes: Gauge,
}

impl Meters {
    /// Counts `n` answers of the gate.
    pub fn admissions(&self, outcome: Outcome, n: u64) {
        self.admissions[outcome as usize].increment(n);
    }

    fn new() -> Self {
        for Meter { name, kind, help, unit } in CATALOGUE {
            match kind {
                Kind::Counter => metrics::describe_counter!(*name, *unit, *help),
                Kind::Gauge => metrics::describe_gauge!(*name, *unit, *help),
                Kind::Histogram => metrics::describe_histogram!(*name, *unit, *help),
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
        gauge!("process_start_time_seconds").set(Clock::default().now().0 as f64 / 1e3);
        gauge!("seckill_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1);
        let meters = Self {
            admissions: OUTCOMES.map(|outcome| counter!("seckill_admissions_total", "outcome" => outcome)),
            admit_batch: histogram!("seckill_batch_size", "step" => "admit"),
            save_batch: histogram!("seckill_batch_size", "step" => "save"),
            orders_saved: counter!("seckill_orders_saved_total"),
            buried: counter!("seckill_dead_letters_total"),
            dead_letters: gauge!("seckill_dead_letters"),
            refunds_overdue: gauge!("seckill_refunds_overdue"),
            sockets_open: gauge!("seckill_sockets_open"),
            push_messages: counter!("seckill_push_messages_total"),
            push_slow: counter!("seckill_push_slow_total"),
            push_lost: counter!("seckill_push_lost_total"),
            redis_up: gauge!("seckill_redis_up"),
            database_up: gauge!("seckill_database_up"),
            open_files: gauge!("process_open_fds"),
            resident_bytes: gauge!("process_resident_memory_bytes"),
        };
        // Shown from the start, so that an alert on them is never about a missing figure.
        counter!("seckill_orders_timed_out_total").increment(0);
        counter!("seckill_audits_total").increment(0);
        counter!("seckill_rebuilds_total", "reason" => "first").increment(0);
        gauge!("seckill_drift_units").set(0);
        gauge!("seckill_redis_breaker_open").set(0);
        counter!("seckill_redis_breaker_opened_total").increment(0);
        for outcome in ["asked", "right", "wrong"] {
            counter!("seckill_captchas_total", "outcome" => outcome).increment(0);
        }
        meters
    }
}

/// The handles of this process.
pub fn meters() -> &'static Meters {
    static METERS: OnceLock<Meters> = OnceLock::new();
    METERS.get_or_init(|| {
        // A handle made before there is a recorder would count for nobody.
        recorder();
        Meters::new()
    })
}
