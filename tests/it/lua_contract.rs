//! Every script against a real server: the answers that its header lists, its edges, and `admit.lua` beside its readable
//! twin `verdict` over one table.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use seckill::domain::admission::Admission;
use seckill::domain::ids::{OrderId, UserId, VoucherId};
use seckill::domain::sale::{GateView, verdict};
use seckill::domain::time::Millis;
use seckill::gate::{Close, Gate, GateError, Load, Release};
use seckill::queue::{Queue, StreamId};

use crate::support::redis::TestRedis;
use crate::support::until;

const SOON: std::time::Duration = std::time::Duration::from_secs(15);

const V: VoucherId = VoucherId(10);
const BACKLOG: i64 = 1000;

#[expect(clippy::disallowed_methods, reason = "windows are judged by the server's clock, which no test can move")]
fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn sale(voucher: VoucherId, claim: i64, left: i64, holders: &[(UserId, OrderId)]) -> Load<'_> {
    let total = left + i64::try_from(holders.len()).unwrap();
    let (begin, end) = (Millis(now() - 60_000), Millis(now() + 600_000));
    Load { voucher, claim, left, holders, total, paused: false, begin, end }
}

async fn opened(redis: &TestRedis, left: i64, holders: &[(UserId, OrderId)]) -> Gate {
    let gate = Gate::new(redis.open().await, 1);
    assert!(gate.load(&sale(V, 1, left, holders)).await.unwrap());
    assert!(gate.open(V, 1).await.unwrap());
    gate
}

async fn admit(gate: &Gate, user: i64, order: i64) -> Admission {
    gate.admit(V, 1, BACKLOG, &[(UserId(user), OrderId(order))]).await.unwrap()[0]
}

