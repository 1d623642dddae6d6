//! The storm: real servers under load, faults fired from a printed seed, and a checker that judges what everybody heard.
//!
//! `SECKILL_STORM_SEED` repeats a storm, `SECKILL_STORM_SECONDS` makes it long: `make storm`.
#![cfg(feature = "fault-injection")]

mod absent;
mod checker;
mod checker_tests;
mod crowds;
mod faults;
mod faults_stores;
mod history;
mod kills;
mod link;
mod load;
mod mutants;
mod postgres;
mod report;
mod rest;
mod slot;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::support::app::On;
use checker::{Judged, judge};
use faults::{Card, DECK, Hold, Way, fire, pause};
use report::Head;
use world::{Plan, World};

#[expect(clippy::disallowed_methods, reason = "no option of the program: it belongs to the tests alone")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[expect(clippy::print_stdout, reason = "whoever repeats a storm needs its seed")]
fn say(text: &str) {
    println!("{text}");
}

/// Fires cards for `time`: every one that fits once, in an order of the seed's, then again; now and then two at once.
async fn blow(world: &Arc<World>, rng: &mut StdRng, time: Duration) {
    let started = Instant::now();
    let mut deck: Vec<Card> = Vec::new();
    while started.elapsed() < time {
        if deck.is_empty() {
            deck = DECK.into_iter().filter(|card| card.fits(world.on)).collect();
            deck.shuffle(rng);
        }
        let card = deck.pop().unwrap();
        let second = deck.last().copied().filter(|second| rng.random_bool(0.35) && go_together(card, *second));
        if let Some(second) = second {
            deck.pop();
            let mut other = StdRng::seed_from_u64(rng.random());
            Box::pin(async { tokio::join!(fire(world, rng, card), fire(world, &mut other, second)) }).await;
        } else {
            Box::pin(fire(world, rng, card)).await;
        }
        pause(rng.random_range(100..900)).await;
    }
}

fn go_together(a: Card, b: Card) -> bool {
    let of_servers = |card: Card| card.hold == Hold::App || matches!(card.way, Way::FlushInHand | Way::FullDatabaseDisk);
    // What a server that is asked to end needs must be there.
    let alone = |card: Card| card.way == Way::TerminateApp;
    let in_the_way = a.hold == b.hold || (of_servers(a) && of_servers(b));
    !in_the_way && !alone(a) && !alone(b)
}

/// One storm from its seed; what is wrong.
async fn storm(on: On, seed: u64, seconds: u64) -> Vec<String> {
    let head = Head { seed, on, seconds };
    say(&format!("storm: SECKILL_STORM_SEED={seed} on {on:?} for {seconds} s"));
    let world = Box::pin(World::start(Plan::new(on))).await;
    // A new sale is known everywhere within a second.
    assert!(world.open_again().await.is_some(), "it does not sell before the storm");
    let mut rng = StdRng::seed_from_u64(seed);
    let stop = Arc::new(AtomicBool::new(false));
    let crowd = load::crowd(&world, seed, 16, &stop);
    blow(&world, &mut rng, Duration::from_secs(seconds)).await;
    let (judged, wrong) = Box::pin(settle(&world, &stop, crowd)).await;
    let path = report::write(&head, &world.history, &judged, &wrong);
    say(&format!("storm {seed} on {on:?}: {} faults, {} calls, {}", judged.faults.len(), judged.calls.len(), path.display()));
    if !wrong.is_empty() {
        report::keep_logs(&head, &world.shop.data());
    }
    wrong
}

/// Heals, waits for rest, stops everything and judges.
async fn settle(world: &Arc<World>, stop: &AtomicBool, crowd: Vec<tokio::task::JoinHandle<()>>) -> (Judged, Vec<String>) {
    world.heal();
    let open_after = world.open_again().await;
    stop.store(true, Ordering::Relaxed);
    for task in crowd {
        let ended = tokio::time::timeout(Duration::from_secs(30), task).await;
        ended.expect("everybody goes home within 30 s").unwrap();
    }
    let rest = world.at_rest(open_after).await;
    match tokio::time::timeout(Duration::from_secs(90), world.shop.audit()).await {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => world.history.wrong(&format!("the audit: {problem}")),
        Err(_) => world.history.wrong("the audit does not end within 90 s"),
    }
    let codes = world.stop().await;
    if codes != [0, 0] {
        world.history.wrong(&format!("the servers ended with {codes:?}"));
    }
    let history = &world.history;
    // Ten seconds, where the machine is the storm's own; in a run of all tests others take its time.
    let open_within = if number("SECKILL_STORM_SECONDS").is_some() { 10_000 } else { 40_000 };
    let judged = Judged {
        calls: history.calls(),
        pushes: history.pushes(),
        faults: history.faults(),
        rest,
        wrongs: history.wrongs(),
        sums: history.sums(),
        open_within,
    };
    let wrong = judge(&judged);
    (judged, wrong)
}

async fn short_storm(on: On) {
    let seed = number("SECKILL_STORM_SEED").unwrap_or_else(rand::random);
    let seconds = number("SECKILL_STORM_SECONDS").unwrap_or(40);
    let wrong = Box::pin(storm(on, seed, seconds)).await;
    assert!(wrong.is_empty(), "the storm of seed {seed} on {on:?} is red:\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_on_sqlite_breaks_no_promise() {
    short_storm(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_on_postgres_breaks_no_promise() {
    short_storm(On::Postgres).await;
}
