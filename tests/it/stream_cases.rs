//! The way from the stream into SQL when something is wrong with it: dead consumers, deleted and poisoned entries, a locked
//! database, rows that refuse to be written, a long silence.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use seckill::domain::ids::{Lane, OrderId};
use serde_json::Value;

use crate::support::app::{On, TestApp};
use crate::support::postgres::fresh_database;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::socket::Socket;
use crate::support::sql::Sql;
use crate::support::until;

const SOON: Duration = Duration::from_secs(20);
const LANE: Lane = Lane(0);

async fn pending(redis: &TestRedis) -> i64 {
    let (count, ..): (i64, Option<String>, Option<String>, redis::Value) = redis.ask("XPENDING stream.orders:{0} g1").await;
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_a_killed_worker_had_read_are_saved_by_the_next_one() {
    let redis = TestRedis::start().await;
    let mut shop = Shop::with(&["--redis-url", &redis.url()]).await;
    let mut server = shop.serve(&[]).await;
    shop.seed(60).await;
    let voucher = shop.sale(&server.http, 60).await;
    let mut all = Vec::new();
    for round in 0..3_usize {
        // Somebody else holds the write lock: entries are read, and cannot be committed.
        let mut lock = Sql::open(&shop.database_url().await).await;
        lock.lock_writes().await;
        let (told, unsure) = shop.click(&server.http, voucher, round * 20, round * 20 + 20, 4, Arc::default()).await;
        assert_eq!((told.len(), unsure), (20, 0), "the database is not asked for a click");
        until("the worker has read some of them", SOON, async || pending(&redis).await > 0).await;
        server.kill().await;
        lock.close().await;
        let saved = shop.count("SELECT COUNT(*) FROM orders").await;
        assert_eq!(usize::try_from(saved).unwrap(), 20 * round, "killed before its commit");
        server = shop.serve(&[]).await;
        let verdicts = shop.verdicts(&server.http, &told).await;
        assert!(verdicts.iter().all(|v| v == "PENDING"), "{verdicts:?}");
        until("nothing stays unacknowledged", SOON, async || pending(&redis).await == 0).await;
        all.extend(told);
    }
    assert_eq!(all.iter().map(|t| &t.order).collect::<HashSet<_>>().len(), 60);
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE live").await, 60);
    assert_eq!(shop.count("SELECT stock_left FROM flash_sale").await, 0);
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_have_names_of_their_own_and_a_kill_of_one_doubles_nothing() {
    let (redis, database) = (TestRedis::start().await, fresh_database().await);
    let mut shop = Shop::with(&["--redis-url", &redis.url(), "--database-url", &database]).await;
    let mut one = shop.serve(&[]).await;
    let mut two = shop.serve(&[]).await;
    shop.seed(650).await;
    let voucher = shop.sale(&one.http, 400).await;
    // One at a time: the one that waited longer is given the next, so both have a turn soon.
    let mut first = Vec::new();
    while consumers(&redis).await.len() < 2 {
        assert!(first.len() < 50, "two readers and one name: {:?}", consumers(&redis).await);
        let buyer = 600 + first.len();
        let (told, _) = shop.click(&one.http, voucher, buyer, buyer + 1, 1, Arc::default()).await;
        shop.verdicts(&one.http, &told).await;
        first.extend(told);
    }
    let rest = 400 - first.len();

    let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (http_one, http_two) = (one.http.clone(), two.http.clone());
    let killer = async {
        until("some are told", SOON, async || told.load(std::sync::atomic::Ordering::Relaxed) >= 100).await;
        one.kill().await;
    };
    let ((heard, _), (heard_two, unsure), ()) = tokio::join!(
        shop.click(&http_one, voucher, 0, 300, 8, told.clone()),
        async {
            // The other instance hears of the sale by itself.
            until("it is known", SOON, async || {
                let path = format!("/api/voucher-order/seckill/{voucher}");
                http_two.post_as(&shop.buyers[300], &path).await.status == 200
            })
            .await;
            shop.click(&http_two, voucher, 300, 600, 8, told.clone()).await
        },
        killer
    );
    assert_eq!(unsure, 0, "the other one goes on");
    let mut one = shop.serve(&[]).await;
    let heard: Vec<_> = heard.into_iter().chain(heard_two).collect();
    let verdicts = shop.verdicts(&two.http, &heard).await;
    assert!(verdicts.iter().all(|v| v == "PENDING"), "every order that was told is saved");
    // Everybody presses again: the rest is sold, nobody gets a second one.
    let (again, unsure) = shop.click(&one.http, voucher, 0, 600, 16, Arc::default()).await;
    assert_eq!((again.len(), unsure), (rest, 0));
    let by_buyer: HashSet<_> = heard.iter().chain(&again).map(|t| (t.buyer, &t.order)).collect();
    assert_eq!(by_buyer.len(), rest, "one order each, the same one every time");
    shop.verdicts(&one.http, &again).await;
    until("nothing stays unacknowledged", SOON, async || pending(&redis).await == 0).await;
    let names = consumers(&redis).await;
    assert!((2..=3).contains(&names.len()), "a name for each start: {names:?}");
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders").await, 400);
    assert_eq!(shop.count("SELECT stock_left FROM flash_sale").await, 0);
    shop.audited().await;
    assert_eq!((one.terminate().await, two.terminate().await), (0, 0));
}

/// Everybody who was ever given an entry.
async fn consumers(redis: &TestRedis) -> HashSet<String> {
    let all: Vec<std::collections::HashMap<String, redis::Value>> = redis.ask("XINFO CONSUMERS stream.orders:{0} g1").await;
    all.iter().map(|c| redis::from_redis_value(c["name"].clone()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_deleted_by_hand_leave_the_list_and_their_orders_do_not_vanish_in_silence() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).with("--roles", "web").start().await;
    let (voucher, buyers) = (app.sale(10).await, app.buyers(3).await);
    let mut told = Vec::new();
    for buyer in &buyers {
        let answer = app.buy(buyer, voucher).await;
        told.push((app.admitted(&answer), answer.json()["ticket"].as_str().unwrap().to_owned()));
    }
    // A consumer that read all three and died; then one is deleted, another trimmed away.
    let mut dead = app.app.services.queue.reader(LANE);
    let read = dead.read_new(10, Duration::from_secs(2)).await.unwrap();
    assert_eq!(read.len(), 3);
    drop(dead);
    assert_eq!(redis.ask::<i64>(&format!("XDEL stream.orders:{{0}} {}", read[1].stream_id)).await, 1);
    assert_eq!(redis.ask::<i64>("XTRIM stream.orders:{0} MAXLEN 1").await, 1);

    let worker = app.beside(&["--roles", "worker"]).await;
    until("the ghosts leave the list and the rest is saved", SOON, async || {
        pending(&redis).await == 0 && app.order(&buyers[2], told[2].0).await["status"] == "PENDING"
    })
    .await;
    let report = app.app.services.audit.run().await.unwrap();
    assert!(!report.ok, "two holders without row and entry are seen: {report:?}");
    // The rebuild is what brings units and buyers back.
    app.app.services.rebuilds.rebuild(voucher, 0).await.unwrap();
    app.app.services.index.refresh().await.unwrap();
    for (id, ticket) in &told[..2] {
        let order = app.http.get(&format!("/api/voucher-order/{id}?ticket={ticket}")).await.data();
        assert_eq!((&order["status"], &order["closeReason"]), (&"FAILED".into(), &"LOST".into()));
    }
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(9)]);
    app.admitted(&app.buy_for_sure(&buyers[0], voucher).await);
    worker.finish().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn poisoned_entries_are_put_aside_with_their_reason_and_the_next_order_goes_through() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(10).await, app.buyers(2).await);
    let user = buyers[0].id;
    let long = "9".repeat(1_000_000);
    let good = |id: &str, user: &str, voucher: &str| {
        format!("id {id} userId {user} voucherId {voucher} epoch 1 admittedAt 1790000000000")
    };
    let poison = [
        (String::from("nothing 0"), "unknown field"),
        (good("600000000000000001", "abc", "1"), "userId"),
        (good("9999999999999999999999", &user.to_string(), "1"), "id is not a number"),
        (good("600000000000000002", &user.to_string(), "999999"), "no voucher 999999"),
        (format!("id 600000000000000003 userId {user} voucherId {voucher} epoch 1"), "admittedAt is missing"),
        (format!("id {long} userId {user} voucherId {voucher} epoch 1 admittedAt 1"), "id is not a number"),
        // Readable, and SQL refuses it for ever: nobody has this user id.
        (good("600000000000000004", "987654321", &voucher.to_string()), "cannot be saved"),
    ];
    for (fields, _) in &poison {
        app.ask::<String>(&format!("XADD stream.orders:{{0}} * {fields}")).await;
    }
    let started = Instant::now();
    let (mut socket, _) = Socket::of(&app.base, &buyers[1].token).await;
    let id = app.admitted(&app.buy(&buyers[1], voucher).await);
    assert_eq!(socket.wait_for("order.created").await["order"]["id"], id.to_string());
    assert!(started.elapsed() < Duration::from_secs(5), "the next order waited {:?}", started.elapsed());
    app.settled().await;
    let letters = app.app.services.store.open_dead_letters(100).await.unwrap();
    assert_eq!(letters.len(), poison.len());
    for (_, reason) in &poison {
        assert!(letters.iter().any(|l| l.letter.reason.contains(reason)), "{reason}: {letters:#?}");
    }
    assert!(letters.iter().all(|l| l.letter.entry_json.len() < 30_000), "what is kept is bounded");
    let depth = app.app.services.queue.depth(LANE).await.unwrap();
    assert_eq!((depth.len, depth.pending), (0, 0), "acknowledged and gone");
    app.abandon("dead letters are what this is about").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_was_put_aside_shows_in_the_metrics() {
    let redis = TestRedis::start().await;
    let shop = Shop::with(&["--redis-url", &redis.url()]).await;
    let mut server = shop.serve(&[]).await;
    shop.sale(&server.http, 5).await;
    redis.ask::<String>("XADD stream.orders:{0} * nothing 0").await;
    until("it is counted", SOON, async || {
        server.http.get("/metrics").await.text().lines().any(|line| line == "seckill_dead_letters_total 1")
    })
    .await;
    assert_eq!(server.terminate().await, 0);
}

/// A trigger that refuses every order of one user, for the database of `app`.
async fn refuse_orders_of(app: &TestApp, on: On, user: seckill::domain::ids::UserId) {
    match on {
        On::Sqlite => {
            let text = format!(
                "CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.user_id = {user} BEGIN SELECT RAISE(ABORT, 'refused'); END"
            );
            app.execute(&text).await;
        }
        On::Postgres => {
            let text = format!(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                   IF NEW.user_id = {user} THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()"
            );
            app.execute(&text).await;
        }
    }
}

async fn what_was_not_saved_is_not_told(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyers) = (app.sale(100).await, app.buyers(40).await);
    refuse_orders_of(&app, on, buyers[0].id).await;
    let mut sockets = Vec::new();
    for buyer in &buyers {
        sockets.push(Socket::of(&app.base, &buyer.token).await.0);
    }
    // All at once: the one that cannot be saved stands in a batch with the others.
    let answers = join_all(buyers.iter().map(|buyer| app.buy(buyer, voucher))).await;
    let ids: Vec<OrderId> = answers.iter().map(|a| app.admitted(a)).collect();
    let mut others = sockets.split_off(1);
    join_all(others.iter_mut().zip(&ids[1..]).zip(&buyers[1..]).map(async |((socket, id), buyer)| {
        assert_eq!(socket.wait_for("order.created").await["order"]["id"], id.to_string());
        // The instant it arrives: the order can be read, and its entry is no longer waiting.
        let order = app.order(buyer, *id).await;
        assert_eq!(order["status"], "PENDING");
    }))
    .await;
    until("it is put aside", SOON, async || app.app.services.store.open_dead_letter_count().await.unwrap() == 1).await;
    assert!(sockets[0].hears_no("order.created", Duration::from_millis(300)).await, "told of an order that is not there");
    let ticket = answers[0].json()["ticket"].as_str().unwrap().to_owned();
    let order = app.http.get(&format!("/api/voucher-order/{}?ticket={ticket}", ids[0])).await.data();
    assert_eq!(order["status"], "QUEUED", "nobody has decided it yet");
    let letters = app.app.services.store.open_dead_letters(10).await.unwrap();
    assert!(letters[0].letter.entry_json.contains(&ids[0].to_string()), "{letters:?}");
    assert_eq!(app.app.services.queue.depth(LANE).await.unwrap().len, 0);
    assert_eq!(app.app.services.store.sale(voucher).await.unwrap().unwrap().stock_left, 61);
    app.balanced().await;
    app.abandon("a dead letter is what this is about").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_saved_is_not_told_on_sqlite() {
    Box::pin(what_was_not_saved_is_not_told(On::Sqlite)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_saved_is_not_told_on_postgres() {
    Box::pin(what_was_not_saved_is_not_told(On::Postgres)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_locked_for_three_seconds_costs_nobody_an_order_and_who_must_write_hears_busy_soon() {
    let app = TestApp::start().await;
    let (voucher, buyers, admin) = (app.sale(300).await, app.buyers(300).await, app.admin().await);
    let lock = app.lock_writes().await;
    let held = Instant::now();
    let unlock = async {
        tokio::time::sleep(Duration::from_secs(3)).await; // the length of the fault itself
        lock.close().await;
    };
    let clicks = async {
        let answers = join_all(buyers.chunks(20).map(async |few| {
            let mut answers = Vec::new();
            for buyer in few {
                answers.push(app.buy(buyer, voucher).await);
            }
            answers
        }))
        .await;
        assert!(held.elapsed() < Duration::from_secs(3), "clicks do not wait for the database: {:?}", held.elapsed());
        answers
    };
    let reads = async {
        let page = app.http.page(None, &format!("/shop/{}", app.shop)).await;
        assert!(page.status == 200 && held.elapsed() < Duration::from_secs(3), "readers do not wait for the writer");
    };
    let body = serde_json::json!({"shopId": app.shop, "title": "茶", "payValue": 1, "actualValue": 2, "stock": 1,
        "beginTime": app.clock.now().rfc3339(), "endTime": (app.clock.now() + Duration::from_mins(10)).rfc3339()});
    let creation = async {
        let answer = app.http.json(Some(&admin.token), "/api/voucher/seckill", &body).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "BUSY"), "{}", answer.text());
        assert!(held.elapsed() < Duration::from_secs(3), "told while it is still locked: {:?}", held.elapsed());
    };
    let (answers, (), (), ()) = tokio::join!(clicks, reads, creation, unlock);
    let again = app.http.json(Some(&admin.token), "/api/voucher/seckill", &body);
    assert_eq!(again.await.status, 200, "pressed again");
    let ids: HashSet<_> = answers.iter().flatten().map(|answer| app.admitted(answer)).collect();
    assert_eq!(ids.len(), 300);
    app.settled().await;
    assert_eq!(app.app.services.store.live_orders_of(voucher).await.unwrap().len(), 300);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_silence_breaks_no_connection_and_a_blocked_read_delays_no_click() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let (voucher, buyers) = (app.sale(200).await, app.buyers(100).await);
    app.settled().await;
    // Over the shop's own connection: a look must not itself open one.
    let number = async |section: &str, name: &str| -> u64 {
        let info: String = app.ask(&format!("INFO {section}")).await;
        let found = info.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("0").to_owned();
        found.trim().split(',').next().unwrap().parse().unwrap()
    };
    let reads = number("commandstats", "cmdstat_xreadgroup:calls=").await;
    let connections = number("stats", "total_connections_received:").await;
    let errors = number("stats", "total_error_replies:").await;
    until("three blocked reads ended by themselves", SOON, async || {
        number("commandstats", "cmdstat_xreadgroup:calls=").await >= reads + 4
    })
    .await;
    assert_eq!(number("stats", "total_connections_received:").await, connections, "a connection was made anew while idle");
    assert_eq!(number("stats", "total_error_replies:").await, errors, "an error while idle");
    let mut times = Vec::new();
    for buyer in &buyers {
        let started = Instant::now();
        app.admitted(&app.buy(buyer, voucher).await);
        times.push(started.elapsed());
    }
    times.sort();
    // A click behind a blocked read would take up to two seconds.
    assert!(times[50] < Duration::from_millis(100) && times[99] < Duration::from_secs(1), "{:?} {:?}", times[50], times[99]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_made_again_from_the_first_entry_changes_nothing() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let (voucher, buyers) = (app.sale(20).await, app.buyers(11).await);
    let (mut socket, _) = Socket::of(&app.base, &buyers[10].token).await;
    for buyer in &buyers[..10] {
        app.admitted(&app.buy(buyer, voucher).await);
    }
    app.settled().await;
    assert_eq!(redis.ask::<i64>("XGROUP DESTROY stream.orders:{0} g1").await, 1);
    let id = app.admitted(&app.buy(&buyers[10], voucher).await);
    assert_eq!(socket.wait_for("order.created").await["order"]["id"], id.to_string(), "the group is there again");
    app.settled().await;
    let rows: Vec<Value> =
        app.http.get_as(&buyers[0].token, "/api/voucher-order").await.data()["items"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1);
    assert_eq!(app.app.services.store.sale(voucher).await.unwrap().unwrap().stock_left, 9);
    app.finish().await;
}