#[tokio::test]
async fn the_script_and_the_readable_verdict_agree_over_every_case() {
    let redis = TestRedis::start().await;
    let gate = Gate::new(redis.open().await, 1);
    let (mut voucher, mut cases) = (100, 0);
    let at = now();
    for (begin, end) in [(at - 60_000, at + 600_000), (at + 300_000, at + 600_000), (at - 600_000, at - 300_000)] {
        for paused in [false, true] {
            for stock in [0, 1, 5] {
                for holds in [false, true] {
                    for backlog_limit in [1, BACKLOG] {
                        voucher += 1;
                        cases += 1;
                        let v = VoucherId(voucher);
                        let (user, mine) = (UserId(7), OrderId(9_000_000_000_000_000_001));
                        let others = [(UserId(8), OrderId(5)), (user, OrderId(4))];
                        let holders = &others[..if holds { 2 } else { 1 }];
                        let (begin, end) = (Millis(begin), Millis(end));
                        let total = stock + i64::try_from(holders.len()).unwrap();
                        let load = Load { voucher: v, claim: 1, left: stock, holders, total, paused, begin, end };
                        assert!(gate.load(&load).await.unwrap());
                        assert!(gate.open(v, 1).await.unwrap());
                        let backlog: i64 = redis.ask("XLEN stream.orders:{0}").await;
                        let view = GateView { holder: holds.then_some(OrderId(4)), paused, begin, end, stock, backlog };
                        let wanted = verdict(&view, Millis(at), backlog_limit, mine);
                        let got = gate.admit(v, 1, backlog_limit, &[(user, mine)]).await.unwrap()[0];
                        match (wanted, got) {
                            (Admission::Admitted { order: a, .. }, Admission::Admitted { order: b, position }) => {
                                assert_eq!((a, position), (b, backlog + 1), "{view:?}");
                            }
                            (wanted, got) => assert_eq!(wanted, got, "{view:?}, limit {backlog_limit}"),
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 72);
}

#[tokio::test]
async fn the_end_is_not_on_sale_any_more_and_the_begin_is() {
    let redis = TestRedis::start().await;
    let gate = Gate::new(redis.open().await, 1);
    let window = |begin, end| Load { begin: Millis(begin), end: Millis(end), ..sale(V, 1, 1, &[]) };
    gate.load(&window(now() - 1000, now())).await.unwrap();
    gate.open(V, 1).await.unwrap();
    assert_eq!(admit(&gate, 1, 11).await, Admission::Ended);
    gate.load(&window(now(), now() + 60_000)).await.unwrap();
    gate.open(V, 1).await.unwrap();
    assert!(matches!(admit(&gate, 1, 11).await, Admission::Admitted { .. }));
}

#[tokio::test]
async fn a_batch_admits_exactly_the_stock_and_a_user_twice_in_it_once() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 3, &[(UserId(9), OrderId(90))]).await;
    let buyers: Vec<_> = [9, 1, 1, 2, 3, 4, 2].iter().zip(101..).map(|(u, o)| (UserId(*u), OrderId(o))).collect();
    let got = gate.admit(V, 1, BACKLOG, &buyers).await.unwrap();
    gate.write_refusals().await.unwrap();
    let wanted = [
        Admission::Duplicate(OrderId(90)),
        Admission::Admitted { order: OrderId(102), position: 1 },
        Admission::Duplicate(OrderId(102)),
        Admission::Admitted { order: OrderId(104), position: 2 },
        Admission::Admitted { order: OrderId(105), position: 3 },
        Admission::SoldOut,
        Admission::Duplicate(OrderId(104)),
    ];
    assert_eq!(got, wanted);
    let seen = gate.snapshot(V).await.unwrap();
    assert_eq!((seen.stock, seen.holders, seen.misfit(1)), (Some(0), 4, None));
    assert_eq!(seen.refused, [(String::from("DUPLICATE"), 3), (String::from("SOLD_OUT"), 1)]);
    let queued: Vec<_> = Queue::new(redis.open().await)
        .entries(seckill::domain::ids::Lane(0))
        .await
        .unwrap()
        .into_iter()
        .map(|d| d.entry.unwrap())
        .collect();
    assert_eq!(
        queued.iter().map(|e| (e.order.0, e.user.0, e.voucher, e.epoch)).collect::<Vec<_>>(),
        [(102, 1, V, 1), (104, 2, V, 1), (105, 3, V, 1)]
    );
    assert!(queued.iter().all(|e| (now() - e.admitted_at.0).abs() < 60_000));
}

#[tokio::test]
async fn the_largest_ids_survive_the_script_digit_by_digit() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 2, &[]).await;
    let user = seckill::domain::ids::MAX_JSON_ID;
    assert!(matches!(admit(&gate, user, i64::MAX).await, Admission::Admitted { .. }));
    assert_eq!(admit(&gate, user, i64::MAX - 1).await, Admission::Duplicate(OrderId(i64::MAX)));
    assert_eq!(gate.find_holder(&[V], UserId(user)).await.unwrap(), [(V, OrderId(i64::MAX), 1)]);
    assert_eq!(gate.release(V, 1, UserId(user), OrderId(i64::MAX - 1)).await.unwrap(), Release::Done);
    assert_eq!(gate.snapshot(V).await.unwrap().holders, 1, "another order's release takes nothing");
    assert_eq!(gate.release(V, 1, UserId(user), OrderId(i64::MAX)).await.unwrap(), Release::Done);
    assert_eq!(gate.snapshot(V).await.unwrap().stock, Some(2));
}

#[tokio::test]
async fn a_lost_or_hand_made_key_is_not_ready_and_never_sold_out() {
    let damages = [
        ("DEL seckill:{0}:sale:10", "sale"),
        ("HDEL seckill:{0}:sale:10 total", "sale"),
        ("HDEL seckill:{0}:sale:10 paused", "sale"),
        ("HSET seckill:{0}:sale:10 end soon", "sale"),
        ("HSET seckill:{0}:sale:10 epoch 2", "epoch"),
        ("HSET seckill:{0}:sale:10 run_id 0000", "run_id"),
        ("DEL seckill:{0}:stock:10", "stock"),
        ("SET seckill:{0}:stock:10 many", "stock"),
        ("SET seckill:{0}:stock:10 1.0", "stock"),
        ("DEL stream.orders:{0}", "stream"),
        ("INCR seckill:{0}:stock:10", "sum"),
        ("SET seckill:{0}:stock:10 0", "sum"),
        ("DEL seckill:{0}:order:10", "sum"),
        ("HSET seckill:{0}:order:10 77 7700", "sum"),
        ("HSET seckill:{0}:sale:10 state closed", "closed"),
    ];
    let redis = TestRedis::start().await;
    for (damage, misfit) in damages {
        redis.ask::<String>("FLUSHALL").await;
        let gate = opened(&redis, 1, &[(UserId(9), OrderId(90))]).await;
        redis.ask::<redis::Value>(damage).await;
        let before: Vec<String> = redis.ask("KEYS *").await;
        let epoch = (misfit != "sale").then_some(if misfit == "epoch" { 2 } else { 1 });
        for user in [9, 1] {
            let got = admit(&gate, user, 11).await;
            assert!(matches!(got, Admission::NotReady(e) if epoch.is_none() || e == epoch), "{damage}: {got:?}");
        }
        let seen = gate.snapshot(V).await.unwrap();
        assert_eq!(seen.misfit(1), Some(misfit), "{damage}");
        let release = gate.release(V, 1, UserId(9), OrderId(90)).await.unwrap();
        // A release asks for less: the epoch, the server and a stock.
        let fits = matches!(misfit, "sum" | "closed" | "stream") || (misfit == "sale" && damage.starts_with('H'));
        assert_eq!(release, if fits { Release::Done } else { Release::NotReady }, "{damage}");
        let after: Vec<String> = redis.ask("KEYS *").await;
        assert!(after.iter().all(|key| before.contains(key)), "{damage}: no key is made by the way");
    }
}

#[tokio::test]
async fn wrong_arguments_are_an_error_before_anything_is_touched() {
    let redis = TestRedis::start().await;
    let mut connection = redis.open().await.shared();
    let scripts = [
        (
            "admit",
            5,
            &["1 5 10", "1 5 10 7", "1 5 10 7 0", "1 5 10 7 08", "1 5 10 -7 8", "x 5 10 7 8", "1 5 10 7 8 9", "1 5 10 7 8.5"][..],
        ),
        ("release", 3, &["1 7", "0 7 8", "1 7 x", "1 7 8 9"]),
        ("settle", 2, &["g1", "g1 1-1", "g1 x 5", "g1 1-1 y", "g1 11 5"]),
        ("code_new", 1, &["x 1 1", "1 1", "1 x 1"]),
        ("guess", 1, &["1 20 1000 60000", "x 20 1000 60000 900000", "1 20 1000 60000 -1"]),
        ("code_try", 1, &["1", "1 0", "1 5 5"]),
        ("close", 2, &["0", "x", "1 2"]),
        ("stage", 1, &["1", "1 7", "x 7 8", "1 7 0"]),
        (
            "load",
            7,
            &[
                "1 0 0 0 1 2 10 g1",
                "1 x 0 0 1 2 10 g1 0",
                "1 1 1 2 1 2 10 g1 0",
                "1 1 2 0 1 2 10 g1 0",
                "1 0 1 0 1 2 10 g1 0 7",
                "1 0 1 0 1 2 10 g1 1 7 8",
                "1 0 1 0 1 2 10 g1 0 7 x",
            ],
        ),
        ("open", 1, &["", "0", "1 1"]),
        ("count", 1, &["", "SOLD_OUT", "SOLD_OUT 0", "sold 1", "SOLD_OUT 1 BUSY"]),
        ("end", 1, &["1", "0 5", "1 x", "1 5 6"]),
        ("turned_away", 2, &["", "5", "5 x", "x 5", "5 134217728"]),
        ("pause", 1, &["1", "1 2", "x 1"]),
        ("strays", 1, &["", "g1", "g1 a b"]),
        ("drop_consumers", 2, &["g1", "g1 x"]),
    ];
    for (name, keys, calls) in scripts {
        let text = std::fs::read_to_string(format!("{}/lua/{name}.lua", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for arguments in calls {
            let mut call = redis::cmd("EVAL");
            call.arg(&text).arg(keys);
            for key in 0..keys {
                call.arg(format!("key:{key}"));
            }
            for argument in arguments.split(' ').filter(|a| !a.is_empty()) {
                call.arg(argument);
            }
            let answer: redis::RedisResult<redis::Value> = call.query_async(&mut connection).await;
            let error = answer.expect_err(&format!("{name} {arguments:?}"));
            assert_eq!(error.code(), Some("ARGUMENT"), "{name} {arguments:?}: {error}");
        }
    }
    assert_eq!(redis.ask::<i64>("DBSIZE").await, 0);
}

#[tokio::test]
async fn every_script_has_its_header_in_order_and_its_line_in_the_list() {
    let dir = format!("{}/lua", env!("CARGO_MANIFEST_DIR"));
    let list = std::fs::read_to_string(format!("{dir}/README.md")).unwrap();
    let mut seen = 0;
    for file in std::fs::read_dir(&dir).unwrap().map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "lua"))
    {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        let places: Vec<_> = ["-- Purpose: ", "-- KEYS: ", "-- ARGV: ", "-- Answers: ", "-- Writes: ", "-- Repeat safety: "]
            .iter()
            .map(|word| header.iter().position(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{name}: {word}")))
            .collect();
        assert!(places.is_sorted(), "{name}");
        assert!(list.contains(&format!("| `{name}` |")), "{name} is missing in lua/README.md");
        seen += 1;
    }
    assert_eq!(seen, 17);
}

#[tokio::test]
async fn a_late_close_load_or_open_of_an_older_rebuild_changes_nothing() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 5, &[]).await;
    assert!(matches!(gate.close(V, 3).await.unwrap(), Close::Closed { .. }));
    assert_eq!(gate.close(V, 2).await.unwrap(), Close::Refused);
    assert!(!gate.load(&sale(V, 2, 9, &[])).await.unwrap());
    assert!(!gate.open(V, 1).await.unwrap(), "the claim is another by now");
    assert_eq!(admit(&gate, 1, 11).await, Admission::NotReady(Some(1)));
    assert!(gate.load(&sale(V, 3, 4, &[])).await.unwrap());
    assert!(!gate.open(V, 2).await.unwrap());
    assert_eq!(gate.snapshot(V).await.unwrap().misfit(3), Some("closed"));
    assert!(gate.open(V, 3).await.unwrap());
    assert!(gate.open(V, 3).await.unwrap(), "opening again is allowed");
    let seen = gate.snapshot(V).await.unwrap();
    assert_eq!((seen.misfit(3), seen.stock), (None, Some(4)));
    assert_eq!(admit(&gate, 1, 11).await, Admission::NotReady(Some(3)), "a stale epoch is told the present one");
}

#[tokio::test]
async fn close_tells_how_far_to_drain_and_makes_no_hash() {
    let redis = TestRedis::start().await;
    let gate = Gate::new(redis.open().await, 1);
    assert_eq!(gate.close(V, 1).await.unwrap(), Close::Closed { last_id: StreamId::ZERO });
    assert_eq!(redis.ask::<i64>("DBSIZE").await, 0);
    assert!(!gate.open(V, 1).await.unwrap(), "nothing to open");
    let gate = opened(&redis, 5, &[]).await;
    admit(&gate, 1, 11).await;
    let last = Queue::new(redis.open().await).first_id(seckill::domain::ids::Lane(0)).await.unwrap().unwrap();
    assert_eq!(gate.close(V, 2).await.unwrap(), Close::Closed { last_id: last });
}

#[tokio::test]
async fn pause_is_a_field_of_its_own_and_follows_the_epoch() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 5, &[]).await;
    assert!(gate.set_paused(V, 1, true).await.unwrap());
    assert_eq!(admit(&gate, 1, 11).await, Admission::Paused);
    assert!(!gate.set_paused(V, 2, false).await.unwrap());
    gate.close(V, 2).await.unwrap();
    assert!(gate.set_paused(V, 1, false).await.unwrap());
    assert!(matches!(admit(&gate, 1, 11).await, Admission::NotReady(_)), "resuming opens no gate");
    assert!(!gate.set_paused(VoucherId(11), 1, true).await.unwrap(), "no hash, none made");
    assert_eq!(gate.snapshot(VoucherId(11)).await.unwrap().sale, None);
}

