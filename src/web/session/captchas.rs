//! Challenges in Redis: each waits there for its one answer, and is gone with it, right or wrong.

use std::time::Duration;

use redis::RedisResult;
use serde::{Deserialize, Serialize};

use super::SessionsAway;
use crate::domain::captcha::Challenge;
use crate::domain::ids::{UserId, VoucherId};
use crate::domain::time::Millis;
use crate::keys;
use crate::redis::Redis;

/// How long a call may take: the gate is asked after it, and a buyer hears something within a second.
const CALL: Duration = Duration::from_millis(400);

/// The value of a challenge's key, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    user_id: i64,
    voucher_id: i64,
    challenge: String,
    difficulty: u8,
    sum: (u32, u32),
    made_at: i64,
    /// Absent in challenges of an earlier version.
    #[serde(default)]
    not_before: i64,
    expires_at: i64,
}

/// Challenges that wait for their answer; cheap to clone.
#[derive(Clone)]
pub struct Captchas {
    redis: Redis,
}

async fn call<T>(work: impl Future<Output = RedisResult<T>>) -> Result<T, SessionsAway> {
    match tokio::time::timeout(CALL, work).await {
        Ok(answer) => answer.map_err(|e| SessionsAway(e.to_string())),
        Err(_) => Err(SessionsAway(String::from("no answer in time"))),
    }
}

/// An id of ours: nothing else becomes a key.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl Captchas {
    /// Challenges kept in `redis`.
    #[must_use]
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// Keeps a challenge until it expires. One write.
    pub async fn keep(&self, asked: &Challenge) -> Result<(), SessionsAway> {
        let kept = Kept {
            user_id: asked.user.0,
            voucher_id: asked.voucher.0,
            challenge: asked.text.clone(),
            difficulty: asked.difficulty,
            sum: asked.sum,
            made_at: asked.made_at.0,
            not_before: asked.not_before.0,
            expires_at: asked.expires_at.0,
        };
        let text = serde_json::to_string(&kept).map_err(|e| SessionsAway(e.to_string()))?;
        let life = u64::try_from(asked.made_at.until(asked.expires_at).as_millis()).unwrap_or(u64::MAX).max(1);
        let mut redis = self.redis.shared();
        let mut set = redis::cmd("SET");
        set.arg(keys::captcha(&asked.id)).arg(text).arg("PX").arg(life);
        call(set.exec_async(&mut redis)).await
    }

    /// Takes a challenge away to check an answer to it; none: never made, used, or too old. Of two who ask at once, one
    /// gets it.
    pub async fn take(&self, id: &str) -> Result<Option<Challenge>, SessionsAway> {
        if !is_id(id) {
            return Ok(None);
        }
        let mut redis = self.redis.shared();
        let word = if crate::fault::mutant("captcha-kept") { "GET" } else { "GETDEL" };
        let text: Option<String> = call(redis::cmd(word).arg(keys::captcha(id)).query_async(&mut redis)).await?;
        let Some(text) = text else { return Ok(None) };
        let kept: Kept = serde_json::from_str(&text).map_err(|e| SessionsAway(e.to_string()))?;
        Ok(Some(Challenge {
            id: id.to_owned(),
            user: UserId(kept.user_id),
            voucher: VoucherId(kept.voucher_id),
            text: kept.challenge,
            difficulty: kept.difficulty,
            sum: kept.sum,
            made_at: Millis(kept.made_at),
            not_before: Millis(kept.not_before),
            expires_at: Millis(kept.expires_at),
        }))
    }
}
