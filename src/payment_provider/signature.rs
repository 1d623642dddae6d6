//! Signatures of notices, as Standard Webhooks has them: HMAC-SHA256 over `ID.TIMESTAMP.BODY`, the body as raw bytes.
//!
//! The time is handed in. Nothing of a secret is ever printed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::domain::time::Millis;

/// How far the sender's clock may be off, either way.
pub const TOLERANCE: Duration = Duration::from_mins(5);

/// Bytes of a secret: fewer can be guessed, more than a block of the hash adds nothing.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Secrets at once: the new one and, during a rotation, the old one.
const MOST_SECRETS: usize = 2;

/// Signatures that one header may carry; a sender has one for each of its secrets.
const MOST_SIGNATURES: usize = 16;

/// The secrets that notices are signed with, newest first.
#[derive(Clone)]
pub struct SigningKeys(Vec<Vec<u8>>);

/// Nothing of the keys is shown.
impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({})", self.0.len())
    }
}

/// Why a text holds no secrets. It names nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a payment secret is whsec_ and the base64 of 24 to 64 bytes; two of them, new,old, during a rotation")]
pub struct BadSecret;

impl FromStr for SigningKeys {
    type Err = BadSecret;
    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let keys: Vec<Vec<u8>> = text.split(',').map(one_secret).collect::<Result<_, _>>()?;
        if keys.len() > MOST_SECRETS { Err(BadSecret) } else { Ok(Self(keys)) }
    }
}

fn one_secret(text: &str) -> Result<Vec<u8>, BadSecret> {
    let bytes = text.trim().strip_prefix("whsec_").and_then(|body| STANDARD.decode(body).ok()).ok_or(BadSecret)?;
    if SECRET_BYTES.contains(&bytes.len()) { Ok(bytes) } else { Err(BadSecret) }
}

/// The three headers of a notice, as they came.
#[derive(Debug, Clone, Copy)]
pub struct SignedHeaders<'a> {
    /// `webhook-id`: the same on every attempt to deliver it.
    pub id: &'a str,
    /// `webhook-timestamp`: seconds since 1970.
    pub timestamp: &'a str,
    /// `webhook-signature`: one or several, separated by spaces.
    pub signature: &'a str,
}

/// Why a notice is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBelieved {
    /// The id is empty or longer than any sender's.
    #[error("no usable webhook-id")]
    BadId,
    /// No signature fits the body, the id and the time.
    #[error("no signature fits")]
    BadSignature,
    /// Signed more than five minutes ago or ahead, or without a time.
    #[error("signed too long ago or ahead of time")]
    Stale,
}

impl SigningKeys {
    /// Keys of one secret of 24 to 64 bytes.
    ///
    /// # Errors
    /// [`BadSecret`] for any other length.
    pub fn of_bytes(secret: &[u8]) -> Result<Self, BadSecret> {
        if SECRET_BYTES.contains(&secret.len()) { Ok(Self(vec![secret.to_vec()])) } else { Err(BadSecret) }
    }

    /// The header of a notice: one signature for each secret, so that a receiver in the middle of a rotation finds one.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let timestamp = timestamp.to_string();
        let each = self.0.iter().map(|key| format!("v1,{}", STANDARD.encode(mac(key, id, &timestamp, body))));
        each.collect::<Vec<_>>().join(" ")
    }

    /// Believes a notice or says why not: the signature first, over the raw bytes, then its age.
    pub fn verify(&self, headers: SignedHeaders<'_>, body: &[u8], now: Millis) -> Result<(), NotBelieved> {
        if headers.id.is_empty() || headers.id.len() > 255 {
            return Err(NotBelieved::BadId);
        }
        if !self.any_fits(headers, body) && !crate::fault::mutant("signature-not-checked") {
            return Err(NotBelieved::BadSignature);
        }
        let seconds: i64 = strict_seconds(headers.timestamp).ok_or(NotBelieved::Stale)?;
        let off = now.0.abs_diff(seconds.saturating_mul(1000));
        if u128::from(off) > TOLERANCE.as_millis() { Err(NotBelieved::Stale) } else { Ok(()) }
    }

    /// Every signature is compared with every key, without leaving early: the time tells nothing of where they differ.
    fn any_fits(&self, headers: SignedHeaders<'_>, body: &[u8]) -> bool {
        let expected: Vec<[u8; 32]> = self.0.iter().map(|key| mac(key, headers.id, headers.timestamp, body)).collect();
        let mut fits = subtle::Choice::from(0);
        // Other versions are skipped: a sender may add one that we do not know beside v1.
        let given = headers.signature.split(' ').take(MOST_SIGNATURES).filter_map(|s| s.strip_prefix("v1,"));
        for signature in given.filter_map(|text| STANDARD.decode(text).ok()) {
            for key in &expected {
                fits |= key.as_slice().ct_eq(&signature);
            }
        }
        fits.into()
    }
}