#[tokio::test]
async fn a_load_that_makes_the_stream_again_shuts_the_lanes_other_sales() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 5, &[]).await;
    let other = VoucherId(11);
    gate.load(&sale(other, 4, 3, &[])).await.unwrap();
    gate.open(other, 4).await.unwrap();
    assert_eq!(gate.snapshot(V).await.unwrap().misfit(1), None, "a stream that is there leaves the others alone");
    admit(&gate, 1, 11).await;
    redis.ask::<i64>("DEL stream.orders:{0}").await;
    gate.close(other, 5).await.unwrap();
    gate.load(&sale(other, 5, 3, &[])).await.unwrap();
    gate.open(other, 5).await.unwrap();
    assert_eq!(gate.snapshot(other).await.unwrap().misfit(5), None);
    assert_eq!(gate.snapshot(V).await.unwrap().misfit(1), Some("sale"), "its entry is lost: it must not go on selling");
    let groups: Vec<HashMap<String, redis::Value>> = redis.ask("XINFO GROUPS stream.orders:{0}").await;
    assert_eq!(groups.len(), 1);
}

#[tokio::test]
async fn a_load_forgets_old_holders_and_keeps_the_refusal_counters() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 1, &[(UserId(9), OrderId(90))]).await;
    admit(&gate, 9, 11).await;
    admit(&gate, 1, 12).await;
    gate.write_refusals().await.unwrap();
    gate.close(V, 2).await.unwrap();
    assert!(gate.load(&sale(V, 2, 1, &[(UserId(5), OrderId(50))])).await.unwrap());
    let held = gate.holders(V).await.unwrap();
    assert_eq!(held, HashMap::from([(UserId(5), OrderId(50))]));
    assert_eq!(gate.snapshot(V).await.unwrap().refused, [(String::from("DUPLICATE"), 1)]);
}

