//! The protocol as a model: one step is a point at which a process can die or be overtaken, and the steps of many
//! processes are mixed at random, from a seed. No server is started here; the rules are `seckill::domain`'s own.

#![expect(clippy::cast_possible_truncation, reason = "every number here is small, so that a world is small")]

mod checks;
mod faults;
mod mutants;
mod schedule;
mod server;
mod sql;
mod steps;
mod stream;
mod world;

use std::thread;

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
