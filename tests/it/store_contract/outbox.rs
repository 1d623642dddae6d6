//! Stories of the outbox and of the blocks of order numbers.

use seckill::domain::time::UtcDay;
use seckill::store::{OpenRelease, RELEASE, Release};

use super::{Database, MINUTE, NOW, on_both, order};

on_both!(
    a_release_is_written_once_done_once_and_put_off_in_between,
    other_kinds_of_work_are_kept_apart,
    a_release_is_read_beside_its_sale,
    a_block_of_numbers_belongs_to_one,
);

async fn a_release_is_written_once_done_once_and_put_off_in_between(db: Database) {
    let (v, users) = db.sale(10, 2).await;
    let release = |n: u32| Release { voucher: v, user: users[0], order: order(n, users[0], v).id };
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.put_releases(&[release(1), release(2)], NOW).await.unwrap(), 2);
    assert_eq!(tx.put_releases(&[release(2), release(3)], NOW).await.unwrap(), 1, "each order once");
    assert_eq!(tx.put_releases(&[], NOW).await.unwrap(), 0);
    tx.commit().await.unwrap();

    let rows = db.store.due_outbox(RELEASE, NOW, 10).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.release().unwrap()).collect::<Vec<_>>(), [release(1), release(2), release(3)]);
    assert_eq!(rows[0].dedupe_key, format!("release:{}", release(1).order));
    assert_eq!(db.store.due_outbox(RELEASE, NOW, 2).await.unwrap().len(), 2);

    db.store.retry_outbox(&[rows[0].id], NOW + MINUTE).await.unwrap();
    db.store.finish_outbox(&[rows[1].id, rows[1].id, 404], NOW).await.unwrap();
    db.store.finish_outbox(&[], NOW).await.unwrap();
    db.store.retry_outbox(&[rows[1].id], NOW).await.unwrap();
    assert_eq!(db.store.due_outbox(RELEASE, NOW, 10).await.unwrap().len(), 1, "one is put off, one is done");
    assert_eq!(db.store.open_outbox_count(RELEASE).await.unwrap(), 2);
    assert_eq!(db.store.open_outbox().await.unwrap(), [(String::from(RELEASE), 2)]);
    assert!(db.store.pools().iter().any(|pool| pool.used + pool.idle > 0));
    let later = db.store.due_outbox(RELEASE, NOW + MINUTE, 10).await.unwrap();
    assert_eq!(later.iter().map(|row| (row.id, row.attempts)).collect::<Vec<_>>(), [(rows[2].id, 0), (rows[0].id, 1)]);
    assert_eq!(db.store.open_releases_of(v).await.unwrap(), [release(1), release(3)]);
    // Done for ever: the same thing is not written again.
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.put_releases(&[release(2)], NOW).await.unwrap(), 0);
}

async fn other_kinds_of_work_are_kept_apart(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.put_outbox("refund", "refund:1", r#"{"payment":1}"#, NOW).await.unwrap());
    assert!(!tx.put_outbox("refund", "refund:1", "{}", NOW).await.unwrap());
    tx.commit().await.unwrap();
    assert!(db.store.due_outbox(RELEASE, NOW, 10).await.unwrap().is_empty());
    let rows = db.store.due_outbox("refund", NOW, 10).await.unwrap();
    assert_eq!(rows[0].payload, r#"{"payment":1}"#);
    assert!(rows[0].release().is_err());
    let mut tx = db.store.begin().await.unwrap();
    tx.finish_outbox(&[rows[0].id], NOW).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.store.open_outbox_count("refund").await.unwrap(), 0);
}

async fn a_release_is_read_beside_its_sale(db: Database) {
    let (v, users) = db.sale(10, 1).await;
    let mut tx = db.store.begin().await.unwrap();
    let release = Release { voucher: v, user: users[0], order: order(1, users[0], v).id };
    tx.put_releases(&[release], NOW).await.unwrap();
    tx.put_outbox("refund", "refund:1", "{}", NOW).await.unwrap();
    tx.commit().await.unwrap();
    let id = db.store.due_outbox(RELEASE, NOW, 1).await.unwrap()[0].id;
    let read = |at| db.store.release_and_epoch(id, at);
    assert_eq!(read(NOW).await.unwrap(), Some(OpenRelease { open: true, epoch: Some(0), over: false }));
    assert_eq!(read(NOW + 60 * MINUTE).await.unwrap(), Some(OpenRelease { open: true, epoch: Some(0), over: true }));
    db.store.finish_outbox(&[id], NOW).await.unwrap();
    assert_eq!(read(NOW).await.unwrap(), Some(OpenRelease { open: false, epoch: Some(0), over: false }));
    let other = db.store.due_outbox("refund", NOW, 1).await.unwrap()[0].id;
    let unsold = OpenRelease { open: true, epoch: None, over: true };
    assert_eq!(db.store.release_and_epoch(other, NOW).await.unwrap(), Some(unsold));
    assert_eq!(db.store.release_and_epoch(404, NOW).await.unwrap(), None);
}

async fn a_block_of_numbers_belongs_to_one(db: Database) {
    let day = NOW.utc_day();
    assert_eq!(db.store.highest_block(day).await.unwrap(), None);
    let racing = (0..8).map(|_| db.store.register_block(day, 1));
    let won = futures_util::future::join_all(racing).await.into_iter().filter(|won| *won.as_ref().unwrap()).count();
    assert_eq!(won, 1);
    assert!(db.store.register_block(day, 131_073).await.unwrap());
    assert!(db.store.register_block(UtcDay(day.0 + 1), 1).await.unwrap());
    assert_eq!(db.store.highest_block(day).await.unwrap(), Some(131_073));
}
