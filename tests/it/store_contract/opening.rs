//! Stories of opening, migrating, locking and closing.

use std::time::{Duration, Instant};

use seckill::store::{Store, StoreError};
use sqlx::{Connection, PgConnection, SqliteConnection};

use super::{Database, NOW, on_both};

on_both!(
    migrating_again_changes_nothing_and_two_at_once_take_turns,
    a_newer_schema_is_refused,
    committed_work_is_there_after_closing_and_opening_again,
    a_transaction_that_holds_the_row_makes_others_wait_and_then_say_busy,
);

/// Runs one statement past the store, as another program would.
async fn outside(db: &Database, statement: &'static str) {
    if let Some(path) = db.url.strip_prefix("sqlite://") {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    } else {
        let mut connection = PgConnection::connect(&db.url).await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

async fn migrating_again_changes_nothing_and_two_at_once_take_turns(db: Database) {
    db.store.ping().await.unwrap();
    db.store.migrate().await.unwrap();
    let other = Store::open(&db.url).await.unwrap();
    outside(&db, "DELETE FROM shop_type WHERE id = 10").await;
    let (one, two) = tokio::join!(db.store.migrate(), other.migrate());
    one.unwrap();
    two.unwrap();
    assert_eq!(db.store.shop_types().await.unwrap().len(), 9, "what was applied is not applied again");
    other.close().await;
}

async fn a_newer_schema_is_refused(db: Database) {
    let statement = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     SELECT 9999, description, success, checksum, execution_time FROM _sqlx_migrations LIMIT 1";
    outside(&db, statement).await;
    let refused = db.store.migrate().await.unwrap_err();
    assert!(matches!(refused, StoreError::SchemaTooNew { found: 9999, known } if known < 9999), "{refused}");
    assert!(!refused.is_transient());
}

async fn committed_work_is_there_after_closing_and_opening_again(db: Database) {
    let shop = db.shop().await;
    db.store.close().await;
    assert!(db.store.ping().await.unwrap_err().is_transient());
    let again = Store::open(&db.url).await.unwrap();
    assert_eq!(again.shop_by_id(shop).await.unwrap().unwrap().name, "湖畔茶馆");
    again.close().await;
}

async fn a_transaction_that_holds_the_row_makes_others_wait_and_then_say_busy(db: Database) {
    let (voucher, _) = db.sale(10, 0).await;
    // Another process: with a pool of its own, it meets the lock in the database and not in our queue.
    let other = Store::open(&db.url).await.unwrap();
    let mut holder = other.begin().await.unwrap();
    assert!(holder.take_units(voucher, 0, 1).await.unwrap());
    let started = Instant::now();
    let waiting = async {
        let mut tx = db.store.begin().await?;
        tx.take_units(voucher, 0, 1).await
    };
    let refused = waiting.await.unwrap_err();
    assert!(matches!(refused, StoreError::Busy(_)) && refused.is_transient(), "{refused}");
    assert!((2..9).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    // Readers never wait for a writer, and see what was committed.
    assert_eq!(db.store.sale(voucher).await.unwrap().unwrap().stock_left, 10);
    holder.commit().await.unwrap();
    let mut tx = db.store.begin_within(Duration::from_secs(1)).await.unwrap();
    assert!(tx.take_units(voucher, 0, 1).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.store.sale(voucher).await.unwrap().unwrap().stock_left, 8);
}

#[tokio::test]
async fn the_one_writer_is_waited_for_no_longer_than_asked() {
    let db = Database::sqlite().await;
    let holder = db.store.begin().await.unwrap();
    let started = Instant::now();
    let refused = db.store.begin_within(Duration::from_millis(200)).await.unwrap_err();
    assert!(refused.is_transient() && started.elapsed() < Duration::from_secs(1), "{refused}");
    drop(holder);
    db.store.register_block(NOW.utc_day(), 1).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_away_within_about_a_second() {
    let started = Instant::now();
    let away = Store::open("postgres://seckill@127.0.0.1:1/none").await.unwrap_err();
    assert!(away.is_transient(), "{away}");
    assert!(started.elapsed() < Duration::from_secs(3));
    for bad in ["", "mysql://x", "seckill.db", "postgres://[", "redis://x"] {
        assert!(matches!(Store::open(bad).await, Err(StoreError::BadUrl)), "{bad}");
    }
    let nowhere = Store::open("sqlite:///nonexistent-folder/shop.db").await.unwrap_err();
    assert!(matches!(nowhere, StoreError::Unavailable(_)), "{nowhere}");
}
