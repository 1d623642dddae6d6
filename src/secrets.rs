//! The secrets of a shop that nobody typed: made once, kept in the data dir, readable by the owner alone.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
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
    /// Reads `DIR/secrets`, or makes it with mode 0600 when it is not there.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub fn load_or_create(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join("secrets");
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let root: [u8; 32] = rand::random();
                let payment = format!("whsec_{}", BASE64.encode(&rand::random::<[u8; 32]>()));
                file.write_all(format!("root {}\npayment {payment}\n", HEXLOWER.encode(&root)).as_bytes())
                    .and_then(|()| file.sync_all())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Ok(Self { root, payment: payment.into() })
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut text = String::new();
                File::open(&path)
                    .and_then(|mut f| f.read_to_string(&mut text))
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let root = text
                    .lines()
                    .find_map(|line| line.strip_prefix("root "))
                    .and_then(|hex| HEXLOWER.decode(hex.trim().as_bytes()).ok())
                    .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                let payment = text.lines().find_map(|line| line.strip_prefix("payment "));
                match root.zip(payment) {
                    Some((root, payment)) => Ok(Self { root, payment: payment.trim().into() }),
                    None => bail!("{} does not hold the secrets of a shop; put the right file back", path.display()),
                }
            }
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
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
