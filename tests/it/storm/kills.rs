//! Deaths without any other fault: two servers killed at random in the middle of a sale, and at every step there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::faults::{DECK, Way, back, fire, pause};
use super::history::{Answer, Fired};
use super::world::{Plan, World};
use super::{load, say, settle};
use crate::support::app::On;
use crate::support::long;

/// Everybody presses until there is a definite answer; each `every` orders a server dies.
async fn killed_at_random(on: On, orders: usize, kills: usize) {
    let stock = i64::try_from(orders).unwrap();
    let plan = Plan { people: orders, stocks: vec![stock], pay_window: Duration::from_hours(1), ..Plan::new(on) };
    let world = Box::pin(World::start(plan)).await;
    assert!(world.open_again().await.is_some());
    let voucher = world.sales[0].0;
    let (next, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut clients = tokio::task::JoinSet::new();
    for slot in 0..24 {
        let (world, next, told) = (world.clone(), next.clone(), told.clone());
        clients.spawn(async move {
            loop {
                let client = next.fetch_add(1, Ordering::Relaxed);
                if client >= orders {
                    return;
                }
                let mut slot = slot;
                while !matches!(world.buy(slot % 2, client, voucher).await.0, Answer::Told(_) | Answer::No(_, Some(_))) {
                    slot += 1;
                    pause(20).await;
                }
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut rng = StdRng::seed_from_u64(rand::random());
    for kill in 0..kills {
        let after = orders * kill / kills + rng.random_range(0..orders / kills);
        while told.load(Ordering::Relaxed) < after.min(orders - 1) {
            pause(1).await;
        }
        let n = rng.random_range(0..2);
        world.slots[n].until(Duration::from_secs(20), |state| state.ready).await;
        world.slots[n].kill();
        let now = world.history.now();
        world.history.fired(Fired { row: "F31", what: format!("kill -9 of server {n}"), from: now, to: now, loses: false });
    }
    clients.join_all().await;
    for n in 0..2 {
        back(&world, n).await;
    }
    let (judged, wrong) = Box::pin(settle(&world, &AtomicBool::new(false), Vec::new())).await;
    assert_eq!(wrong, Vec::<String>::new());
    let live = judged.rest.rows.values().filter(|row| row.live).count();
    assert_eq!((judged.rest.rows.len(), live), (orders, orders), "every order once, none lost");
    say(&format!("{on:?}: {kills} kills during {orders} orders of two servers: {live} live orders, none lost, none twice"));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_two_servers_lose_no_order_and_double_none() {
    let (orders, kills) = if long() { (5_000, 20) } else { (600, 5) };
    killed_at_random(On::Sqlite, orders, kills).await;
    if long() {
        killed_at_random(On::Postgres, orders, kills).await;
    }
}

/// A death at every step, under load, each until it happened.
async fn dead_at_every_step(on: On) {
    let world = Box::pin(World::start(Plan::new(on))).await;
    assert!(world.open_again().await.is_some());
    let stop = Arc::new(AtomicBool::new(false));
    let seed = rand::random();
    let crowd = load::crowd(&world, seed, 16, &stop);
    let mut rng = StdRng::seed_from_u64(seed);
    for card in DECK.into_iter().filter(|card| matches!(card.way, Way::Die(_) | Way::DieRebuilding(_))) {
        let mut died = false;
        for _ in 0..4 {
            Box::pin(fire(&world, &mut rng, card)).await;
            died = world.history.faults().last().is_some_and(|fired| fired.what.contains("died at"));
            if died {
                break;
            }
        }
        assert!(died, "nobody died at {:?}", card.way);
    }
    let (judged, wrong) = Box::pin(settle(&world, &stop, crowd)).await;
    assert_eq!(wrong, Vec::<String>::new());
    say(&format!("{on:?}: {} deaths, one at each step, {} orders", judged.faults.len(), judged.rest.rows.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_at_every_step_on_postgres() {
    dead_at_every_step(On::Postgres).await;
    if long() {
        dead_at_every_step(On::Sqlite).await;
    }
}
