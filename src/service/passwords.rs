//! Passwords to hashes and back, on a bounded number of threads: argon2id, 19 MiB, two passes.
//!
//! One check takes tens of milliseconds of a core; a crowd that logs in must not stop a crowd that buys.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

/// Checks that may wait for a thread; beyond it the answer is "busy", at once.
const WAITING: usize = 16;
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

/// The pool; cheap to clone.
#[derive(Debug, Clone)]
pub struct Passwords {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
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

impl Passwords {
    /// A pool with a thread for each core. Takes one hash's time.
    pub fn new() -> Result<Self, PasswordError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let dummy = hash_now(&format!("{:032x}", rand::random::<u128>()))?;
        Ok(Self {
            admitted: Arc::new(Semaphore::new(cores + WAITING)),
            running: Arc::new(Semaphore::new(cores)),
            dummy: dummy.into(),
        })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let broken = |e: &dyn std::fmt::Display| PasswordError::Broken(e.to_string());
        let place = self.admitted.clone().try_acquire_owned().map_err(|_| PasswordError::Crowded)?;
        let thread = self.running.clone().acquire_owned().await.map_err(|e| broken(&e))?;
        let task = tokio::task::spawn_blocking(move || {
            // Kept until the work is done, also when the request has gone away meanwhile.
            let _held = (place, thread);
            work()
        });
        task.await.map_err(|e| broken(&e))?
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
}
