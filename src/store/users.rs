//! Users: phone, name, password hash. Hashing is `service/users`' business; a hash is text here.

use sqlx::QueryBuilder;

use super::run::{ROWS, changed, on_store, on_tx};
use super::{Store, StoreError, Tx};
use crate::domain::ids::UserId;
use crate::domain::time::Millis;
use crate::domain::user::{NickName, Phone, User};

/// A user with what a login is checked against.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Who.
    pub user: User,
    /// The password's hash; none: this user has no password.
    pub password_hash: Option<String>,
}

#[derive(sqlx::FromRow)]
struct UserRow {
    id: i64,
    nick_name: String,
    password_hash: Option<String>,
    admin: bool,
    disabled: bool,
    credits: i64,
}

impl From<UserRow> for Credentials {
    fn from(row: UserRow) -> Self {
        let user =
            User { id: UserId(row.id), nick_name: row.nick_name, admin: row.admin, disabled: row.disabled, credits: row.credits };
        Self { user, password_hash: row.password_hash }
    }
}

impl Store {
    /// The user of a phone. Uses the unique index on `phone`.
    pub async fn user_by_phone(&self, phone: &Phone) -> Result<Option<Credentials>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, UserRow>(
            "SELECT id, nick_name, password_hash, admin, disabled, credits FROM users WHERE phone = $1"
        ).bind(phone.as_str()).fetch_optional(conn))?;
        Ok(row.map(Credentials::from))
    }

    /// The user of an id, with the hash (to check an old password). Uses the primary key.
    pub async fn user_by_id(&self, id: UserId) -> Result<Option<Credentials>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, UserRow>(
            "SELECT id, nick_name, password_hash, admin, disabled, credits FROM users WHERE id = $1"
        ).bind(id.0).fetch_optional(conn))?;
        Ok(row.map(Credentials::from))
    }

    /// Whether there are users with a password beside those with these two phones. Scans; for the start of the demo only.
    pub async fn has_users_beside(&self, one: &Phone, other: &Phone) -> Result<bool, StoreError> {
        on_store!(self, Db, conn => sqlx::query_scalar::<Db, bool>(
            "SELECT EXISTS (SELECT 1 FROM users WHERE password_hash IS NOT NULL AND phone <> $1 AND phone <> $2)"
        ).bind(one.as_str()).bind(other.as_str()).fetch_one(conn))
    }
}

impl Tx {
    /// Adds a user.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: the phone is taken (unique index on `phone`). The transaction is still good: nothing failed
    /// inside the database.
    pub async fn insert_user(
        &mut self,
        phone: &Phone,
        nick: &NickName,
        hash: Option<&str>,
        admin: bool,
        now: Millis,
    ) -> Result<UserId, StoreError> {
        let id = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "INSERT INTO users (phone, nick_name, password_hash, admin, created_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (phone) DO NOTHING RETURNING id"
        ).bind(phone.as_str()).bind(nick.as_str()).bind(hash).bind(admin).bind(now.0).fetch_optional(conn))?;
        id.map(UserId).ok_or(StoreError::Conflict)
    }

    /// Replaces the password's hash; false: no such user. Uses the primary key.
    pub async fn set_password_hash(&mut self, user: UserId, hash: &str) -> Result<bool, StoreError> {
        Ok(changed!(self, "UPDATE users SET password_hash = $2 WHERE id = $1", user.0, hash)? == 1)
    }

    /// Replaces the name to show; false: no such user. Uses the primary key.
    pub async fn set_nick_name(&mut self, user: UserId, nick: &NickName) -> Result<bool, StoreError> {
        Ok(changed!(self, "UPDATE users SET nick_name = $2 WHERE id = $1", user.0, nick.as_str())? == 1)
    }

    /// Shuts a user out or lets him in again; false: no such user. Uses the primary key.
    pub async fn set_disabled(&mut self, user: UserId, disabled: bool) -> Result<bool, StoreError> {
        Ok(changed!(self, "UPDATE users SET disabled = $2 WHERE id = $1", user.0, disabled)? == 1)
    }

    /// Adds to (or, below zero, takes from) a user's credits; false: no such user. Uses the primary key.
    pub async fn add_credits(&mut self, user: UserId, delta: i64) -> Result<bool, StoreError> {
        Ok(changed!(self, "UPDATE users SET credits = credits + $2 WHERE id = $1", user.0, delta)? == 1)
    }

    /// Users with the `count` phones from `first_phone` on, in the order of their phones; those that exist already are taken
    /// as they are. For load tests: they have no password. Uses the unique index on `phone`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the phones would not have eleven digits.
    pub async fn insert_users_bulk(&mut self, first_phone: u64, count: u64, now: Millis) -> Result<Vec<UserId>, StoreError> {
        let end = first_phone.saturating_add(count);
        if first_phone < 10_000_000_000 || end > 100_000_000_000 {
            return Err(StoreError::Corrupt("a phone has eleven digits"));
        }
        let phones: Vec<u64> = (first_phone..end).collect();
        for chunk in phones.chunks(ROWS) {
            on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new("INSERT INTO users (phone, nick_name, created_at) ");
                sql.push_values(chunk, |mut row, phone| {
                    row.push_bind(phone.to_string()).push_bind(format!("user_{:010}", phone - first_phone)).push_bind(now.0);
                });
                sql.push(" ON CONFLICT (phone) DO NOTHING");
                sql.build().persistent(chunk.len() == ROWS).execute(conn).await.map(drop)
            })?;
        }
        let ids = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT id FROM users WHERE phone BETWEEN $1 AND $2 AND length(phone) = 11 ORDER BY phone"
        ).bind(first_phone.to_string()).bind((end.saturating_sub(1)).to_string()).fetch_all(conn))?;
        Ok(ids.into_iter().map(UserId).collect())
    }
}
