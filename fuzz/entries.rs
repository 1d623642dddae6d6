//! What the fuzzers call: one function for each parser that reads from outside, with what must hold whatever comes in.
//!
//! The property tests run the same functions, so that they cannot rot where no fuzzer is built. They panic on a fault.

use seckill::domain::ids::{OrderId, ShopId, UserId, VoucherId};
use seckill::domain::money::Fen;
use seckill::domain::password::check_password;
use seckill::domain::ticket::{Ticket, TicketKey};
use seckill::domain::time::{Millis, parse_instant};
use seckill::domain::user::{NickName, Phone};
use seckill::payment_provider::notice;
use seckill::payment_provider::signature::{SignedHeaders, SigningKeys};
use seckill::queue::{Entry, StreamId};
use seckill::web::own_path::own_path;
use seckill::web::socket::FromClient;

/// An entry of the stream: pairs of a length byte and a text. What is read must be what stands there.
pub fn stream_entry(data: &[u8]) {
    let mut texts = Vec::new();
    let mut rest = data;
    while let Some((length, tail)) = rest.split_first() {
        let (text, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        texts.push(text.to_vec());
        rest = tail;
    }
    let fields: Vec<_> = texts.chunks(2).map(|p| (p[0].clone(), p.get(1).cloned().unwrap_or_default())).collect();
    let _ = Entry::is_newer(&fields);
    match Entry::read(&fields) {
        Ok(entry) => {
            assert_eq!(fields.len(), 5);
            let at = |name: &str| fields.iter().find(|(n, _)| n == name.as_bytes()).map(|(_, v)| v.clone());
            assert_eq!(at("id"), Some(entry.order.to_string().into_bytes()));
            assert_eq!(at("userId"), Some(entry.user.to_string().into_bytes()));
            assert_eq!(at("voucherId"), Some(entry.voucher.to_string().into_bytes()));
            assert_eq!(at("epoch"), Some(entry.epoch.to_string().into_bytes()));
        }
        // What is buried has to fit into a row, and to be JSON.
        Err(unreadable) => assert!(unreadable.raw.starts_with('{') && unreadable.raw.len() < 300_000),
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(id) = text.parse::<StreamId>()
    {
        assert!(id.next() > id || id.ms == u64::MAX);
    }
}

/// A body that a provider sends, signed or not. Only a signature over exactly these bytes is believed.
pub fn notice(data: &[u8]) {
    if let Ok(notice::Notice::Paid(paid)) = notice::read(data) {
        assert!(paid.order.0 > 0 && (1..=128).contains(&paid.transaction.len()));
    }
    let Ok(keys) = SigningKeys::of_bytes(&[7; 32]) else { return };
    let now = Millis(1_800_000_000_000);
    let (head, body) = data.split_at(data.len().min(64));
    let signed = keys.sign("evt_1", 1_800_000_000, body);
    let good = SignedHeaders { id: "evt_1", timestamp: "1800000000", signature: &signed };
    assert_eq!(keys.verify(good, body, now), Ok(()));
    // The fuzzer does not find a signature of 256 bits: what it makes up is never believed.
    let made_up = String::from_utf8_lossy(head);
    let verdict = keys.verify(SignedHeaders { signature: &made_up, ..good }, body, now);
    assert!(verdict.is_err());
    let _ = keys.verify(SignedHeaders { timestamp: &made_up, ..good }, body, now).is_err();
    let _ = made_up.parse::<SigningKeys>().is_ok();
}

/// A message of a client over the socket: ids in their range, and nothing that was not asked for.
pub fn socket_message(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(message) = FromClient::read(text) {
        let word = match message {
            FromClient::Auth { .. } => "auth",
            FromClient::Watch { .. } => "watch",
            FromClient::Sync {} => "sync",
            FromClient::Desk { .. } => "desk",
        };
        // An escape could spell a letter.
        assert!(text.contains(word) || text.contains('\\'));
    }
}

/// A text where an id, a phone, a name, an amount, a time or a path is expected. What is accepted reads back the same.
pub fn typed(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(id) = text.parse::<OrderId>() {
        assert!(id.0 > 0 && id.to_string() == text);
    }
    let read = [text.parse::<UserId>().map(|i| i.0), text.parse::<ShopId>().map(|i| i.0), text.parse::<VoucherId>().map(|i| i.0)];
    for id in read.into_iter().flatten() {
        assert!((1..1 << 53).contains(&id) && id.to_string() == text);
    }
    if let Ok(phone) = Phone::parse(text) {
        assert!(phone.as_str() == text && text.len() == 11 && !format!("{phone:?}").contains(text));
    }
    if NickName::parse(text).is_ok() {
        assert!(text.chars().count() <= 32 && !text.contains(char::is_control));
    }
    if check_password(text).is_ok() {
        assert!((8..=512).contains(&text.len()));
    }
    if let Ok(fen) = Fen::parse_yuan(text) {
        assert!((0..=99_999_999_999_999).contains(&fen.0) && Fen::parse_yuan(&fen.to_string()) == Ok(fen));
    }
    if let Ok(at) = parse_instant(text, &jiff::tz::TimeZone::UTC) {
        assert_eq!(parse_instant(&at.rfc3339(), &jiff::tz::TimeZone::UTC), Ok(at));
    }
    if let Some(path) = own_path(text) {
        assert!(path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\r', '\n']));
    }
}

/// A ticket: one that was not signed here is never read, and one bit makes it so.
pub fn ticket(data: &[u8]) {
    let key = TicketKey::new([9; 32]);
    if let Ok(text) = std::str::from_utf8(data) {
        assert_eq!(key.read(text), None);
    }
    let number = |at: usize| data.iter().skip(at).take(6).fold(1_i64, |n, b| n << 8 | i64::from(*b));
    let made = Ticket {
        order: OrderId(number(0)),
        voucher: VoucherId(number(1)),
        user: UserId(number(2)),
        epoch: number(3),
        position: number(4),
        at: Millis(number(5)),
    };
    let text = key.sign(&made);
    assert_eq!(key.read(&text), Some(made));
    let mut bytes = text.into_bytes();
    let at = usize::from(data.first().copied().unwrap_or(0)) % bytes.len();
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    assert_eq!(key.read(&String::from_utf8_lossy(&bytes)), None);
}

/// `--redis-url`: read or refused, and a refusal never repeats what could be a password.
pub fn redis_url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for url in [
        text.to_owned(),
        format!("redis+sentinel://{text}"),
        format!("rediss+cluster://:pw{text}"),
        format!("redis://:Geheim123{text}"),
    ] {
        if let Err(error) = seckill::redis::check_address(&url) {
            assert!(!error.to_string().contains("Geheim123"));
        }
    }
}
