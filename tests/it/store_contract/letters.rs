//! Stories of dead letters and of the audit log.

use seckill::domain::ids::{Lane, VoucherId};
use seckill::store::{DeadLetter, LetterState};

use super::{Database, NOW, on_both};

on_both!(an_entry_is_buried_once_and_decided_once, the_log_is_read_newest_first);

fn letter(stream_id: &str, entry: &str) -> DeadLetter {
    DeadLetter {
        stream_id: stream_id.to_owned(),
        lane: Lane(3),
        entry_json: entry.to_owned(),
        reason: String::from("it has no epoch"),
    }
}

async fn an_entry_is_buried_once_and_decided_once(db: Database) {
    let long = "x".repeat(20_000);
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.bury(&letter("5-1", r#"{"id":"7"}"#), NOW).await.unwrap());
    assert!(!tx.bury(&letter("5-1", r#"{"id":"7"}"#), NOW).await.unwrap());
    assert!(tx.bury(&letter("5-1", r#"{"id":"8"}"#), NOW).await.unwrap(), "a stream that was made again");
    assert!(tx.bury(&letter("5-2", &long), NOW).await.unwrap());
    tx.commit().await.unwrap();

    assert_eq!(db.store.open_dead_letter_count().await.unwrap(), 3);
    let open = db.store.open_dead_letters(10).await.unwrap();
    assert_eq!(open[0].letter, letter("5-1", r#"{"id":"7"}"#));
    assert_eq!((open[0].state, open[0].created_at, open.len()), (LetterState::Open, NOW, 3));
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.close_dead_letter(open[0].id, LetterState::Retried, NOW).await.unwrap());
    assert!(!tx.close_dead_letter(open[0].id, LetterState::Discarded, NOW).await.unwrap());
    assert!(!tx.bury(&letter("5-1", r#"{"id":"7"}"#), NOW).await.unwrap(), "decided stays decided");
    tx.commit().await.unwrap();
    assert_eq!(db.store.dead_letter(open[0].id).await.unwrap().unwrap().state, LetterState::Retried);
    assert!(db.store.dead_letter(404).await.unwrap().is_none());
    assert_eq!(db.store.open_dead_letter_count().await.unwrap(), 2);
    let newest = db.store.dead_letters(None, 2).await.unwrap();
    assert_eq!(newest.iter().map(|l| l.id).collect::<Vec<_>>(), [open[2].id, open[1].id]);
    assert_eq!(db.store.dead_letters(Some(open[1].id), 2).await.unwrap()[0].id, open[0].id);
}

async fn the_log_is_read_newest_first(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    tx.audit("user 2", "sale.pause", "voucher 10", Some("open"), Some("paused"), NOW).await.unwrap();
    tx.audit("provider", "payment.refused", "order 7", None, None, NOW).await.unwrap();
    tx.commit().await.unwrap();
    let lines = db.store.audit_lines(None, 10).await.unwrap();
    assert_eq!(lines.iter().map(|line| line.action.as_str()).collect::<Vec<_>>(), ["payment.refused", "sale.pause"]);
    assert_eq!((lines[1].who.as_str(), lines[1].subject.as_str(), lines[1].created_at), ("user 2", "voucher 10", NOW));
    assert_eq!((lines[1].before.as_deref(), lines[1].after.as_deref()), (Some("open"), Some("paused")));
    assert_eq!(db.store.audit_lines(Some(lines[0].id), 10).await.unwrap(), lines[1..]);

    // What moved the units of one sale: neither its pauses nor the stock of another.
    let mut tx = db.store.begin().await.unwrap();
    for (action, subject) in [
        ("sale.create", "voucher 10"),
        ("sale.stock", "voucher 10"),
        ("sale.stock", "voucher 101"),
        ("gate.rebuild", "voucher 10"),
        ("books.mend", "voucher 10"),
        ("sale.rebuild", "voucher 10"),
    ] {
        tx.audit("2", action, subject, None, None, NOW).await.unwrap();
    }
    tx.commit().await.unwrap();
    let moved = db.store.stock_lines(VoucherId(10), None, 10).await.unwrap();
    let actions: Vec<_> = moved.iter().map(|line| line.action.as_str()).collect();
    assert_eq!(actions, ["sale.rebuild", "books.mend", "gate.rebuild", "sale.stock", "sale.create"]);
    assert_eq!(db.store.stock_lines(VoucherId(10), Some(moved[1].id), 2).await.unwrap(), moved[2..4]);
}
