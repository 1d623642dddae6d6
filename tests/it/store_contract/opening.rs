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
    who_has_somebody_waiting_meets_a_lock_for_as_long_as_he_said_and_no_longer,
    a_statement_that_a_visitor_waits_for_is_given_up_soon_on_a_server,
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

async fn who_has_somebody_waiting_meets_a_lock_for_as_long_as_he_said_and_no_longer(db: Database) {
    let (voucher, _) = db.sale(10, 0).await;
    let other = Store::open(&db.url).await.unwrap();
    let mut holder = other.begin().await.unwrap();
    assert!(holder.take_units(voucher, 0, 1).await.unwrap());
    let limit = Duration::from_millis(300);
    for _ in 0..2 {
        let started = Instant::now();
        let hurried = async {
            let mut tx = db.store.begin_within(limit).await?;
            tx.take_units(voucher, 0, 1).await
        };
        let refused = hurried.await.unwrap_err();
        let took = started.elapsed();
        assert!(refused.is_transient() && took >= limit && took < Duration::from_millis(1500), "{refused} after {took:?}");
    }
    // The connection that hurried is patient again with whoever has time.
    let started = Instant::now();
    let patient = async {
        let mut tx = db.store.begin().await?;
        tx.take_units(voucher, 0, 1).await
    };
    assert!(patient.await.unwrap_err().is_transient());
    assert!(started.elapsed() > Duration::from_secs(2), "{:?}", started.elapsed());
    holder.rollback().await.unwrap();
    assert_eq!(db.store.sale(voucher).await.unwrap().unwrap().stock_left, 10);
}

async fn a_statement_that_a_visitor_waits_for_is_given_up_soon_on_a_server(db: Database) {
    let (voucher, _) = db.sale(10, 0).await;
    let limit = Duration::from_millis(300);
    let read = seckill::store::with_patience(limit, db.store.sale(voucher)).await.unwrap();
    assert_eq!(read.unwrap().stock_left, 10, "what is answered at once is not hurried");
    if db.url.starts_with("sqlite://") {
        return; // a file says something, or another program holds it: the story above
    }
    let mut holder = db.store.begin().await.unwrap();
    assert!(holder.take_units(voucher, 0, 1).await.unwrap());
    let started = Instant::now();
    let mut tx = db.store.begin().await.unwrap();
    let given_up = seckill::store::with_patience(limit, tx.take_units(voucher, 0, 1)).await.unwrap_err();
    let took = started.elapsed();
    assert!(
        matches!(given_up, StoreError::Unavailable(_)) && took >= limit && took < Duration::from_secs(2),
        "{given_up} {took:?}"
    );
    assert!(tx.commit().await.is_err(), "it is not known what became of it, so nothing of it stays");
    holder.commit().await.unwrap();
    assert_eq!(db.store.sale(voucher).await.unwrap().unwrap().stock_left, 9);
}

/// Told by the connection itself, from inside a statement of the store.
#[tokio::test]
async fn every_connection_to_postgres_commits_durably_and_has_limits_of_time() {
    let db = Database::postgres().await;
    // The server's own defaults are worse, as a careless operator's may be.
    outside(&db, "CREATE TABLE seen (name TEXT, setting TEXT)").await;
    outside(
        &db,
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
         EXECUTE format('ALTER DATABASE %I SET statement_timeout = 0', current_database()); END $$",
    )
    .await;
    outside(
        &db,
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO seen SELECT n, current_setting(n) FROM unnest(ARRAY['synchronous_commit', 'lock_timeout',
             'statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_isolation']) AS n;
           RETURN NEW; END $$",
    )
    .await;
    outside(&db, "CREATE TRIGGER tell BEFORE INSERT ON shop FOR EACH ROW EXECUTE FUNCTION tell()").await;
    let again = Store::open(&db.url).await.unwrap();
    for limit in [None, Some(Duration::from_millis(900))] {
        let mut tx = match limit {
            None => again.begin().await.unwrap(),
            Some(limit) => again.begin_within(limit).await.unwrap(),
        };
        tx.insert_shop(&seckill::store::NewShop::named("店"), NOW).await.unwrap();
        tx.commit().await.unwrap();
        let mut connection = PgConnection::connect(&db.url).await.unwrap();
        let query = "DELETE FROM seen RETURNING name, setting";
        let mut seen: Vec<(String, String)> = sqlx::query_as(query).fetch_all(&mut connection).await.unwrap();
        seen.sort();
        let lock = if limit.is_some() { "900ms" } else { "3s" };
        let expected = [
            ("idle_in_transaction_session_timeout", "10s"),
            ("lock_timeout", lock),
            ("statement_timeout", "10s"),
            ("synchronous_commit", "on"),
            ("transaction_isolation", "read committed"),
        ];
        assert_eq!(seen, expected.map(|(name, setting)| (name.to_owned(), setting.to_owned())));
    }
    again.close().await;
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

/// What came after Postgres 13, the oldest that is promised: the tests' own server is a newer one and would not complain.
#[test]
fn no_statement_needs_a_newer_postgres_than_13() {
    const LATER: [&str; 14] = [
        "MERGE INTO",
        "NULLS NOT DISTINCT",
        "JSON_TABLE",
        "JSON_VALUE",
        "ANY_VALUE",
        "DATE_BIN",
        "BIT_COUNT",
        "STRING_TO_TABLE",
        "REGEXP_LIKE",
        "REGEXP_COUNT",
        "MULTIRANGE",
        "OR REPLACE TRIGGER",
        "IDLE_SESSION_TIMEOUT",
        "CLIENT_CONNECTION_CHECK_INTERVAL",
    ];
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut read = 0;
    for folder in ["src/store", "migrations/postgres"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap().to_uppercase();
            for word in LATER {
                assert!(!text.contains(word), "{}: {word} is not in Postgres 13", path.display());
            }
            read += 1;
        }
    }
    assert!(read > 20, "{read}");
}
