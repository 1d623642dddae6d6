//! The deck of faults: which rows of the fault matrix one machine can fire, and how each is fired and healed again.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::{Resource, Signal};

use super::faults_stores as stores;
use super::history::Fired;
use super::world::World;
use crate::support::app::On;

/// What a fault takes hold of; two of one kind are not fired at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    App,
    Redis,
    Database,
    Clients,
}

/// How a fault is fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A process dies at a step.
    Die(&'static str),
    /// A process dies at a step of a rebuild that is brought about.
    DieRebuilding(&'static str),
    KillApp,
    FreezeApp,
    TerminateApp,
    /// A process is slow at a step for a while.
    Slow(&'static str, u32),
    NoDescriptors,
    WrongClock,
    KillRedis,
    CutTail,
    SetBack,
    Flush,
    /// Emptied while consumers hold entries in their hands.
    FlushInHand,
    DeleteKey,
    DeleteStream,
    DestroyGroup,
    FreezeRedis,
    PauseRedis,
    FullMemory,
    FullRedisDisk,
    ForgetScripts,
    ReadOnly,
    RedisLink,
    Copies,
    Unreadable,
    LockDatabase,
    DatabaseDown,
    FreezeDatabase,
    FullDatabaseDisk,
    DatabaseLink,
    AbortedClicks,
    ManyClicks,
    SlowReaders,
    Flood,
}

/// One card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    pub row: &'static str,
    pub hold: Hold,
    pub way: Way,
}

const fn card(row: &'static str, hold: Hold, way: Way) -> Card {
    Card { row, hold, way }
}

/// Every card; the rows that need a second machine, a second version or another provider are not here.
pub const DECK: [Card; 48] = [
    card("F1", Hold::App, Way::Die("before-script")),
    card("F2", Hold::App, Way::Die("after-script")),
    card("F3", Hold::App, Way::Die("after-read")),
    card("F4", Hold::App, Way::Die("tx-after-insert")),
    card("F4", Hold::App, Way::Die("tx-after-stock")),
    card("F4", Hold::App, Way::Die("tx-before-commit")),
    card("F5", Hold::App, Way::Die("after-commit")),
    card("F6", Hold::App, Way::Die("after-ack")),
    card("F7", Hold::App, Way::Die("cancel-before-commit")),
    card("F7", Hold::App, Way::Die("cancel-after-commit")),
    card("F8", Hold::App, Way::Die("outbox-after-apply")),
    card("F9", Hold::App, Way::Die("callback-after-commit")),
    card("F10", Hold::App, Way::Die("refund-after-call")),
    card("F11", Hold::App, Way::DieRebuilding("rebuild-after-close")),
    card("F11", Hold::App, Way::DieRebuilding("rebuild-after-load")),
    card("F12", Hold::Redis, Way::KillRedis),
    card("F13", Hold::Redis, Way::CutTail),
    card("F13", Hold::Redis, Way::SetBack),
    card("F15", Hold::Redis, Way::Flush),
    card("F15", Hold::Redis, Way::FlushInHand),
    card("F16", Hold::Redis, Way::DeleteKey),
    card("F16", Hold::Redis, Way::DeleteStream),
    card("F16", Hold::Redis, Way::DestroyGroup),
    card("F17", Hold::Redis, Way::FreezeRedis),
    card("F17", Hold::Redis, Way::PauseRedis),
    card("F21", Hold::Redis, Way::FullMemory),
    card("F22", Hold::Redis, Way::FullRedisDisk),
    card("F23", Hold::Redis, Way::ForgetScripts),
    card("F23", Hold::Redis, Way::ReadOnly),
    card("F24", Hold::Database, Way::DatabaseDown),
    card("F25", Hold::Database, Way::FreezeDatabase),
    card("F26", Hold::Database, Way::DatabaseLink),
    card("F26", Hold::Redis, Way::RedisLink),
    card("F27", Hold::Database, Way::LockDatabase),
    card("F28", Hold::Database, Way::FullDatabaseDisk),
    card("F30", Hold::Redis, Way::Copies),
    card("F31", Hold::App, Way::FreezeApp),
    card("F31", Hold::App, Way::KillApp),
    card("F32", Hold::App, Way::Slow("tx-after-stock", 60)),
    card("F32", Hold::App, Way::Slow("after-read", 700)),
    card("F33", Hold::Redis, Way::Unreadable),
    card("F34", Hold::App, Way::WrongClock),
    card("F35", Hold::Clients, Way::AbortedClicks),
    card("F36", Hold::Clients, Way::ManyClicks),
    card("F39", Hold::Clients, Way::SlowReaders),
    card("F40", Hold::Clients, Way::Flood),
    card("F41", Hold::App, Way::TerminateApp),
    card("F47", Hold::App, Way::NoDescriptors),
];

impl Card {
    /// Whether this card can be fired at a storm on `on`.
    pub fn fits(&self, on: On) -> bool {
        match self.way {
            // The one is a file, the other a server.
            Way::DatabaseDown | Way::FreezeDatabase | Way::DatabaseLink => on == On::Postgres,
            Way::FullDatabaseDisk => on == On::Sqlite,
            _ => true,
        }
    }
}

/// What came of a card: what was done, and whether Redis may have forgotten entries.
pub struct Done {
    pub what: String,
    pub loses: bool,
}

/// Nothing that Redis had taken is forgotten by it.
pub fn done(what: impl Into<String>) -> Done {
    Done { what: what.into(), loses: false }
}

/// No card takes longer, its restarts included; one that does is a finding, not a test that hangs.
const MOST: Duration = Duration::from_mins(1);

/// Fires a card, waits, heals, and writes it into the history.
pub async fn fire(world: &Arc<World>, rng: &mut StdRng, card: Card) {
    let from = world.history.now();
    let fired = tokio::time::timeout(MOST, Box::pin(by_way(world, rng, card.way))).await;
    let done = fired.unwrap_or_else(|_| {
        world.history.wrong(&format!("{card:?} did not come to its end within {MOST:?}"));
        Done { what: format!("{:?}, given up", card.way), loses: true }
    });
    let to = world.history.now();
    world.history.fired(Fired { row: card.row, what: done.what, from, to, loses: done.loses });
}

async fn by_way(world: &Arc<World>, rng: &mut StdRng, way: Way) -> Done {
    match way {
        Way::Die(step) => die(world, rng, step, false).await,
        Way::DieRebuilding(step) => die(world, rng, step, true).await,
        Way::KillApp => {
            let n = rng.random_range(0..2);
            world.slots[n].kill();
            back(world, n).await;
            done(format!("kill -9 of server {n}"))
        }
        Way::FreezeApp => {
            let (n, ms) = (rng.random_range(0..2), rng.random_range(500..4000));
            world.slots[n].signal(Signal::STOP);
            pause(ms).await;
            world.slots[n].signal(Signal::CONT);
            done(format!("server {n} stopped for {ms} ms"))
        }
        Way::TerminateApp => terminate(world, rng.random_range(0..2)).await,
        Way::Slow(step, ms) => {
            let n = rng.random_range(0..2);
            world.slots[n].restart_with(&format!("{step}={ms}"));
            back(world, n).await;
            pause(2500).await;
            world.slots[n].kill();
            back(world, n).await;
            done(format!("server {n} takes {ms} ms at {step}"))
        }
        Way::NoDescriptors => {
            let n = rng.random_range(0..2);
            world.slots[n].limit(Resource::Nofile, Some(24));
            let address = world.slots[n].base.trim_start_matches("http://").to_owned();
            let mut held = Vec::new();
            for _ in 0..40 {
                held.extend(tokio::time::timeout(Duration::from_millis(20), tokio::net::TcpStream::connect(&address)).await);
            }
            pause(1500).await;
            world.slots[n].limit(Resource::Nofile, None);
            done(format!("server {n} has no descriptors left"))
        }
        Way::WrongClock => {
            let (n, error) = (rng.random_range(0..2), *[-40_000, -3_000, 3_000, 40_000].choose(rng).unwrap());
            world.slots[n].restart_with(&format!("clock={error}"));
            back(world, n).await;
            pause(3000).await;
            world.slots[n].kill();
            back(world, n).await;
            done(format!("the clock of server {n} is {error} ms ahead"))
        }
        Way::AbortedClicks => super::crowds::aborted_clicks(world, rng).await,
        Way::ManyClicks => super::crowds::many_clicks(world, rng).await,
        Way::SlowReaders => super::crowds::slow_readers(world, rng).await,
        Way::Flood => super::crowds::flood(world, rng).await,
        of_a_store => stores::fire(world, rng, of_a_store).await,
    }
}

pub async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Waits until a server of this place listens again.
pub async fn back(world: &World, n: usize) {
    let starts = world.slots[n].now().starts;
    // Of a kill that was ordered a moment ago nothing may be known yet.
    world.slots[n].until(Duration::from_millis(500), |state| !state.ready || state.starts > starts).await;
    if !world.slots[n].until(Duration::from_secs(20), |state| state.ready).await {
        world.history.wrong(&format!("server {n} does not listen within 20 s of its start"));
    }
}

async fn die(world: &World, rng: &mut StdRng, step: &'static str, rebuilding: bool) -> Done {
    let n = rng.random_range(0..2);
    let ends = world.slots[n].now().ends;
    world.slots[n].restart_with(step);
    let slot = &world.slots[n];
    // Killed once by us; the second end is its own.
    slot.until(Duration::from_secs(20), |state| state.ends > ends && (state.ready || state.ends > ends + 1)).await;
    // Each server rebuilds; the one that is to die comes to it sooner or later.
    for _ in 0..if rebuilding { 8 } else { 0 } {
        let (voucher, _) = world.sales[rng.random_range(0..world.sales.len())];
        world.redis::<i64>(&["DEL", &format!("seckill:{{0}}:sale:{voucher}")]).await;
        if slot.until(Duration::from_millis(1500), |state| state.ends > ends + 1).await {
            break;
        }
    }
    let died = slot.until(Duration::from_secs(6), |state| state.ends > ends + 1).await;
    if !died {
        slot.kill();
    }
    back(world, n).await;
    done(format!("server {n} {} {step}", if died { "died at" } else { "did not come to" }))
}

async fn terminate(world: &World, n: usize) -> Done {
    let before = world.slots[n].now();
    world.slots[n].signal(Signal::TERM);
    let ended = world.slots[n].until(Duration::from_secs(12), |state| state.ends > before.ends).await;
    let code = world.slots[n].now().last_code;
    if before.ready && (!ended || code != Some(0)) {
        world.history.wrong(&format!("server {n} was asked to end and ended {ended} with {code:?}"));
    }
    if !ended {
        world.slots[n].kill();
    }
    back(world, n).await;
    done(format!("SIGTERM of server {n} under load"))
}
