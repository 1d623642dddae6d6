//! Which of a Cluster's 16384 slots a command belongs to: its first key, or what stands in that key's braces.
//!
//! Pure. One key is enough: the keys of one command share their slot, or the server refuses it.

use redis::{Arg, Cmd};

/// Slots of every Cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key.
#[must_use]
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// What is hashed: the text between the first `{` and the first `}` after it, when there is any; else the whole key.
fn tag(key: &[u8]) -> &[u8] {
    let found = key.iter().position(|b| *b == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let close = inside.iter().position(|b| *b == b'}')?;
        (close > 0).then(|| &inside[..close])
    });
    found.unwrap_or(key)
}

/// CRC-16/XMODEM, the one that the Cluster specification names.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    })
}

/// The first key of a command of ours; none for one that belongs to no key.
pub(super) fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().map(|arg| match arg {
        Arg::Simple(word) => word,
        _ => b"".as_slice(),
    });
    let name = words.next()?.to_ascii_uppercase();
    match name.as_slice() {
        b"PING" | b"INFO" | b"PUBLISH" | b"SCRIPT" | b"TIME" | b"WAIT" | b"WAITAOF" | b"ROLE" | b"CONFIG" | b"CLUSTER"
        | b"CLIENT" | b"COMMAND" | b"DBSIZE" | b"FLUSHALL" | b"SCAN" | b"ACL" | b"LATENCY" | b"SLOWLOG" | b"KEYS" | b"MULTI"
        | b"EXEC" => None,
        b"EVAL" | b"EVALSHA" => {
            let count = words.nth(1)?;
            if count == b"0" { None } else { words.next() }
        }
        b"XINFO" | b"XGROUP" | b"OBJECT" | b"MEMORY" | b"DEBUG" => words.nth(1),
        b"XREADGROUP" | b"XREAD" => words.skip_while(|word| !word.eq_ignore_ascii_case(b"STREAMS")).nth(1),
        _ => words.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // As CLUSTER KEYSLOT answers.
        for (key, slot) in [("foo", 12182), ("{user1000}.following", 3443), ("foo{}{bar}", 8363), ("foo{{bar}}zap", 4015)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn all_keys_of_a_lane_share_a_slot() {
        use crate::domain::ids::{Lane, VoucherId};
        use crate::keys;
        for lane in [Lane(0), Lane(1), Lane(1023)] {
            let slot = slot_of(lane.to_string().as_bytes());
            let v = VoucherId(77);
            let all = [
                keys::stock(lane, v),
                keys::holders(lane, v),
                keys::holders_staging(lane, v),
                keys::sale(lane, v),
                keys::lane_sales(lane),
                keys::stream(lane),
                keys::places(lane),
            ];
            assert!(all.iter().all(|key| slot_of(key.as_bytes()) == slot));
        }
    }

    #[test]
    fn the_key_of_a_command_is_found_where_it_stands() {
        let cmd = |words: &str| {
            let mut words = words.split(' ');
            let mut cmd = redis::cmd(words.next().unwrap());
            words.for_each(|word| {
                cmd.arg(word);
            });
            cmd
        };
        for (words, key) in [
            ("GET a", Some("a")),
            ("hset a f v", Some("a")),
            ("EVALSHA hash 2 a b 1", Some("a")),
            ("EVAL text 0 b", None),
            ("XINFO STREAM a", Some("a")),
            ("XGROUP CREATE a g 0", Some("a")),
            ("XREADGROUP GROUP g c COUNT 5 BLOCK 1 STREAMS a >", Some("a")),
            ("PUBLISH channel text", None),
            ("PING", None),
        ] {
            let command = cmd(words);
            assert_eq!(key_of(&command), key.map(str::as_bytes), "{words}");
        }
    }
}
