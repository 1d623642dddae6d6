//! Another program's way into a shop's database, whichever it is: it reads, changes rows by hand, or lets nobody else write.

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection, Executor, FromRow, PgConnection, SqliteConnection};

/// A connection of its own.
pub enum Sql {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Sql {
    /// `postgres://…` or `sqlite://…`.
    pub async fn open(url: &str) -> Self {
        if url.starts_with("postgres://") {
            return Self::Postgres(PgConnection::connect(url).await.unwrap());
        }
        Self::Sqlite(SqliteConnection::connect(url).await.unwrap())
    }

    /// All rows of a query.
    pub async fn rows<T>(&mut self, text: &str) -> Vec<T>
    where
        T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let text = AssertSqlSafe(text.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::query_as(text).fetch_all(connection).await.unwrap(),
            Self::Postgres(connection) => sqlx::query_as(text).fetch_all(connection).await.unwrap(),
        }
    }

    /// The names of all tables.
    pub async fn tables(&mut self) -> Vec<String> {
        let text = match self {
            Self::Sqlite(_) => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1",
            Self::Postgres(_) => "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
        };
        self.rows(text).await.into_iter().map(|(name,)| name).collect()
    }

    /// Every row of a table, as text.
    pub async fn whole(&mut self, table: &str) -> Vec<String> {
        let text = match self {
            Self::Sqlite(_) => {
                let each = "SELECT group_concat('quote(\"' || name || '\")', ' || ''|'' || ')";
                let columns: Vec<(String,)> = self.rows(&format!("{each} FROM pragma_table_info('{table}')")).await;
                format!("SELECT {} FROM \"{table}\" ORDER BY 1", columns[0].0)
            }
            Self::Postgres(_) => format!("SELECT CAST(t AS TEXT) FROM \"{table}\" t ORDER BY 1"),
        };
        self.rows(&text).await.into_iter().map(|(row,)| row).collect()
    }

    /// One statement, or several.
    pub async fn execute(&mut self, text: &str) {
        let text = AssertSqlSafe(text.to_owned());
        match self {
            Self::Sqlite(connection) => drop(connection.execute(text).await.unwrap()),
            Self::Postgres(connection) => drop(connection.execute(text).await.unwrap()),
        }
    }

    /// From now on nobody else can write, and everybody can read, until [`Self::close`].
    pub async fn lock_writes(&mut self) {
        if matches!(self, Self::Sqlite(_)) {
            return self.execute("BEGIN IMMEDIATE").await;
        }
        let tables = self.tables().await.join(", ");
        self.execute(&format!("BEGIN; LOCK TABLE {tables} IN EXCLUSIVE MODE")).await;
    }

    /// Every update of `table` fails until [`Self::allow_updates`].
    pub async fn refuse_updates(&mut self, table: &str, column: &str) {
        let text = match self {
            Self::Sqlite(_) => {
                format!("CREATE TRIGGER refuse BEFORE UPDATE OF {column} ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")
            }
            Self::Postgres(_) => format!(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
                 CREATE TRIGGER refuse BEFORE UPDATE OF {column} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
            ),
        };
        self.execute(&text).await;
    }

    /// They go through again.
    pub async fn allow_updates(&mut self, table: &str) {
        match self {
            Self::Sqlite(_) => self.execute("DROP TRIGGER refuse").await,
            Self::Postgres(_) => self.execute(&format!("DROP TRIGGER refuse ON {table}")).await,
        }
    }

    /// How often the server had to end a deadlock in this database; it is told about once a second.
    pub async fn deadlocks(&mut self) -> i64 {
        match self {
            Self::Sqlite(_) => 0, // one writer
            Self::Postgres(_) => {
                let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
                self.rows::<(i64,)>(count).await[0].0
            }
        }
    }

    /// Lets go of everything.
    pub async fn close(self) {
        match self {
            Self::Sqlite(connection) => connection.close().await.unwrap(),
            Self::Postgres(connection) => connection.close().await.unwrap(),
        }
    }
}
