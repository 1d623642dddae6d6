//! Faults of Redis and of the database.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::{Resource, Rlimit, prlimit};

use super::faults::{Done, Way, back, done, pause};
use super::world::World;
use crate::support::app::On;

const STREAM: &str = "stream.orders:{0}";

/// Fires one.
pub async fn fire(world: &Arc<World>, rng: &mut StdRng, way: Way) -> Done {
    match way {
        Way::KillRedis => {
            let mut redis = world.redis.lock().await;
            redis.kill();
            pause(rng.random_range(0..1500)).await;
            redis.start_again().await;
            done("kill -9 of Redis")
        }
        Way::CutTail => cut_tail(world, rng).await,
        Way::SetBack => set_back(world, rng).await,
        Way::Flush => flush(world, "emptied").await,
        Way::FlushInHand => {
            for n in 0..2 {
                world.slots[n].restart_with("after-read=1500");
            }
            for n in 0..2 {
                back(world, n).await;
            }
            pause(800).await;
            let it = flush(world, "emptied while consumers hold entries").await;
            pause(1500).await;
            for n in 0..2 {
                world.slots[n].kill();
                back(world, n).await;
            }
            it
        }
        Way::DeleteKey => {
            let (voucher, _) = world.sales[rng.random_range(0..world.sales.len())];
            let of_sale = ["stock", "order", "sale"].map(|key| format!("seckill:{{0}}:{key}:{voucher}"));
            let counter = format!("icr:order:{}", seckill::clock::Clock::default().now().rfc3339()[..10].replace('-', ":"));
            let key = of_sale.into_iter().chain([counter]).collect::<Vec<_>>().choose(rng).unwrap().clone();
            world.redis::<i64>(&["DEL", &key]).await;
            done(format!("DEL {key}"))
        }
        Way::DeleteStream => {
            world.redis::<i64>(&["DEL", STREAM]).await;
            Done { what: format!("DEL {STREAM}"), loses: true }
        }
        Way::DestroyGroup => {
            world.redis::<i64>(&["XGROUP", "DESTROY", STREAM, "g1"]).await;
            done("XGROUP DESTROY")
        }
        Way::FreezeRedis => {
            let ms = rng.random_range(300..4000);
            world.redis.lock().await.freeze();
            pause(ms).await;
            world.redis.lock().await.thaw();
            done(format!("Redis stopped for {ms} ms"))
        }
        Way::PauseRedis => {
            let ms = rng.random_range(500..2500);
            world.redis::<String>(&["CLIENT", "PAUSE", &ms.to_string(), "WRITE"]).await;
            pause(ms).await;
            done(format!("CLIENT PAUSE {ms} WRITE"))
        }
        Way::FullMemory => {
            world.redis::<String>(&["CONFIG", "SET", "maxmemory", "100kb"]).await;
            pause(rng.random_range(500..2500)).await;
            world.redis::<String>(&["CONFIG", "SET", "maxmemory", "0"]).await;
            done("maxmemory reached")
        }
        Way::FullRedisDisk => full_redis_disk(world, rng).await,
        Way::ForgetScripts => {
            for _ in 0..40 {
                world.redis::<String>(&["SCRIPT", "FLUSH"]).await;
                pause(20).await;
            }
            done("SCRIPT FLUSH, 40 times")
        }
        Way::ReadOnly => {
            world.redis::<String>(&["REPLICAOF", "127.0.0.1", "1"]).await;
            pause(rng.random_range(500..2500)).await;
            world.redis::<String>(&["REPLICAOF", "NO", "ONE"]).await;
            done("read-only, as after a failover")
        }
        Way::Copies => copies(world, rng).await,
        Way::Unreadable => unreadable(world).await,
        Way::RedisLink => link(&world.to_redis, rng, "Redis").await,
        of_the_database => fire_at_database(world, rng, of_the_database).await,
    }
}

async fn fire_at_database(world: &Arc<World>, rng: &mut StdRng, way: Way) -> Done {
    match way {
        Way::DatabaseLink => {
            let link_to = world.to_postgres.as_ref().expect("fits PostgreSQL only");
            link_to.cut_after_commit(rng.random_range(1..6));
            pause(rng.random_range(500..1500)).await;
            let it = link(link_to, rng, "the database").await;
            done(format!("COMMITs whose answer is lost, then {}", it.what))
        }
        Way::LockDatabase => {
            let ms = rng.random_range(300..4000);
            let locks = "UPDATE flash_sale SET stock_left = stock_left";
            world.hold(locks, Duration::from_millis(ms)).await;
            done(format!("another program holds the lock for {ms} ms"))
        }
        Way::DatabaseDown => {
            let ms = rng.random_range(200..3000);
            let mut postgres = world.postgres.as_ref().expect("fits PostgreSQL only").lock().await;
            tokio::task::block_in_place(|| postgres.crash());
            pause(ms).await;
            tokio::task::block_in_place(|| postgres.start_again());
            done(format!("the database crashed and was away for {ms} ms"))
        }
        Way::FreezeDatabase => {
            let ms = rng.random_range(300..4000);
            let postgres = world.postgres.as_ref().expect("fits PostgreSQL only").lock().await;
            postgres.freeze(true);
            pause(ms).await;
            postgres.freeze(false);
            done(format!("the database stopped for {ms} ms"))
        }
        Way::FullDatabaseDisk => {
            assert_eq!(world.on, On::Sqlite);
            for slot in &world.slots {
                slot.limit(Resource::Fsize, Some(64 * 1024));
            }
            pause(rng.random_range(500..2500)).await;
            for slot in &world.slots {
                slot.limit(Resource::Fsize, None);
            }
            done("no room for the database's files")
        }
        _ => unreachable!("not a fault of a store"),
    }
}

