//! The protocol as a model: one step is a point at which a process can die or be overtaken, and the steps of many
//! processes are mixed at random, from a seed. No server is started here; the rules are `seckill::domain`'s own.
//!
//! What the protocol must not do again, by number; `mutants.rs` says which guard stands before which:
//! 1 a rebuilder that woke up late bumps the epoch · 2 a number is used for two rebuilds · 3 a late open in another's drain ·
//! 4 an id is born twice · 5 "not returned" is taken for "done" · 6 a release without its FAILED row · 7 LOST and the row
//! disagree · 8 a release on the wrong server · 9 a claim is written back from a copy · 10 another's entry is acknowledged ·
//! 11 a lost key looks like an ordinary state · 12 the run id of a server that is gone · 13 acknowledged and not deleted, or
//! dropped with a name · 14 bury, retry, discard · 15 early money is missed · 16 a second notice · 17 DUPLICATE without a
//! ticket · 18 resume opens a drain · 19 a stock change beside the rebuild · 20 two lists of live orders · 21 a drain that is
//! cut short · 22 a stale process starts rebuilds · 23 "nothing was taken" after an unknown answer

#![expect(clippy::cast_possible_truncation, reason = "every number here is small, so that a world is small")]
#![expect(clippy::trivially_copy_pass_by_ref, reason = "rows and entries are passed alike, whatever their size")]
#![expect(clippy::too_many_lines, reason = "the steps of one story stand in one match")]

mod checks;
mod exhaustive;
mod faults;
mod mutants;
mod schedule;
mod server;
mod sql;
mod steps;
mod stream;
mod world;

use std::thread;

use self::exhaustive::{CASES, Case, explore, tell};
use self::mutants::{Guard, Mutants};
use self::schedule::{Broken, run};

/// Random schedules of an ordinary run and of a long one.
const SCHEDULES: u64 = 50_000;
const MANY_SCHEDULES: u64 = 1_000_000;

/// A seed from outside replays one schedule and prints all its steps.
#[expect(clippy::disallowed_methods, reason = "no option of the program: it belongs to the tests alone")]
fn seed_from_outside() -> Option<u64> {
    std::env::var("SECKILL_MODEL_SEED").ok()?.parse().ok()
}

/// The first broken schedule of `from..from + n`, searched by both cores.
fn search(mutants: Mutants, from: u64, n: u64) -> Option<Broken> {
    thread::scope(|both| {
        let other = both.spawn(move || (from..from + n).step_by(2).find_map(|seed| run(seed, mutants, None, None).err()));
        let mine = (from + 1..from + n).step_by(2).find_map(|seed| run(seed, mutants, None, None).err());
        let other = other.join().expect("the search ends");
        [mine, other].into_iter().flatten().min_by_key(|broken| broken.seed)
    })
}

/// Every step of a schedule, readable.
fn trace(seed: u64, mutants: Mutants) -> String {
    let mut out = String::new();
    let end = run(seed, mutants, None, Some(&mut out));
    format!("{out}{end:?}\nReplay it with SECKILL_MODEL_SEED={seed}")
}

#[test]
fn no_schedule_breaks_the_protocol() {
    if let Some(seed) = seed_from_outside() {
        let mutants = Mutants::default();
        assert_eq!(run(seed, mutants, None, None), Ok(()), "\n{}", trace(seed, mutants));
        return;
    }
    let n = if crate::support::long() { MANY_SCHEDULES } else { SCHEDULES };
    if let Some(broken) = search(Mutants::default(), 0, n) {
        panic!("{}: {}\n{}", broken.seed, broken.what, trace(broken.seed, Mutants::default()));
    }
}

#[test]
fn a_seed_is_one_schedule_for_ever() {
    let guards = Mutants::of(&[Guard::CommitBeforeAck]);
    let broken = search(guards, 0, 2000).expect("an early acknowledgement is seen");
    assert_eq!(run(broken.seed, guards, None, None), Err(broken.clone()));
    assert_eq!(trace(broken.seed, guards), trace(broken.seed, guards));
    assert!(trace(broken.seed, guards).contains("Settle"));
}

#[test]
fn a_schedule_is_found_for_every_guard_that_is_out() {
    for (guard, from, _) in mutants::SEEN {
        let mutants = Mutants::of(&[*guard]);
        // A little further than the seed that is known: a change of the model moves it.
        let found = search(mutants, *from, 200);
        assert!(found.is_some(), "{guard:?} is out and nobody notices from seed {from} on");
        assert_eq!(run(*from, Mutants::default(), None, None), Ok(()), "seed {from} with every guard in");
    }
    for (pair, from, what) in mutants::PAIRS {
        let mut found = (*from..from + 200).filter_map(|seed| run(seed, Mutants::of(pair), None, None).err());
        assert!(found.any(|broken| broken.what == *what), "{pair:?} are out and nobody says: {what}");
    }
}

#[test]
fn every_guard_is_in_the_table_of_those_seen_or_of_those_with_a_backup() {
    for guard in Guard::ALL {
        let seen = mutants::SEEN.iter().filter(|(g, ..)| *g == guard).count();
        let backup = mutants::BACKUPS.iter().filter(|(g, why)| *g == guard && !why.is_empty()).count();
        assert_eq!(seen + backup, 1, "{guard:?}");
    }
    for hole in 1..=23 {
        let closed = mutants::SEEN.iter().any(|(.., holes)| holes.split(", ").any(|h| h == hole.to_string()));
        // 6: two of its three ways; 9: the claim is changed by its own statement alone, there is no row to write back;
        // 22: liveness; 23: words on a page.
        assert!(closed || [9, 22, 23].contains(&hole), "hole {hole}");
    }
}

#[test]
fn the_small_cases_hold_in_every_order() {
    let faults = if crate::support::long() { 4 } else { 2 };
    for case in &CASES {
        let case = Case { faults, ..*case };
        for sqlite in [false, true] {
            let found = explore(&case, Mutants::default(), sqlite, 2_000_000);
            assert!(!found.cut && found.schedules > 50, "{}: {} schedules", case.name, found.schedules);
            if let Some((what, path)) = found.broken {
                panic!("{what}: {}", tell(&case, Mutants::default(), sqlite, &path));
            }
        }
    }
}

#[test]
fn the_small_cases_see_what_only_an_exact_order_shows() {
    let guards = [
        Guard::OneLiveOrder,
        Guard::HotRowEpoch,
        Guard::PollInOneStatement,
        Guard::LostOnlyByEpoch,
        Guard::ReadUnderLock,
        Guard::Drain,
        Guard::Close,
        Guard::CountReturnedRows,
        Guard::AckAndDeleteTogether,
        Guard::EarlySweep,
        Guard::CancelCondition,
        Guard::KnownPaymentIsLeftAlone,
        Guard::LateMoneyGoesBack,
        Guard::RefundKey,
        Guard::LoadDropsOldHolders,
    ];
    for guard in guards {
        let seen = CASES.iter().any(|case| {
            let case = Case { faults: 1, ..*case };
            explore(&case, Mutants::of(&[guard]), false, 2_000_000).broken.is_some()
        });
        assert!(seen, "{guard:?}");
    }
}
