//! The secrets of a shop that nobody typed: made once, kept in the data dir, readable by the owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::SecretString;
use sha2::Sha256;

/// What every other secret is derived from.
pub struct Secrets {
    root: [u8; 32],
    /// A line of the file, where an operator finds it.
    payment: SecretString,
}

impl Secrets {
    /// Reads `DIR/secrets`, or makes it with mode 0600 when it is not there. Processes that start together on one new data
    /// dir get the same secrets.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn load_or_create(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join("secrets");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create(data_dir, &path).with_context(|| format!("cannot write {}", path.display()))?;
                // Ours, or those of a process that was faster.
                fs::read_to_string(&path)
            }
            read => read,
        };
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let hex = text.lines().find_map(|line| line.strip_prefix("root "));
        let root = hex.and_then(|hex| HEXLOWER.decode(hex.trim().as_bytes()).ok()).and_then(|bytes| bytes.try_into().ok());
        let payment = text.lines().find_map(|line| line.strip_prefix("payment "));
        match root.zip(payment) {
            Some((root, payment)) => Ok(Self { root, payment: payment.trim().into() }),
            None => bail!("{} does not hold the secrets of a shop; put the right file back", path.display()),
        }
    }

    /// A key for one purpose; knowing it tells nothing of the others.
    fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.root);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// What the provider signs its notices with when no other secret is given: `whsec_…`.
    #[must_use]
    pub fn payment_secret(&self) -> &SecretString {
        &self.payment
    }

    /// What the sandbox provider knows its shop by.
    #[must_use]
    pub fn sandbox_token(&self) -> String {
        format!("Bearer {}", HEXLOWER.encode(&self.derive("sandbox provider")))
    }
}

/// Makes new secrets unless some are there. Written whole under another name first, so that nobody ever reads half of them.
fn create(data_dir: &Path, path: &Path) -> std::io::Result<()> {
    let draft = data_dir.join(format!("secrets.{:016x}", rand::random::<u64>()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let (root, payment): ([u8; 32], [u8; 32]) = (rand::random(), rand::random());
    let text = format!("root {}\npayment whsec_{}\n", HEXLOWER.encode(&root), BASE64.encode(&payment));
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A link, not a rename: it never replaces what is there.
    let linked = written.and_then(|()| fs::hard_link(&draft, path));
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => File::open(data_dir)?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_start_together_agree_on_the_secrets_and_leave_nothing_else() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let start = std::sync::Barrier::new(8);
            let roots: Vec<_> = std::thread::scope(|scope| {
                let one = || {
                    start.wait();
                    Secrets::load_or_create(dir.path()).unwrap().root
                };
                let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(roots.iter().all(|root| *root == roots[0]));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn secrets_are_for_their_owner_alone_and_a_damaged_file_is_never_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let made = Secrets::load_or_create(dir.path()).unwrap();
        let path = dir.path().join("secrets");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Secrets::load_or_create(dir.path()).unwrap().root, made.root);
        for damaged in ["", "root 00\n", "other"] {
            fs::write(&path, damaged).unwrap();
            assert!(Secrets::load_or_create(dir.path()).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
