//! Guards taken out, one at a time, each with a schedule that needs it: the checker must turn red, and with the guard in it
//! must stay green.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::checker::judge;
use super::faults::{back, pause};
use super::history::{Answer, Fired};
use super::load::Mine;
use super::say;
use super::world::{Plan, World};
use crate::support::app::On;
use crate::support::until;

const SOON: Duration = Duration::from_secs(15);

/// Runs `schedule` with all guards and without `mutant`.
async fn noticed(mutant: &'static str, schedule: impl AsyncFn(&Arc<World>)) {
    for out in ["", mutant] {
        let plan = Plan { people: 64, mutant: out, rest_within: Duration::from_secs(12), ..Plan::new(On::Sqlite) };
        let world = Box::pin(World::start(plan)).await;
        assert!(world.open_again().await.is_some(), "it does not sell");
        let over = Arc::new(AtomicBool::new(false));
        let looks = super::load::look_at_gates(world.clone(), over.clone(), Duration::from_millis(10));
        Box::pin(schedule(&world)).await;
        let (judged, _) = Box::pin(super::settle(&world, &over, vec![looks])).await;
        let wrong = judge(&judged);
        say(&format!("without {out:?}: {}", wrong.first().map_or("green", String::as_str)));
        assert_eq!(wrong.is_empty(), out.is_empty(), "without {out:?}: {wrong:?}");
        assert!(over.load(Ordering::Relaxed));
    }
}

impl World {
    fn plenty(&self) -> i64 {
        self.sales[0].0
    }

    /// Buys one unit for sure; panics after a while.
    async fn bought(&self, client: usize, voucher: i64) -> Mine {
        let started = tokio::time::Instant::now();
        loop {
            if let (Answer::Told(_) | Answer::No(_, Some(_)), Some(mine)) = self.buy(client % 2, client, voucher).await {
                return mine;
            }
            assert!(started.elapsed() < SOON, "client {client} cannot buy");
            pause(30).await;
        }
    }

    async fn reads(&self, client: usize, mine: &Mine, status: &str) {
        until(status, SOON, async || self.read(0, client, mine).await.is_some_and(|shown| shown.status == status)).await;
    }

    /// Both servers start anew with this fault.
    async fn both_with(&self, fault: &str) {
        for n in 0..2 {
            self.slots[n].restart_with(fault);
        }
        for n in 0..2 {
            back(self, n).await;
        }
        until("ready", SOON, async || self.sells().await).await;
    }

    fn did(&self, row: &'static str, what: &str, loses: bool) {
        let now = self.history.now();
        self.history.fired(Fired { row, what: what.to_owned(), from: now, to: now, loses });
    }

