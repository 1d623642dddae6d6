//! Sessions in Redis, behind tower-sessions' store trait. The only file of `web` that sends Redis commands.
//!
//! A key is the hash of a token, never the token: who reads the database or a backup cannot log in with it.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use redis::{AsyncCommands, ExistenceCheck, SetExpiry, SetOptions};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tower_sessions::SessionStore;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{Error, Result};

use super::Body;
use crate::domain::ids::UserId;
use crate::domain::time::Millis;
use crate::keys;
use crate::redis::Redis;

/// How long a call about a session may take: a purchase that asks for its session and then the gate must be answered
/// within a second.
const CALL: Duration = Duration::from_millis(400);

/// The lower-case hex SHA-256 of a token: the session's name in Redis, in memory and on the bus.
#[must_use]
pub fn hash_of(id: &Id) -> String {
    HEXLOWER.encode(&Sha256::digest(id.to_string()))
}

/// Reads and writes session records. Every failure is `Error::Backend`: Redis could not be asked.
#[derive(Clone)]
pub struct RedisSessions {
    redis: Redis,
}

impl std::fmt::Debug for RedisSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedisSessions")
    }
}

async fn call<T>(work: impl Future<Output = redis::RedisResult<T>>) -> Result<T> {
    match tokio::time::timeout(CALL, work).await {
        Ok(answer) => answer.map_err(|e| Error::Backend(e.to_string())),
        Err(_) => Err(Error::Backend(String::from("no answer in time"))),
    }
}

fn millis(at: OffsetDateTime) -> u64 {
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}

fn encode(record: &Record) -> Result<String> {
    serde_json::to_string(&record.data).map_err(|e| Error::Encode(e.to_string()))
}

fn options(existence: ExistenceCheck, record: &Record) -> SetOptions {
    SetOptions::default().conditional_set(existence).with_expiration(SetExpiry::PXAT(millis(record.expiry_date)))
}

impl RedisSessions {
    /// Sessions in this Redis.
    #[must_use]
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// What the session of this hash holds, as its store trait has it.
    async fn load_hash(&self, hash: &str) -> Result<Option<HashMap<String, serde_json::Value>>> {
        let mut connection = self.redis.shared();
        let text: Option<String> = call(connection.get(keys::session(hash))).await?;
        text.map(|t| serde_json::from_str(&t).map_err(|e| Error::Decode(e.to_string()))).transpose()
    }

    /// What each of these sessions holds, in one round trip. One that cannot be read is none.
    pub(super) async fn load_bodies(&self, hashes: &[String]) -> Result<Vec<Option<Body>>> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = redis::cmd("MGET");
        for hash in hashes {
            read.arg(keys::session(hash));
        }
        let mut connection = self.redis.shared();
        let texts: Vec<Option<Vec<u8>>> = call(read.query_async(&mut connection)).await?;
        Ok(texts.into_iter().map(|text| serde_json::from_slice(&text?).ok()).collect())
    }

    /// Writes many new sessions in one round trip (load tests): each record with its user and last instant.
    pub async fn create_many(&self, sessions: &[(UserId, Record, Millis)]) -> Result<()> {
        let mut pipe = redis::pipe();
        for (user, record, last) in sessions {
            let hash = hash_of(&record.id);
            let listed = keys::user_sessions(*user);
            pipe.zadd(&listed, &hash, last.0).ignore().pexpire_at(&listed, last.0).ignore();
            pipe.set_options(keys::session(&hash), encode(record)?, options(ExistenceCheck::NX, record)).ignore();
        }
        // Not over the shared connection: a thousand writes may rightly take longer than its calls are waited for.
        let away = |e: redis::RedisError| Error::Backend(e.to_string());
        let mut connection = self.redis.patient(Duration::from_secs(10)).map_err(away)?;
        pipe.query_async(&mut connection).await.map_err(away)
    }

    /// Notes that `user` has a session of this hash until `last`, and forgets those that are long over.
    /// Goes before the session itself is written, so that no session is ever missing from the list.
    pub async fn list(&self, user: UserId, hash: &str, last: Millis, now: Millis) -> Result<()> {
        let key = keys::user_sessions(user);
        let mut pipe = redis::pipe();
        pipe.zrembyscore(&key, "-inf", now.0).ignore();
        pipe.zadd(&key, hash, last.0).ignore();
        pipe.pexpire_at(&key, last.0).ignore();
        let mut connection = self.redis.shared();
        call(pipe.query_async::<()>(&mut connection)).await
    }

    /// The hashes of all sessions of `user`.
    pub async fn listed(&self, user: UserId) -> Result<Vec<String>> {
        let mut connection = self.redis.shared();
        call(connection.zrange(keys::user_sessions(user), 0, -1)).await
    }

    /// Ends sessions of `user` by their hashes.
    pub async fn delete_hashes(&self, user: UserId, hashes: &[String]) -> Result<()> {
        if hashes.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for hash in hashes {
            pipe.del(keys::session(hash)).ignore();
        }
        pipe.zrem(keys::user_sessions(user), hashes).ignore();
        let mut connection = self.redis.shared();
        call(pipe.query_async::<()>(&mut connection)).await
    }
}

#[async_trait]
impl SessionStore for RedisSessions {
    async fn create(&self, record: &mut Record) -> Result<()> {
        let mut connection = self.redis.shared();
        loop {
            let (key, text) = (keys::session(&hash_of(&record.id)), encode(record)?);
            let set: Option<String> = call(connection.set_options(key, text, options(ExistenceCheck::NX, record))).await?;
            if set.is_some() {
                return Ok(());
            }
            // 128 random bits met twice: never adopt what somebody else holds.
            record.id = Id::default();
        }
    }

    async fn save(&self, record: &Record) -> Result<()> {
        // XX: a session that was ended in the meantime stays ended.
        let mut connection = self.redis.shared();
        let key = keys::session(&hash_of(&record.id));
        let _: Option<String> = call(connection.set_options(key, encode(record)?, options(ExistenceCheck::XX, record))).await?;
        Ok(())
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let data = self.load_hash(&hash_of(id)).await?;
        // The last instant is inside the data; Redis' own expiry only sweeps.
        Ok(data.map(|data| Record { id: *id, data, expiry_date: OffsetDateTime::UNIX_EPOCH }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        let mut connection = self.redis.shared();
        call(connection.del::<_, i64>(keys::session(&hash_of(id)))).await.map(drop)
    }
}
