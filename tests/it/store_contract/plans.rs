//! How both databases find the due orders: by the partial index, never by reading the table.

use seckill::domain::order::CloseReason;
use seckill::store::{DUE_ORDERS, NEXT_DEADLINE, NewOrder};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use super::{Database, NOW, order};

/// Many orders that nobody waits for, and a few that are pending.
async fn a_day_of_orders(db: &Database) {
    let (voucher, users) = db.sale(100, 3000).await;
    let done: Vec<NewOrder> = (1..).zip(&users).map(|(n, user)| order(n, *user, voucher)).collect();
    let mut tx = db.store.begin().await.unwrap();
    tx.insert_failed(&done, CloseReason::SoldOut, NOW).await.unwrap();
    tx.commit().await.unwrap();
    let pending: Vec<NewOrder> = (10_000..).zip(&users[..5]).map(|(n, user)| order(n, *user, voucher)).collect();
    db.place(&pending).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_finds_due_orders_by_the_partial_index() {
    let db = Database::sqlite().await;
    a_day_of_orders(&db).await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(db.url.strip_prefix("sqlite://").unwrap());
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    for (statement, values) in [(DUE_ORDERS, 2), (NEXT_DEADLINE, 0)] {
        let mut query = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
        for _ in 0..values {
            query = query.bind(NOW.0);
        }
        let rows = query.fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>("detail")).collect();
        assert_eq!(plan.len(), 1, "one step, no sorting: {plan:?}");
        assert!(plan[0].contains("orders_due"), "{plan:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_finds_due_orders_by_the_partial_index() {
    let db = Database::postgres().await;
    a_day_of_orders(&db).await;
    let mut connection = PgConnection::connect(&db.url).await.unwrap();
    sqlx::query("ANALYZE orders").execute(&mut connection).await.unwrap();
    // As a prepared statement is planned after some uses: without knowing the values.
    sqlx::query("SET plan_cache_mode = force_generic_plan").execute(&mut connection).await.unwrap();
    for (name, statement, values) in [("due", DUE_ORDERS, "(1, 100)"), ("next", NEXT_DEADLINE, "")] {
        let types = if values.is_empty() { "" } else { "(BIGINT, BIGINT)" };
        let prepare = format!("PREPARE {name} {types} AS {statement}");
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.unwrap();
        let explain = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN EXECUTE {name} {values}")));
        let rows = explain.fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("orders_due") && !plan.contains("Seq Scan") && !plan.contains("Sort"), "{plan}");
    }
}
