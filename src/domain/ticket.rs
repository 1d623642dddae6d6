//! The ticket: what a buyer can show to ask for his order when nothing else remembers it. Signed, opaque, ASCII.
//!
//! Form: base64url(`v1.ID.VOUCHER.USER.EPOCH.POSITION.TIME` ‖ `.` ‖ 16 bytes of HMAC-SHA256 over it).

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::ids::{Epoch, OrderId, UserId, VoucherId};
use super::time::Millis;

/// What the gate promised, to whom, under which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The admitted id.
    pub order: OrderId,
    /// Of which voucher.
    pub voucher: VoucherId,
    /// To whom.
    pub user: UserId,
    /// The sale's epoch that the gate checked.
    pub epoch: Epoch,
    /// Entries that the stream had ever taken at admission; 0: unknown.
    pub position: i64,
    /// When it was written.
    pub at: Millis,
}

/// Signs and reads tickets with one secret of this shop.
#[derive(Clone)]
pub struct TicketKey([u8; 32]);

const TAG_BYTES: usize = 16;

impl TicketKey {
    /// A key from 32 secret bytes, the same on every process that shares the data.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.0); // HMAC pads a short key with zeros to its block (RFC 2104)
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&key.into());
        mac.update(body);
        mac
    }

    /// The text to hand out.
    #[must_use]
    pub fn sign(&self, t: &Ticket) -> String {
        let mut bytes = format!("v1.{}.{}.{}.{}.{}.{}.", t.order, t.voucher, t.user, t.epoch, t.position, t.at.0).into_bytes();
        let tag = self.mac(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&tag[..TAG_BYTES]);
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// The ticket that `text` carries; none when it was not signed with this key or is not a ticket at all.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<Ticket> {
        if text.len() > 512 {
            return None;
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (body, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
        // Constant time: a ticket alone opens an order.
        self.mac(body).verify_truncated_left(tag).ok()?;
        let mut parts = std::str::from_utf8(body).ok()?.split('.');
        if parts.next()? != "v1" {
            return None;
        }
        Some(Ticket {
            order: parts.next()?.parse().ok()?,
            voucher: parts.next()?.parse().ok()?,
            user: parts.next()?.parse().ok()?,
            epoch: parts.next()?.parse().ok()?,
            position: parts.next()?.parse().ok()?,
            at: Millis(parts.next()?.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_back_and_no_changed_byte_is_believed() {
        let key = TicketKey::new([7; 32]);
        let ticket = Ticket {
            order: OrderId(610_467_444_359_694_349),
            voucher: VoucherId(10),
            user: UserId(3),
            epoch: 2,
            position: 9,
            at: Millis(5),
        };
        let text = key.sign(&ticket);
        assert_eq!(key.read(&text), Some(ticket));
        assert_eq!(TicketKey::new([8; 32]).read(&text), None);
        for i in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[i] = if other[i] == b'A' { b'B' } else { b'A' };
            let read = key.read(std::str::from_utf8(&other).unwrap());
            assert!(read.is_none() || other == text.as_bytes(), "byte {i}");
        }
        assert_eq!(key.read(""), None);
    }
}