#[tokio::test]
async fn a_very_large_holder_set_is_loaded_in_chunks_and_lasts() {
    let redis = TestRedis::start().await;
    let gate = Gate::new(redis.open().await, 1);
    let holders: Vec<_> = (1..=12_345).map(|n| (UserId(n), OrderId(n + 1_000_000))).collect();
    assert!(gate.load(&sale(V, 1, 7, &holders)).await.unwrap());
    assert!(gate.open(V, 1).await.unwrap());
    assert_eq!(gate.snapshot(V).await.unwrap().misfit(1), None);
    assert_eq!(gate.holders(V).await.unwrap().len(), 12_345);
    assert_eq!(admit(&gate, 12_345, 5).await, Admission::Duplicate(OrderId(1_012_345)));
    assert_eq!(redis.ask::<i64>("TTL seckill:{0}:order:10").await, -1, "the staging's end must not become the holders'");
    assert_eq!(redis.ask::<i64>("EXISTS seckill:{0}:order:10:next").await, 0);
    // What an older rebuild still stages is refused, and what it staged before is not mixed in.
    redis.ask::<i64>("HSET seckill:{0}:order:10:next claim 9 1 1").await;
    assert!(!gate.load(&sale(V, 2, 7, &holders)).await.unwrap());
    redis.ask::<i64>("HSET seckill:{0}:order:10:next claim 2 999999 1").await;
    assert!(gate.load(&sale(V, 3, 7, &holders)).await.unwrap());
    assert_eq!(gate.holders(V).await.unwrap().len(), 12_345);
    // Staged by the same claim, but not what was counted.
    redis.ask::<i64>("HSET seckill:{0}:order:10:next claim 4 999999 1").await;
    assert!(matches!(gate.load(&sale(V, 4, 7, &holders)).await, Err(GateError::BadReply(_))));
}

