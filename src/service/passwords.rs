//! Passwords to hashes and back, on a bounded number of threads: argon2id, 19 MiB, two passes.
//!
//! One check takes tens of milliseconds of a core and 19 MiB; a crowd that logs in must not stop a crowd that buys. So: a
//! thread of lowest priority for every two cores, and a short queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::{mpsc, oneshot};

/// Checks that may wait, for each thread; beyond it the answer is "busy", at once.
const WAITING: usize = 32;
/// How long one waits for its turn and its work; a buyer who logs in sooner tries again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much the threads give way to everybody else: 0 not at all, 19 as far as it goes. As far as it goes: a sale
/// goes before a login, and about as many passwords are checked as with 10. They must not rest between checks to be kind:
/// with rests of three times a check the p99 of clicks was higher than without (SECURITY.md), most likely because the scheduler
/// lets a thread that slept finish its slice before whoever wakes up.
const NICENESS: i32 = 19;
/// Memory in KiB, passes and lanes (OWASP's first choice for argon2id).
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);

/// Why a password was neither hashed nor checked.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too many are waiting.
    #[error("too many passwords are being checked")]
    Crowded,
    /// Must not happen.
    #[error("hashing failed: {0}")]
    Broken(String),
}

type Work = Box<dyn FnOnce() + Send>;

/// The pool; cheap to clone. Its threads end with its last copy.
#[derive(Debug, Clone)]
pub struct Passwords {
    queue: mpsc::Sender<Work>,
    /// What an unknown phone is checked against: it takes as long as a known one.
    dummy: Arc<str>,
}

fn argon() -> Result<Argon2<'static>, PasswordError> {
    let params = Params::new(COST.0, COST.1, COST.2, None).map_err(|e| PasswordError::Broken(e.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash_now(password: &str) -> Result<String, PasswordError> {
    argon()?.hash_password(password.as_bytes()).map(|h| h.to_string()).map_err(|e| PasswordError::Broken(e.to_string()))
}

/// One thread: takes work until nobody can send any.
fn toil(queue: &Mutex<mpsc::Receiver<Work>>) {
    // Of this thread alone. Not allowed to: then it is a thread like the others.
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "the threads for passwords run at the common priority");
    }
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(work) = next else { return };
        // A check that breaks takes nobody else's turn with it.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            tracing::error!("a check of a password broke");
        }
    }
}

impl Passwords {
    /// A pool with a thread for every two cores. Takes one hash's time.
    pub fn new() -> Result<Self, PasswordError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_threads((cores / 2).max(1))
    }

    fn with_threads(threads: usize) -> Result<Self, PasswordError> {
        let dummy = hash_now(&format!("{:032x}", rand::random::<u128>()))?;
        let (queue, work) = mpsc::channel(threads * WAITING);
        let work = Arc::new(Mutex::new(work));
        for n in 0..threads {
            let work = work.clone();
            let thread = std::thread::Builder::new().name(format!("passwords-{n}"));
            thread.spawn(move || toil(&work)).map_err(|e| PasswordError::Broken(e.to_string()))?;
        }
        Ok(Self { queue, dummy: dummy.into() })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let (answer, told) = oneshot::channel();
        let job = move || {
            // Whoever asked may have gone away while this waited.
            if !answer.is_closed() {
                let _ = answer.send(work());
            }
        };
        self.queue.try_send(Box::new(job)).map_err(|_| PasswordError::Crowded)?;
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(PasswordError::Broken(String::from("the thread for passwords broke"))),
            Err(_) => Err(PasswordError::Crowded),
        }
    }

    /// Whether whoever comes now would only hear "busy".
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.queue.capacity() == 0
    }

    /// The hash of a password, in PHC form, with a salt of its own.
    pub async fn hash(&self, password: String) -> Result<String, PasswordError> {
        self.run(move || hash_now(&password)).await
    }

    /// Whether `password` has this hash. Without a hash the same work is done and the answer is no.
    pub async fn fits(&self, password: String, hash: Option<String>) -> Result<bool, PasswordError> {
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.dummy.to_string());
        self.run(move || {
            let parsed = PasswordHash::new(&hash).map_err(|e| PasswordError::Broken(e.to_string()))?;
            Ok(argon()?.verify_password(password.as_bytes(), &parsed).is_ok() && known)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_password_fits_and_no_hash_never_does() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash(String::from("correct horse")).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(passwords.fits(String::from("correct horse"), Some(hash.clone())).await.unwrap());
        assert!(!passwords.fits(String::from("correct house"), Some(hash)).await.unwrap());
        assert!(!passwords.fits(String::from("correct horse"), None).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_five_hundred_at_once_a_few_wait_and_the_rest_hear_busy() {
        let passwords = Passwords::with_threads(1).unwrap();
        let checks = (0..500).map(|_| passwords.fits(String::from("x"), None));
        let answers = futures_util::future::join_all(checks).await;
        let crowded = answers.iter().filter(|a| matches!(a, Err(PasswordError::Crowded))).count();
        assert!((500 - WAITING - 4..500).contains(&crowded), "{crowded}");
        assert!(answers.iter().all(|a| matches!(a, Ok(false) | Err(PasswordError::Crowded))));
        // One thread, one check at a time: memory is that of one, however many wait.
        assert!(passwords.fits(String::from("x"), None).await.is_ok(), "and it goes on");
    }
}
