//! Programs of two versions side by side, and a schema that is brought up to date over live data, also in two halves.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seckill::domain::ids::Lane;
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection, SqliteConnection};
use tokio::process::Command;

use crate::support::app::{TestApp, short_dir};
use crate::support::postgres::fresh_database;
use crate::support::process::{BINARY, run};
use crate::support::sql::Sql;
use crate::support::until;

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

/// A sale with a thousand orders, in the words of the first schema.
const LIVE_DATA: [&str; 6] = [
    "INSERT INTO shop (name, type_id, images, area, address, x, y, avg_price, score, open_hours, created_at) \
     VALUES ('店', 1, '', '', '', 0, 0, 0, 0, '', 1)",
    "INSERT INTO voucher (shop_id, title, sub_title, rules, pay_value, actual_value, created_at) VALUES (1, '券', '', '', 1, 2, 1)",
    "INSERT INTO flash_sale (voucher_id, stock_total, stock_left, epoch, epoch_claimed, begin_at, end_at) VALUES (1, 1500, 500, 1, 1, 1, 2)",
    "INSERT INTO users (phone, nick_name, created_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
     SELECT CAST(13900000000 + i AS TEXT), 'u', 1 FROM n",
    "INSERT INTO orders (id, user_id, voucher_id, status, live, pay_amount, epoch, admitted_at, created_at, pay_before) \
     SELECT 1000000 + u.id, u.id, 1, 'PENDING', TRUE, 1, 1, 1, 1, 9000000000000 FROM users u",
    "INSERT INTO outbox (kind, dedupe_key, payload, next_at) VALUES ('coupon', 'k', '{}', 9000000000000)",
];

/// What must be the same before and after.
const SUM: &str = "SELECT CAST(SUM(o.id * 31 + o.user_id + o.version) + (SELECT SUM(stock_left * 7 + epoch) FROM flash_sale) \
                   + (SELECT COUNT(*) FROM outbox) AS BIGINT) FROM orders o";

/// The last version but one.
fn before_the_last(migrator: &Migrator) -> i64 {
    let mut versions: Vec<i64> = migrator.iter().map(|m| m.version).collect();
    versions.sort_unstable();
    versions[versions.len() - 2]
}

async fn killed_in_the_middle(url: &str, sum: impl AsyncFn() -> i64, version: impl AsyncFn() -> i64, before: i64) {
    let dir = short_dir();
    let data = dir.path().join("d").display().to_string();
    let migrate = ["migrate", "--data-dir", &data, "--database-url", url];
    let expected = sum().await;
    for _ in 0..2 {
        let mut command = Command::new(BINARY);
        command.args(migrate).env("SECKILL_FAULT", "migrate-mid").stdin(Stdio::null()).stderr(Stdio::null());
        let status = tokio::time::timeout(Duration::from_mins(1), command.kill_on_drop(true).status()).await.unwrap().unwrap();
        assert_eq!(status.code(), None, "it was killed in the middle");
        assert_eq!((version().await, sum().await), (before, expected), "nothing is half done");
    }
    for _ in 0..2 {
        let (code, _, said) = run(&migrate, "").await;
        assert_eq!(code, 0, "{said}");
        assert!(version().await > before);
        assert_eq!(sum().await, expected, "every row is as it was");
    }
}

#[tokio::test]
async fn a_migration_killed_in_the_middle_of_live_data_is_finished_by_the_next_start_on_sqlite() {
    let dir = short_dir();
    let url = format!("sqlite://{}", dir.path().join("shop.db").display());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("shop.db")).create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let before = before_the_last(&SQLITE);
    SQLITE.run_to(before, &mut connection).await.unwrap();
    for statement in LIVE_DATA {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let ask = async |text: &'static str| -> i64 {
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let answer = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        answer
    };
    killed_in_the_middle(&url, async || ask(SUM).await, async || ask("SELECT MAX(version) FROM _sqlx_migrations").await, before)
        .await;
}

#[tokio::test]
async fn a_migration_killed_in_the_middle_of_live_data_is_finished_by_the_next_start_on_postgres() {
    let url = fresh_database().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let before = before_the_last(&POSTGRES);
    POSTGRES.run_to(before, &mut connection).await.unwrap();
    for statement in LIVE_DATA {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let ask = async |text: &'static str| -> i64 {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let answer = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        answer
    };
    killed_in_the_middle(&url, async || ask(SUM).await, async || ask("SELECT MAX(version) FROM _sqlx_migrations").await, before)
        .await;
}

