//! Faults on demand, for the tests: places where the process dies, and guards that are taken out.
//!
//! Without the feature `fault-injection` every function here is empty, and a release binary has nothing of it.

#[cfg(feature = "fault-injection")]
mod armed {
    use std::future::Future;
    use std::sync::OnceLock;

    tokio::task_local! {
        static MUTANT: &'static str;
    }

    /// What `SECKILL_FAULT` names: one fail point or one mutant for the whole process.
    fn named() -> &'static str {
        static NAMED: OnceLock<String> = OnceLock::new();
        NAMED.get_or_init(|| crate::config::fault().unwrap_or_default())
    }

    /// Dies here, as by `kill -9`, when the process was told to.
    pub fn fail_point(name: &str) {
        if named() == name {
            tracing::error!(name, "dies here as it was told to");
            std::process::abort();
        }
    }

    /// Whether the guard `name` is out: for the whole process, or inside [`without`].
    #[must_use]
    pub fn mutant(name: &str) -> bool {
        named() == name || MUTANT.try_with(|out| *out == name).unwrap_or(false)
    }

    /// Runs `work` with the guard `name` taken out; tasks that it starts keep theirs.
    pub async fn without<F: Future>(name: &'static str, work: F) -> F::Output {
        Box::pin(MUTANT.scope(name, work)).await
    }
}

#[cfg(feature = "fault-injection")]
pub use armed::{fail_point, mutant, without};

/// Does nothing.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub fn fail_point(_name: &str) {}

/// Every guard is in.
#[cfg(not(feature = "fault-injection"))]
#[inline]
#[must_use]
pub fn mutant(_name: &str) -> bool {
    false
}