#[tokio::test]
async fn keys_of_a_sale_long_over_expire_and_a_load_makes_them_last_again() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 1, &[(UserId(9), OrderId(90))]).await;
    gate.expire_keys_of(V, std::time::Duration::from_hours(1)).await.unwrap();
    for key in ["sale", "stock", "order"] {
        assert!(redis.ask::<i64>(&format!("TTL seckill:{{0}}:{key}:10")).await > 3000);
    }
    gate.load(&sale(V, 2, 1, &[(UserId(9), OrderId(90))])).await.unwrap();
    for key in ["sale", "stock", "order"] {
        assert_eq!(redis.ask::<i64>(&format!("TTL seckill:{{0}}:{key}:10")).await, -1);
    }
    assert_eq!(gate.stocks(&[V, VoucherId(99)]).await.unwrap(), [Some(1), None]);
}

#[tokio::test]
async fn scripts_are_sent_again_after_a_restart_and_the_old_load_no_longer_counts() {
    let mut redis = TestRedis::start().await;
    let gate = opened(&redis, 5, &[]).await;
    assert!(matches!(admit(&gate, 1, 11).await, Admission::Admitted { .. }));
    redis.ask::<String>("SCRIPT FLUSH").await;
    assert!(matches!(admit(&gate, 2, 12).await, Admission::Admitted { .. }));
    redis.kill();
    let while_away = gate.admit(V, 1, BACKLOG, &[(UserId(3), OrderId(13))]).await;
    assert!(matches!(while_away, Err(GateError::Unavailable(_) | GateError::Uncertain(_))), "{while_away:?}");
    let again = gate.admit(V, 1, BACKLOG, &[(UserId(3), OrderId(13))]).await;
    assert!(matches!(again, Err(GateError::Unavailable(_))), "{again:?}");
    redis.start_again().await;
    let mut tries = 0;
    let got = loop {
        match gate.admit(V, 1, BACKLOG, &[(UserId(3), OrderId(13))]).await {
            Ok(got) => break got[0],
            Err(e) => assert!(tries < 500, "{e}"),
        }
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(got, Admission::NotReady(Some(1)), "another server now: what it has must be compared with SQL first");
    let seen = gate.snapshot(V).await.unwrap();
    assert_eq!((seen.misfit(1), seen.stock, seen.holders), (Some("run_id"), Some(3), 2));
}

#[tokio::test]
async fn a_hung_server_is_uncertain_and_a_full_one_takes_nothing() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 5, &[]).await;
    // A script that the server does not know yet runs nothing, however late the call lands.
    assert!(matches!(admit(&gate, 7, 77).await, Admission::Admitted { .. }));
    redis.freeze();
    let started = std::time::Instant::now();
    let got = gate.admit(V, 1, BACKLOG, &[(UserId(1), OrderId(11))]).await;
    assert!(matches!(got, Err(GateError::Uncertain(_))), "{got:?}");
    assert!(started.elapsed() < std::time::Duration::from_millis(900));
    redis.thaw();
    until("it can be asked again", SOON, async || gate.snapshot(V).await.is_ok()).await;
    assert_eq!(admit(&gate, 1, 12).await, Admission::Duplicate(OrderId(11)), "it landed late, and says so");
    redis.ask::<String>("CONFIG SET maxmemory 1").await;
    let got = gate.admit(V, 1, BACKLOG, &[(UserId(2), OrderId(13)), (UserId(1), OrderId(14))]).await.unwrap();
    assert_eq!(got, [Admission::BacklogFull, Admission::Duplicate(OrderId(11))]);
    redis.ask::<String>("CONFIG SET maxmemory 0").await;
    let seen = gate.snapshot(V).await.unwrap();
    assert_eq!((seen.misfit(1), seen.stock, seen.holders), (None, Some(3), 2));
}

