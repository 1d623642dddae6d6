//! Units that drifted: put in by hand at either store, in either direction, found while the sale goes on and mended to the
//! right value; and never found where there are none.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use seckill::domain::ids::{Lane, OrderId, VoucherId};
use seckill::fault;
use seckill::service::drift::Suspect;

use crate::support::app::{Buyer, On, TestApp};
use crate::support::{long, until};

const SOON: Duration = Duration::from_secs(15);
const HOUR: Duration = Duration::from_hours(1);

/// A sale of five units, three of them sold to three buyers and saved.
async fn three_of_five(app: &TestApp) -> (VoucherId, Vec<(Buyer, OrderId)>) {
    let (voucher, buyers) = (app.sale(5).await, app.buyers(3).await);
    let mut sold = Vec::new();
    for buyer in buyers {
        let id = app.admitted(&app.buy(&buyer, voucher).await);
        sold.push((buyer, id));
    }
    app.settled().await;
    (voucher, sold)
}

/// Units left in SQL and at the gate, and who holds one there.
async fn figures(app: &TestApp, voucher: VoucherId) -> (i64, Option<i64>, HashSet<OrderId>) {
    let (store, gate) = (&app.app.services.store, &app.app.services.gate);
    let holders = gate.holders(voucher).await.unwrap_or_default().into_values().collect();
    (store.sale(voucher).await.unwrap().unwrap().stock_left, gate.stocks(&[voucher]).await.unwrap()[0], holders)
}