fn mac(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
    // A key of HMAC is a block: a secret of up to 64 bytes is padded with zeros.
    let mut block = [0; 64];
    block[..key.len().min(64)].copy_from_slice(&key[..key.len().min(64)]);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Digits only: a sign, a space or a fraction is nobody's timestamp.
fn strict_seconds(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_614_265_330_000);

    fn keys(text: &str) -> SigningKeys {
        text.parse().unwrap()
    }

    fn headers<'a>(timestamp: &'a str, signature: &'a str) -> SignedHeaders<'a> {
        SignedHeaders { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp, signature }
    }

    #[test]
    fn a_notice_signed_by_the_published_example_is_believed() {
        // The example of the Standard Webhooks specification's own libraries.
        let keys = keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(keys.verify(headers("1614265330", signature), body, NOW), Ok(()));
        assert_eq!(keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body), signature);
    }

    #[test]
    fn one_byte_another_key_another_label_or_another_case_is_not_believed() {
        let keys = keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let good = keys.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b"{}");
        let bare = good.strip_prefix("v1,").unwrap().to_owned();
        assert_eq!(keys.verify(headers("1614265330", &good), b"{}", NOW), Ok(()));
        assert_eq!(keys.verify(headers("1614265330", &good), b"{} ", NOW), Err(NotBelieved::BadSignature));
        assert_eq!(keys.verify(headers("1614265331", &good), b"{}", NOW), Err(NotBelieved::BadSignature));
        for bad in ["", "v1,", &bare, &format!("v2,{bare}"), &format!("V1,{bare}"), &good.to_lowercase(), &good[..good.len() - 2]]
        {
            assert_eq!(keys.verify(headers("1614265330", bad), b"{}", NOW), Err(NotBelieved::BadSignature), "{bad}");
        }
        let many = format!("v1a,xx v1,AAAA {good}");
        assert_eq!(keys.verify(headers("1614265330", &many), b"{}", NOW), Ok(()));
        assert_eq!(keys.verify(SignedHeaders { id: "", ..headers("1614265330", &good) }, b"{}", NOW), Err(NotBelieved::BadId));
    }

    #[test]
    fn five_minutes_either_way_are_the_limit() {
        let keys = SigningKeys::of_bytes(&[7; 32]).unwrap();
        let at = |seconds: i64| {
            let text = seconds.to_string();
            let signature = keys.sign("a", seconds, b"{}");
            keys.verify(SignedHeaders { id: "a", timestamp: &text, signature: &signature }, b"{}", NOW)
        };
        assert_eq!([at(1_614_265_030), at(1_614_265_630)], [Ok(()), Ok(())]);
        assert_eq!([at(1_614_265_029), at(1_614_265_631), at(253_402_300_799), at(i64::MAX)], [Err(NotBelieved::Stale); 4]);
        for text in ["", "-1", "+1614265330", " 1614265330", "1614265330.0", "99999999999999999999"] {
            let signature = format!("v1,{}", STANDARD.encode(mac(&[7; 32], "a", text, b"{}")));
            let verdict = keys.verify(SignedHeaders { id: "a", timestamp: text, signature: &signature }, b"{}", NOW);
            assert_eq!(verdict, Err(NotBelieved::Stale), "{text:?}");
        }
    }

    #[test]
    fn during_a_rotation_both_secrets_count_and_after_it_the_old_one_does_not() {
        let secret = |byte: u8| format!("whsec_{}", STANDARD.encode([byte; 24]));
        let (old, new) = (keys(&secret(1)), keys(&secret(2)));
        let both = keys(&format!("{},{}", secret(2), secret(1)));
        let timestamp = NOW.0 / 1000;
        let text = timestamp.to_string();
        let check = |signer: &SigningKeys, receiver: &SigningKeys| {
            let signature = signer.sign("a", timestamp, b"x");
            receiver.verify(SignedHeaders { id: "a", timestamp: &text, signature: &signature }, b"x", NOW)
        };
        assert_eq!([check(&old, &both), check(&new, &both), check(&both, &old), check(&both, &new)], [Ok(()); 4]);
        assert_eq!(check(&old, &new), Err(NotBelieved::BadSignature));
    }

    #[test]
    fn a_short_or_strange_secret_is_refused_and_none_is_ever_printed() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![9; bytes]));
        for good in [of(24), of(64), format!("{},{}", of(24), of(32))] {
            assert!(good.parse::<SigningKeys>().is_ok(), "{good}");
        }
        let three = [of(24), of(24), of(24)].join(",");
        let bare = STANDARD.encode([9; 32]);
        for bad in ["", "whsec_", "whsec_%%%%", &of(0), &of(23), &of(65), &bare, &three, &format!("{},", of(24))] {
            assert_eq!(bad.parse::<SigningKeys>().err(), Some(BadSecret), "{bad}");
        }
        assert_eq!(format!("{:?}", keys(&of(24))), "SigningKeys(1)");
    }
}