#[tokio::test]
async fn refusals_are_counted_without_a_write_for_each_and_survive_a_server_that_is_away() {
    let mut redis = TestRedis::start().await;
    let gate = opened(&redis, 0, &[]).await;
    let before: i64 = changes(&redis).await;
    for user in 1..=5 {
        assert_eq!(admit(&gate, user, 11).await, Admission::SoldOut);
    }
    assert_eq!(changes(&redis).await, before, "a refusal never waits for the disk");
    redis.kill();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(gate.write_refusals().await.is_err());
    redis.start_again().await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    until("it can be asked again", SOON, async || gate.write_refusals().await.is_ok()).await;
    gate.write_refusals().await.unwrap();
    assert_eq!(gate.snapshot(V).await.unwrap().refused, [(String::from("SOLD_OUT"), 5)]);
    let away = gate.turned_away(V).await.unwrap();
    assert_eq!((away.count(), away.contains(UserId(5)), away.contains(UserId(6))), (5, true, false));
    assert!(redis.ask::<i64>("PTTL seckill:{0}:away:10").await > 0, "it goes away by itself");
    assert!(gate.load(&sale(V, 1, 0, &[])).await.unwrap() && gate.open(V, 1).await.unwrap());
    assert_eq!(admit(&gate, 5, 11).await, Admission::SoldOut);
    gate.write_refusals().await.unwrap();
    assert_eq!(gate.turned_away(V).await.unwrap().count(), 5, "a person is one person");
    redis.ask::<i64>("DEL seckill:{0}:away:10").await;
    redis.ask::<i64>("DEL seckill:{0}:sale:10").await;
    gate.write_refusals().await.unwrap();
    assert_eq!(redis.ask::<i64>("EXISTS seckill:{0}:sale:10 seckill:{0}:away:10").await, 0);
}

