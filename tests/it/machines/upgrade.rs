//! Programs of two versions side by side, and a schema that is brought up to date over live data, also in two halves.

use std::process::Stdio;
use std::time::Duration;

use seckill::domain::ids::Lane;
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection, SqliteConnection};
use tokio::process::Command;

use crate::support::app::{TestApp, short_dir};
use crate::support::postgres::fresh_database;
use crate::support::process::{BINARY, run};
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

#[tokio::test]
async fn a_newer_schema_is_refused_by_an_older_program_in_one_sentence() {
    let dir = short_dir();
    let data = dir.path().join("d").display().to_string();
    let (code, _, said) = run(&["migrate", "--data-dir", &data], "").await;
    assert_eq!(code, 0, "{said}");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("d/seckill.db"));
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 SELECT 9999, description, success, checksum, execution_time FROM _sqlx_migrations LIMIT 1";
    sqlx::query(newer).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let (code, out, said) = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", &data], "").await;
    assert!(code == 1 && out.is_empty() && said.contains("newer") && said.trim().lines().count() == 1, "{code} {out} {said}");
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