/// `seckill migrate` on this database, running.
fn migrating(url: &str, data: &str) -> tokio::process::Child {
    let mut command = Command::new(BINARY);
    command.args(["migrate", "--data-dir", data, "--database-url", url]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

#[tokio::test]
async fn a_migration_killed_inside_a_statement_is_finished_by_the_next_start_on_postgres() {
    let url = fresh_database().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let before = before_the_last(&POSTGRES);
    POSTGRES.run_to(before, &mut connection).await.unwrap();
    for statement in LIVE_DATA {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    let expected: i64 = sqlx::query_scalar(SUM).fetch_one(&mut connection).await.unwrap();
    // The shop of before is at work: whoever builds an index on the orders waits for it, in the middle of the statement.
    sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
    sqlx::query("UPDATE orders SET version = version").execute(&mut connection).await.unwrap();

    let dir = short_dir();
    let data = dir.path().join("d").display().to_string();
    let mut child = migrating(&url, &data);
    let inside = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' \
                  AND query LIKE '%CREATE INDEX%' AND pid <> pg_backend_pid()";
    let mut other = PgConnection::connect(&url).await.unwrap();
    until("it is inside the statement", Duration::from_secs(20), async || {
        sqlx::query_scalar::<_, i64>(inside).fetch_one(&mut other).await.unwrap() == 1
    })
    .await;
    child.kill().await.unwrap();
    // The next one waits for what the dead one's connection still holds, and for the shop; then it does the whole step.
    let next = migrating(&url, &data);
    sqlx::query("COMMIT").execute(&mut connection).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_mins(1), next.wait_with_output()).await.unwrap().unwrap();
    assert!(ended.status.success());
    let (version, sum): (i64, i64) = (
        sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations WHERE success").fetch_one(&mut other).await.unwrap(),
        sqlx::query_scalar(SUM).fetch_one(&mut other).await.unwrap(),
    );
    assert!(version > before, "{version}");
    assert_eq!(sum, expected, "every row is as it was");
}

#[tokio::test]
async fn a_migration_killed_inside_a_statement_is_finished_by_the_next_start_on_sqlite() {
    let dir = short_dir();
    let file = dir.path().join("shop.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let before = before_the_last(&SQLITE);
    SQLITE.run_to(before, &mut connection).await.unwrap();
    for statement in LIVE_DATA {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    // As many orders of the past as make an index too large for the memory of a connection: it is written bit by bit.
    let more = "INSERT INTO orders (id, user_id, voucher_id, status, live, pay_amount, epoch, admitted_at, created_at, closed_at, close_reason) \
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) \
                SELECT 9000000 + i, 1, 1, 'CANCELLED', FALSE, 1, 1, 1, 1, 1, 'USER' FROM n";
    sqlx::query(more).execute(&mut connection).await.unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    let expected: i64 = sqlx::query_scalar(SUM).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let url = format!("sqlite://{}", file.display());
    let data = dir.path().join("d").display().to_string();
    let log = dir.path().join("shop.db-wal");
    let mut child = migrating(&url, &data);
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    // Written, and not committed: that comes with the last statement. A busy wait, for it is a matter of milliseconds.
    let written = tokio::task::spawn_blocking(move || {
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(30) {
            let size = std::fs::metadata(&log).map_or(0, |data| data.len());
            if size > 100_000 {
                kill_process(pid, Signal::KILL).unwrap();
                return size;
            }
        }
        0
    });
    assert!(written.await.unwrap() > 0, "it never wrote");
    assert_eq!(child.wait().await.unwrap().code(), None, "it was killed");
    let ask = async |text: &'static str| -> i64 {
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let answer = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        answer
    };
    assert_eq!(
        (ask("SELECT MAX(version) FROM _sqlx_migrations").await, ask(SUM).await),
        (before, expected),
        "nothing is half done"
    );
    let (code, _, said) = run(&["migrate", "--data-dir", &data, "--database-url", &url], "").await;
    assert_eq!(code, 0, "{said}");
    assert!(ask("SELECT MAX(version) FROM _sqlx_migrations").await > before);
    assert_eq!(ask(SUM).await, expected, "every row is as it was");
    assert_eq!(ask("SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'").await, 0);
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_an_older_program_in_one_sentence() {
    let dir = short_dir();
    let sqlite = format!("sqlite://{}", dir.path().join("shop.db").display());
    std::fs::write(dir.path().join("shop.db"), "").unwrap();
    for url in [sqlite, fresh_database().await] {
        let data = dir.path().join("d").display().to_string();
        let (code, _, said) = run(&["migrate", "--data-dir", &data, "--database-url", &url], "").await;
        assert_eq!(code, 0, "{said}");
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     SELECT 9999, description, success, checksum, execution_time FROM _sqlx_migrations LIMIT 1";
        let mut hand = Sql::open(&url).await;
        hand.execute(newer).await;
        hand.close().await;
        for verb in ["serve", "migrate"] {
            let mut arguments = vec![verb, "--data-dir", &data, "--database-url", &url];
            if verb == "serve" {
                arguments.extend(["--listen", "127.0.0.1:0"]);
            }
            let (code, out, said) = run(&arguments, "").await;
            let one = said.trim().lines().count() == 1;
            assert!(code == 1 && out.is_empty() && said.contains("newer") && one, "{verb} {url}: {code} {out} {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_later_program_is_left_for_it_and_the_sale_goes_on() {
    let app = TestApp::start().await;
    let voucher = app.sale(10).await;
    let newer = format!("XADD stream.orders:{{0}} * v 2 id 77 userId 1 voucherId {voucher} epoch 1 admittedAt 1 gift yes");
    let id: String = app.ask(&newer).await;
    let buyer = app.buyer().await;
    let order = app.admitted(&app.buy(&buyer, voucher).await);
    until("the sale goes on", Duration::from_secs(10), async || app.order(&buyer, order).await["status"] == "PENDING").await;
    let services = &app.app.services;
    until("the later entry alone is left, read and not settled", Duration::from_secs(10), async || {
        let depth = services.queue.depth(Lane(0)).await.unwrap();
        (depth.len, depth.pending) == (1, 1)
    })
    .await;
    assert_eq!(services.store.open_dead_letter_count().await.unwrap(), 0, "not put aside");
    assert_eq!(app.ask::<i64>(&format!("XACK stream.orders:{{0}} g1 {id}")).await, 1);
    assert_eq!(app.ask::<i64>(&format!("XDEL stream.orders:{{0}} {id}")).await, 1);
    app.finish().await;
}