    async fn in_hand(&self) {
        until("a consumer holds entries", SOON, async || {
            let summary: Option<(i64, redis::Value, redis::Value, redis::Value)> =
                self.redis(&["XPENDING", "stream.orders:{0}", "g1"]).await;
            summary.is_some_and(|summary| summary.0 > 0)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_the_epoch_is_noticed() {
    noticed("no-epoch", async |world| {
        world.both_with("after-read=3000").await;
        let mut told = Vec::new();
        for client in 1..6 {
            told.push((client, world.bought(client, world.plenty()).await));
        }
        world.in_hand().await;
        world.redis::<String>(&["FLUSHALL"]).await;
        world.did("F15", "FLUSHALL", true);
        // The books are closed without them; that is said, and stays so when the consumers wake up.
        for (client, mine) in &told {
            until("a verdict", SOON, async || world.read(0, *client, mine).await.is_some_and(|shown| shown.status != "QUEUED"))
                .await;
        }
        world.log_in_again().await;
        pause(3500).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_increment_is_noticed() {
    noticed("bare-incr", async |world| {
        // More than once: a server that comes back may repair the gate, and the release with it, before it comes again.
        for client in 1..4 {
            let mine = world.bought(client, world.plenty()).await;
            world.reads(client, &mine, "PENDING").await;
            let ends = [0, 1].map(|n| world.slots[n].now().ends);
            world.both_with("outbox-after-apply").await;
            // Whoever returns the unit dies between the gate and the outbox. A server that is hardly back may answer BUSY: then
            // nothing was cancelled, and nobody has anything to die of.
            until("one dies", SOON, async || {
                let _it_dies = world.cancel(0, client, mine.order).await;
                (0..2).any(|n| world.slots[n].now().ends > ends[n] + 1)
            })
            .await;
            for n in 0..2 {
                back(world, n).await;
            }
            pause(1000).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_before_the_commit_is_noticed() {
    noticed("ack-before-commit", async |world| {
        for n in 0..2 {
            world.slots[n].restart_with("tx-before-commit");
        }
        for n in 0..2 {
            back(world, n).await;
        }
        for client in 1..4 {
            world.bought(client, world.plenty()).await;
            pause(300).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_that_is_asked_before_the_holder_is_noticed() {
    noticed("stock-before-holder", async |world| {
        let (few, stock) = world.sales[1];
        let winners = usize::try_from(stock).unwrap();
        // Client 0 has one from the first look.
        for client in 0..winners {
            let mine = world.bought(client, few).await;
            world.reads(client, &mine, "PENDING").await;
        }
        for client in 0..winners {
            let (_, mine) = world.buy(client % 2, client, few).await;
            if let Some(mine) = mine {
                world.read(0, client, &mine).await;
            }
        }
        // They still hold them after that.
        for (order, (client, ticket)) in world.history.tickets() {
            world.read(0, client, &Mine { order, ticket }).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_on_the_request_path_is_noticed() {
    noticed("reload-on-request", async |world| {
        let (few, stock) = world.sales[1];
        let half = usize::try_from(stock).unwrap() / 2;
        world.both_with("after-read=2500").await;
        for client in 1..=half {
            world.bought(client, few).await;
        }
        world.in_hand().await;
        world.redis::<i64>(&["DEL", &format!("seckill:{{0}}:stock:{few}")]).await;
        world.did("F16", "DEL stock", false);
        for _ in 0..3 {
            join_all((half + 1..half + 30).map(|client| world.buy(client % 2, client, few))).await;
        }
        pause(3000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_apart_from_the_removal_is_noticed() {
    noticed("settle-apart", async |world| {
        for n in 0..2 {
            world.slots[n].restart_with("between-ack-and-del");
        }
        for n in 0..2 {
            back(world, n).await;
        }
        for client in 1..4 {
            world.bought(client, world.plenty()).await;
            pause(300).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_nobody_registers_are_noticed() {
    noticed("blocks-not-registered", async |world| {
        let counter = format!("icr:order:{}", seckill::clock::Clock::default().now().rfc3339()[..10].replace('-', ":"));
        for n in 0..2 {
            world.redis::<i64>(&["DEL", &counter]).await;
            world.slots[n].kill();
            back(world, n).await;
        }
        until("ready", SOON, async || world.sells().await).await;
        for client in (1..60).step_by(2) {
            tokio::join!(world.buy(0, client, world.plenty()), world.buy(1, client + 1, world.plenty()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_went_back_in_time_is_noticed_without_run_id_and_unique_index() {
    noticed("no-run-id", async |world| {
        if world.slots[0].mutant().contains("no-run-id") {
            world.alter("DROP INDEX orders_one_live").await;
        }
        let from = world.redis.lock().await.log_size();
        for client in 1..6 {
            let mine = world.bought(client, world.plenty()).await;
            world.reads(client, &mine, "PENDING").await;
        }
        {
            let mut redis = world.redis.lock().await;
            redis.kill();
            redis.cut_log_to(from);
            redis.start_again().await;
        }
        world.did("F13", "Redis set back", true);
        until("ready", SOON, async || world.sells().await).await;
        for client in 1..6 {
            world.bought(client, world.plenty()).await;
        }
        pause(1500).await;
    })
    .await;
}