#[tokio::test]
async fn an_early_end_is_now_and_never_later_and_follows_the_epoch() {
    let redis = TestRedis::start().await;
    let gate = opened(&redis, 5, &[]).await;
    let end = gate.snapshot(V).await.unwrap().sale.unwrap().end;
    assert!(!gate.end(V, 2, Millis(1)).await.unwrap(), "another epoch");
    assert_eq!(gate.snapshot(V).await.unwrap().sale.unwrap().end, end);
    assert!(matches!(admit(&gate, 1, 11).await, Admission::Admitted { .. }));
    // A caller whose clock is ahead: ended all the same, by the server's own.
    assert!(gate.end(V, 1, Millis(now() + 60_000)).await.unwrap());
    assert_eq!(admit(&gate, 2, 12).await, Admission::Ended);
    assert_eq!(admit(&gate, 1, 13).await, Admission::Duplicate(OrderId(11)), "a winner hears his order");
    let ended = gate.snapshot(V).await.unwrap().sale.unwrap().end;
    assert!(gate.end(V, 1, Millis(now() + 60_000)).await.unwrap());
    assert_eq!(gate.snapshot(V).await.unwrap().sale.unwrap().end, ended, "never later");
    redis.ask::<i64>("DEL seckill:{0}:sale:10").await;
    assert!(!gate.end(V, 1, Millis(1)).await.unwrap());
    assert_eq!(redis.ask::<i64>("EXISTS seckill:{0}:sale:10").await, 0);
}

async fn changes(redis: &TestRedis) -> i64 {
    let info: String = redis.ask("INFO persistence").await;
    let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    line.unwrap().trim().parse().unwrap()
}