/// Lets the audit run until the sale is as it should be, with a line in the log that tells what was mended.
async fn mended(app: &TestApp, what: &str, voucher: VoucherId, left: i64, holders: &HashSet<OrderId>) {
    until(what, SOON, async || {
        app.app.services.drift.round(&[Lane(0)], HOUR).await.unwrap();
        figures(app, voucher).await == (left, Some(left), holders.clone())
    })
    .await;
    let subject = format!("voucher {voucher}");
    let lines = app.app.services.store.audit_lines(None, 100).await.unwrap();
    let line = lines.iter().find(|l| l.subject == subject && l.action == "gate.rebuild");
    let line = line.unwrap_or_else(|| panic!("{what}: no line tells of it: {lines:#?}"));
    assert_eq!(line.who, "system");
    let (before, after) = (line.before.as_ref().unwrap(), line.after.as_ref().unwrap());
    assert!(before.contains("stock ") && after.contains(&format!("D {left}, A {}", holders.len())), "{line:?}");
    assert!(app.app.services.drift.look(voucher).await.unwrap().is_none_or(|seen| seen.suspects.is_empty()), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_of_drift_at_the_gate_is_found_and_mended_whichever_way_it_went() {
    let app = TestApp::start().await;
    let (stock, order) = (|v| format!("seckill:{{0}}:stock:{v}"), |v| format!("seckill:{{0}}:order:{v}"));
    for what in ["INCR", "DECR", "HDEL", "HDEL and INCR", "HSET", "HSET and DECR", "HSET of another's order and DECR", "no id"] {
        let (v, sold) = three_of_five(&app).await;
        let (user, id) = (sold[0].0.id, sold[0].1);
        match what {
            "INCR" => drop(app.ask::<i64>(&format!("INCR {}", stock(v))).await),
            "DECR" => drop(app.ask::<i64>(&format!("DECR {}", stock(v))).await),
            "HDEL" => drop(app.ask::<i64>(&format!("HDEL {} {user}", order(v))).await),
            "HDEL and INCR" => {
                app.ask::<i64>(&format!("HDEL {} {user}", order(v))).await;
                app.ask::<i64>(&format!("INCR {}", stock(v))).await;
            }
            "HSET" => drop(app.ask::<i64>(&format!("HSET {} 777777 600000000000000001", order(v))).await),
            "HSET and DECR" => {
                app.ask::<i64>(&format!("HSET {} 777777 600000000000000001", order(v))).await;
                app.ask::<i64>(&format!("DECR {}", stock(v))).await;
            }
            "HSET of another's order and DECR" => {
                app.ask::<i64>(&format!("HSET {} 777777 {id}", order(v))).await;
                app.ask::<i64>(&format!("DECR {}", stock(v))).await;
            }
            _ => {
                app.ask::<i64>(&format!("HSET {} nobody nothing", order(v))).await;
                app.ask::<i64>(&format!("DECR {}", stock(v))).await;
            }
        }
        mended(&app, what, v, 2, &sold.iter().map(|(_, id)| *id).collect()).await;
        // Whoever bought still has his order, and the rest is for sale.
        assert_eq!(app.order(&sold[0].0, id).await["status"], "PENDING");
        let next = app.buyer().await;
        app.admitted(&app.buy_for_sure(&next, v).await);
    }
    app.finish().await;
}

async fn drift_in_the_books(on: On) {
    let app = TestApp::on(on).start().await;
    for (what, left, gone) in [("one more", 2, 0), ("one less", 2, 0), ("an order row deleted", 3, 1)] {
        let (v, sold) = three_of_five(&app).await;
        let text = match what {
            "one more" => format!("UPDATE flash_sale SET stock_left = stock_left + 1 WHERE voucher_id = {v}"),
            "one less" => format!("UPDATE flash_sale SET stock_left = stock_left - 1 WHERE voucher_id = {v}"),
            _ => format!("DELETE FROM orders WHERE id = {}", sold[0].1),
        };
        app.execute(&text).await;
        let seen = app.app.services.drift.look(v).await.unwrap().unwrap();
        assert!(seen.suspects.contains(&Suspect::Books), "{what}: {seen:?}");
        mended(&app, what, v, left, &sold[gone..].iter().map(|(_, id)| *id).collect()).await;
        let lines = app.app.services.store.audit_lines(None, 100).await.unwrap();
        let line = lines.iter().find(|l| l.subject == format!("voucher {v}") && l.action == "books.mend").unwrap();
        assert_eq!(line.after.as_deref(), Some(format!("D {left}").as_str()), "{line:?}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_of_drift_in_the_books_is_mended_by_the_orders_on_sqlite() {
    Box::pin(drift_in_the_books(On::Sqlite)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_of_drift_in_the_books_is_mended_by_the_orders_on_postgres() {
    Box::pin(drift_in_the_books(On::Postgres)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_books_of_a_sale_that_is_over_are_mended_too() {
    let app = TestApp::with("--pay-window", "1d").start().await;
    let (v, _) = three_of_five(&app).await;
    app.execute(&format!("UPDATE flash_sale SET stock_left = stock_left - 1 WHERE voucher_id = {v}")).await;
    app.clock.advance(HOUR + Duration::from_mins(1));
    let round = app.app.services.drift.round(&[Lane(0)], HOUR).await.unwrap();
    assert_eq!(round.believed, 1);
    assert_eq!(app.app.services.store.sale(v).await.unwrap().unwrap().stock_left, 2);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_entry_was_deleted_by_hand_reads_lost_and_its_unit_is_sold_again() {
    let app = TestApp::with("--roles", "web").start().await;
    let (v, buyers) = (app.sale(2).await, app.buyers(2).await);
    let first = app.buy(&buyers[0], v).await;
    let (id, ticket) = (app.admitted(&first), first.json()["ticket"].as_str().unwrap().to_owned());
    let page = format!("/orders/{id}?ticket={ticket}");
    let cookie = format!("seckill_session={}", buyers[0].token);
    assert!(app.http.page(Some(&cookie), &page).await.text().contains("data-status=\"QUEUED\""));
    let entries = app.app.services.queue.entries(Lane(0)).await.unwrap();
    assert_eq!(app.ask::<i64>(&format!("XDEL stream.orders:{{0}} {}", entries[0].stream_id)).await, 1);
    until("the audit finds it", SOON, async || {
        app.app.services.drift.round(&[Lane(0)], HOUR).await.unwrap();
        figures(&app, v).await == (2, Some(2), HashSet::new())
    })
    .await;
    let order = app.http.get_as(&buyers[0].token, &format!("/api/voucher-order/{id}?ticket={ticket}")).await.data();
    assert_eq!((&order["status"], &order["closeReason"]), (&"FAILED".into(), &"LOST".into()));
    let page = app.http.page(Some(&cookie), &page).await;
    assert!(page.status == 200 && page.text().contains("data-status=\"FAILED\""), "{}", page.text());
    // He may try again, and it is another order.
    assert_ne!(app.admitted(&app.buy_for_sure(&buyers[0], v).await), id);
    app.abandon("nobody saves orders here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_every_hundred_milliseconds_raises_no_false_alarm_under_load() {
    let app = TestApp::start().await;
    let time = if long() { Duration::from_mins(10) } else { Duration::from_secs(6) };
    let (v, buyers) = (app.sale(40).await, app.buyers(60).await);
    let (over, cancelled) = (AtomicBool::new(false), AtomicUsize::new(0));
    let drift = &app.app.services.drift;
    // Everybody buys and gives back, again and again: units go both ways all the time, and the sale is sold out at times.
    let shoppers = join_all(buyers.iter().map(async |buyer| {
        while !over.load(Ordering::Relaxed) {
            let answer = app.buy(buyer, v).await;
            if let Some(id) = answer.json()["data"].as_str() {
                let path = format!("/api/voucher-order/{id}/cancel");
                while app.http.post_as(&buyer.token, &path).await.status == 409 && !over.load(Ordering::Relaxed) {
                    if app.order(buyer, id.parse().unwrap()).await["status"] != "QUEUED" {
                        break;
                    }
                }
                cancelled.fetch_add(1, Ordering::Relaxed);
            }
        }
    }));
    let audits = async {
        let (started, mut looks, mut fooled) = (Instant::now(), 0, 0);
        while started.elapsed() < time || (fooled == 0 && started.elapsed() < time + SOON) {
            looks += 1;
            assert_eq!(drift.check(v).await.unwrap(), None, "seen twice, and nothing is wrong");
            let seen = drift.look(v).await.unwrap();
            assert!(seen.as_ref().is_none_or(|seen| seen.suspects.is_empty()), "{seen:?}");
            // The control: an audit that does not ask a second time is fooled by this load.
            let once = fault::without("audit-reads-once", drift.look(v)).await.unwrap();
            fooled += usize::from(once.is_some_and(|seen| !seen.suspects.is_empty()));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        over.store(true, Ordering::Relaxed);
        (looks, fooled)
    };
    let (_, (looks, fooled)) = tokio::join!(shoppers, audits);
    assert!(looks > 5 && fooled > 0, "{looks} looks, the control was fooled {fooled} times");
    assert!(cancelled.load(Ordering::Relaxed) > 60, "units went both ways: {cancelled:?}");
    let rebuilt = app.app.services.store.audit_lines(None, 100).await.unwrap();
    assert!(rebuilt.iter().all(|line| line.action != "gate.rebuild"), "{rebuilt:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_several_workers_has_the_turn_to_audit_a_lane() {
    let app = TestApp::start().await;
    let gate = &app.app.services.gate;
    let turns = join_all((0..8).map(async |_| gate.take_audit_turn(Lane(9), Duration::from_millis(600)).await.unwrap())).await;
    assert_eq!(turns.iter().filter(|turn| **turn).count(), 1);
    until("the turn goes round", SOON, async || gate.take_audit_turn(Lane(9), HOUR).await.unwrap()).await;
    app.ask::<i64>("DEL seckill:{9}:audit").await;
    app.finish().await;
}
