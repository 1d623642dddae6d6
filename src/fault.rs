//! Faults on demand, for the tests: places where the process dies or dawdles, guards that are taken out, a clock that is wrong.
//!
//! Without the feature `fault-injection` every function here is empty, and a release binary has nothing of it.

#[cfg(feature = "fault-injection")]
mod armed {
    use std::future::Future;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    tokio::task_local! {
        static MUTANT: &'static str;
    }

    /// Every place where a process can be told to die.
    pub const POINTS: [&str; 18] = [
        "before-script",
        "after-script",
        "after-read",
        "tx-after-insert",
        "tx-after-stock",
        "tx-before-commit",
        "after-commit",
        "after-ack",
        "cancel-before-commit",
        "cancel-after-commit",
        "outbox-after-apply",
        "callback-after-commit",
        "refund-after-call",
        "sweep-mid",
        "rebuild-after-close",
        "rebuild-after-load",
        "migrate-mid",
        "between-ack-and-del",
    ];

    /// One word of `SECKILL_FAULT`.
    struct Fault {
        name: String,
        /// `NAME:N`: dies at the Nth pass.
        pass: u64,
        /// `NAME=MS`: dawdles that long instead of dying; of `clock`, how wrong it is.
        ms: Option<i64>,
        passed: AtomicU64,
    }

    /// What `SECKILL_FAULT` names for the whole process: `NAME`, `NAME:N` or `NAME=MS`, several with commas between.
    fn named(name: &str) -> impl Iterator<Item = &'static Fault> {
        static NAMED: OnceLock<Vec<Fault>> = OnceLock::new();
        let all = NAMED.get_or_init(|| {
            let words = crate::config::fault().unwrap_or_default();
            words.split(',').filter(|word| !word.is_empty()).map(read).collect()
        });
        all.iter().filter(move |fault| fault.name == name)
    }

    fn read(word: &str) -> Fault {
        let (name, ms) = word.split_once('=').map_or((word, None), |(name, ms)| (name, ms.parse().ok()));
        let (name, pass) = name.split_once(':').map_or((name, 1), |(name, pass)| (name, pass.parse().unwrap_or(1)));
        Fault { name: name.to_owned(), pass, ms, passed: AtomicU64::new(0) }
    }

    /// Dies here, as by `kill -9`, when the process was told to.
    pub fn fail_point(name: &str) {
        for fault in named(name).filter(|fault| fault.ms.is_none()) {
            if fault.passed.fetch_add(1, Ordering::SeqCst) + 1 == fault.pass {
                tracing::error!(name, "dies here as it was told to");
                std::process::abort();
            }
        }
    }

    /// Dawdles here when the process was told to, and dies here when it was told that.
    pub async fn slow_point(name: &str) {
        fail_point(name);
        for ms in named(name).filter_map(|fault| fault.ms) {
            tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())).await;
        }
    }

    /// By how many milliseconds the process' clock is wrong.
    #[must_use]
    pub fn clock_error() -> i64 {
        named("clock").filter_map(|fault| fault.ms).sum()
    }

    /// Panics here when the process was told to.
    ///
    /// # Panics
    /// That is what it is for.
    pub fn panic_point(name: &str) {
        assert!(named(name).next().is_none(), "panics here as it was told to: {name}");
    }

    /// Whether the guard `name` is out: for the whole process, or inside [`without`].
    #[must_use]
    pub fn mutant(name: &str) -> bool {
        named(name).next().is_some() || MUTANT.try_with(|out| *out == name).unwrap_or(false)
    }

    /// Runs `work` with the guard `name` taken out; tasks that it starts keep theirs.
    pub async fn without<F: Future>(name: &'static str, work: F) -> F::Output {
        Box::pin(MUTANT.scope(name, work)).await
    }
}

#[cfg(feature = "fault-injection")]
pub use armed::{POINTS, clock_error, fail_point, mutant, panic_point, slow_point, without};

/// Does nothing.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub fn fail_point(_name: &str) {}

/// Does nothing, at once.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub async fn slow_point(_name: &str) {}

/// The clock is right.
#[cfg(not(feature = "fault-injection"))]
#[inline]
#[must_use]
pub fn clock_error() -> i64 {
    0
}

/// Does nothing.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub fn panic_point(_name: &str) {}

/// Every guard is in.
#[cfg(not(feature = "fault-injection"))]
#[inline]
#[must_use]
pub fn mutant(_name: &str) -> bool {
    false
}