async fn cut_tail(world: &World, rng: &mut StdRng) -> Done {
    let mut redis = world.redis.lock().await;
    redis.kill();
    let size = redis.log_size();
    let cut = (1_u64 << rng.random_range(0..17)).min(size / 2);
    redis.cut_log_to(size - cut);
    redis.start_again().await;
    world.log_in_again().await;
    Done { what: format!("Redis lost the last {cut} bytes of its log"), loses: true }
}

async fn set_back(world: &World, rng: &mut StdRng) -> Done {
    let mut redis = world.redis.lock().await;
    let size = redis.log_size();
    let ms = rng.random_range(200..2500);
    pause(ms).await;
    redis.kill();
    // A rewrite in between made a new, shorter file; then the old moment is gone.
    redis.cut_log_to(size.min(redis.log_size()));
    redis.start_again().await;
    world.log_in_again().await;
    Done { what: format!("Redis set back by {ms} ms"), loses: true }
}

async fn flush(world: &World, what: &str) -> Done {
    world.redis::<String>(&["FLUSHALL"]).await;
    pause(300).await;
    world.log_in_again().await;
    Done { what: format!("Redis {what}"), loses: true }
}

async fn full_redis_disk(world: &World, rng: &mut StdRng) -> Done {
    let mut redis = world.redis.lock().await;
    let policy = *["always", "everysec"].choose(rng).unwrap();
    world.redis::<String>(&["CONFIG", "SET", "appendfsync", policy]).await;
    let size = redis.log_size();
    let hard = rustix::process::getrlimit(Resource::Fsize).maximum;
    let limit = |current| prlimit(Some(redis.pid()), Resource::Fsize, Rlimit { current, maximum: hard });
    let limited = limit(Some(size + 2000));
    pause(rng.random_range(1000..2500)).await;
    let _it_may_have_ended = limit(hard);
    let ended = redis.has_ended();
    if ended {
        redis.start_again().await;
    } else {
        world.redis::<String>(&["CONFIG", "SET", "appendfsync", "always"]).await;
    }
    // With `everysec` an answer may be given before its write is known to have failed.
    Done { what: format!("no room for Redis' log ({policy}, {limited:?}, ended {ended})"), loses: policy == "everysec" && ended }
}

/// Entries that are there, and some that were, once more and out of order.
async fn copies(world: &World, rng: &mut StdRng) -> Done {
    type Entry = (String, Vec<String>);
    let mut seen: Vec<Entry> = Vec::new();
    for _ in 0..20 {
        seen.extend(world.redis::<Vec<Entry>>(&["XRANGE", STREAM, "-", "+", "COUNT", "50"]).await.unwrap_or_default());
        pause(20).await;
    }
    // Not the ones that were put in by hand.
    seen.retain(|(_, fields)| {
        fields.get(1).is_some_and(|id| id.len() > 15 && id.bytes().all(|b| b.is_ascii_digit()) && !id.starts_with("9999"))
    });
    let mut added = 0;
    for _ in 0..60 {
        let Some((_, fields)) = seen.choose(rng) else { break };
        let words = ["XADD", STREAM, "NOMKSTREAM", "*"].into_iter().chain(fields.iter().map(String::as_str));
        added += usize::from(world.redis::<String>(&words.collect::<Vec<_>>()).await.is_some());
    }
    done(format!("{added} copies of entries"))
}

/// Entries that no program of ours wrote.
async fn unreadable(world: &World) -> Done {
    let kinds: [&[&str]; 12] = [
        &["x", "y"],
        &["id", "abc", "userId", "1", "voucherId", "1", "epoch", "1", "admittedAt", "1"],
        &["id", "9999999999999999999999", "userId", "1", "voucherId", "1", "epoch", "1", "admittedAt", "1"],
        &["id", "5", "userId", "abc", "voucherId", "1", "epoch", "1", "admittedAt", "1"],
        &["id", "6", "userId", "1", "voucherId", "999999", "epoch", "1", "admittedAt", "1"],
        &["id", "7", "userId", "1", "voucherId", "1", "epoch", "1"],
        &["id", "", "userId", "", "voucherId", "", "epoch", "", "admittedAt", ""],
        &["id", "-8", "userId", "1", "voucherId", "1", "epoch", "1", "admittedAt", "1"],
        &["userId", "1", "voucherId", "1", "epoch", "1", "admittedAt", "1"],
        &["id", "1e3", "userId", "1", "voucherId", "1", "epoch", "1", "admittedAt", "1"],
        &["id", "10", "userId", "1", "voucherId", "1", "epoch", "-1", "admittedAt", "1"],
        &["\u{0}", "\u{7f}"],
    ];
    let mut added = 0;
    for kind in kinds {
        let words: Vec<&str> = ["XADD", STREAM, "NOMKSTREAM", "*"].iter().chain(kind).copied().collect();
        added += usize::from(world.redis::<String>(&words).await.is_some());
    }
    world.history.unreadable(added);
    done(format!("{added} entries that cannot be read"))
}

async fn link(link: &super::link::Link, rng: &mut StdRng, to: &str) -> Done {
    let ms = rng.random_range(300..2500);
    let what = match rng.random_range(0..5) {
        0 => {
            link.swallow(rng.random_range(1..8));
            "swallows answers"
        }
        1 => {
            link.cut(true);
            "is cut"
        }
        2 => {
            link.cut(false);
            "is reset"
        }
        3 => {
            link.delay(Duration::from_millis(rng.random_range(20..300)));
            "is slow"
        }
        _ => {
            link.hang(true);
            "hangs"
        }
    };
    pause(ms).await;
    link.heal();
    done(format!("the line to {to} {what} for {ms} ms"))
}
