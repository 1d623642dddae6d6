//! The parsers that read from outside, by the fuzzers' own entry functions: random bytes, and near misses of good texts.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{entries, figure, wanted};

/// Texts that are close to something good, so that the deep parts of a parser are reached too.
const SEEDS: &[&str] = &[
    "610467444359694349",
    "9007199254740991",
    "13800000001",
    "2026-07-04T10:00:00.000Z",
    "2026-07-04T10:00:00+08:00",
    "49.90",
    "/orders/1?lang=en",
    "1751600000000-0",
    r#"{"type":"watch","voucherId":10}"#,
    r#"{"type":"auth","token":"abc"}"#,
    r#"{"type":"sync"}"#,
    r#"{"type":"payment.succeeded","data":{"orderId":"610467444359694349","transactionId":"t","amount":4900}}"#,
    "whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=",
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    "redis+sentinel://a:26379,b:26379/mymaster/0",
    "redis+cluster://:secret@[::1]:7000,b?protocol=resp3",
    "redis://user:pass@127.0.0.1:6379/0",
    "unix:///run/redis.sock?db=1",
    "\x02id\x0261\x06userId\x011\x09voucherId\x012\x05epoch\x011\x0aadmittedAt\x0d1751600000000",
];

/// Bytes, any or a good text with a few of them changed, left out or put in.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let near = (0..SEEDS.len(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..4));
    let near = near.prop_map(|(which, changes)| {
        let mut bytes = SEEDS[which].as_bytes().to_vec();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    });
    prop_oneof![3 => near, 1 => prop::collection::vec(any::<u8>(), 0..300), 1 => ".{0,60}".prop_map(String::into_bytes)]
}

/// What a fuzzer is pointed at.
type Entry = fn(&[u8]);

#[test]
fn every_entry_of_the_fuzzers_holds_for_random_bytes_and_near_misses() {
    let targets: &[(&str, Entry)] = &[
        ("stream_entry", entries::stream_entry),
        ("notice", entries::notice),
        ("socket_message", entries::socket_message),
        ("typed", entries::typed),
        ("ticket", entries::ticket),
        ("redis_url", entries::redis_url),
    ];
    let each = u32::try_from(wanted() / 5).unwrap();
    let mut ran = 0_u32;
    for (name, entry) in targets {
        for seed in SEEDS {
            entry(seed.as_bytes());
        }
        let count = std::cell::Cell::new(0);
        let config = Config { cases: each, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&input(), |bytes| {
            count.set(count.get() + 1);
            entry(&bytes);
            Ok(())
        });
        assert!(outcome.is_ok(), "{name}: {}", outcome.unwrap_err());
        assert!(count.get() >= each, "{name}: {} of {each}", count.get());
        ran += count.get();
    }
    figure(&format!("parsers: {ran} texts for {} entries", targets.len()));
    assert!(ran as usize >= super::FLOOR, "{ran}");
}

#[test]
fn every_fuzz_target_calls_an_entry_and_every_entry_has_a_target() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let text = std::fs::read_to_string(folder.join("entries.rs")).unwrap();
    let listed = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let names: Vec<&str> = text.split("\npub fn ").skip(1).map(|rest| rest.split('(').next().unwrap()).collect();
    assert!(names.len() >= 6, "{names:?}");
    let mut targets = 0;
    for entry in std::fs::read_dir(folder.join("fuzz_targets")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            names.contains(&name) && std::fs::read_to_string(&path).unwrap().contains(&format!("entries::{name}(data)")),
            "{name}"
        );
        assert!(listed.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        targets += 1;
    }
    assert_eq!(targets, names.len());
}
