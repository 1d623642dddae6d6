//! Login codes in Redis: one a minute and phone, two minutes long, five tries, good once.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;

use super::SessionsAway;
use crate::domain::user::Phone;
use crate::keys;
use crate::redis::Redis;
use crate::redis::scripts::{CODE_NEW, CODE_TRY};
use crate::service::code_sender::CodeSender;

/// How long a code counts.
const LIFE: Duration = Duration::from_mins(2);
/// How long no other is sent to the same phone.
const APART: Duration = Duration::from_mins(1);
/// Tries that a code lives through.
const TRIES: u32 = 5;
/// How long a call may take.
const CALL: Duration = Duration::from_millis(400);

/// What became of a wish for a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Yes,
    /// One was sent a moment ago; whole seconds to wait.
    Wait(u64),
    /// This shop sends none.
    NoSender,
}

/// Login codes; cheap to clone.
#[derive(Clone)]
pub struct LoginCodes {
    redis: Redis,
    sender: Option<Arc<dyn CodeSender>>,
}

async fn call<T>(work: impl Future<Output = RedisResult<T>>) -> Result<T, SessionsAway> {
    match tokio::time::timeout(CALL, work).await {
        Ok(answer) => answer.map_err(|e| SessionsAway(e.to_string())),
        Err(_) => Err(SessionsAway(String::from("no answer in time"))),
    }
}

impl LoginCodes {
    /// Codes kept in `redis` and sent by `sender`; none: nobody can log in by code.
    #[must_use]
    pub fn new(redis: Redis, sender: Option<Arc<dyn CodeSender>>) -> Self {
        Self { redis, sender }
    }

    /// Whether this shop sends codes at all.
    #[must_use]
    pub fn can_send(&self) -> bool {
        self.sender.is_some()
    }

    /// Sends a new code to `phone`, whether or not it has an account: the answer must not tell.
    pub async fn send(&self, phone: &Phone) -> Result<Sent, SessionsAway> {
        let Some(sender) = &self.sender else { return Ok(Sent::NoSender) };
        let code = format!("{:06}", rand::random_range(0..1_000_000));
        let (key, mut redis) = ([keys::login_code(phone.as_str())], self.redis.shared());
        let remembered = CODE_NEW.call(&mut redis, &key, |call| {
            call.arg(&code).arg(LIFE.as_secs() * 1000).arg(APART.as_secs() * 1000);
        });
        let (word, wait): (String, u64) = call(remembered).await?;
        if word != "SET" {
            return Ok(Sent::Wait(wait.div_ceil(1000).max(1)));
        }
        if let Err(error) = sender.send(phone, &code).await {
            // Not to be waited for: he may ask again at once.
            call(redis::cmd("DEL").arg(&key[0]).exec_async(&mut redis)).await?;
            return Err(SessionsAway(error.to_string()));
        }
        Ok(Sent::Yes)
    }

    /// Whether `code` is the one that was sent to `phone`; it is used up by that.
    pub async fn is_right(&self, phone: &Phone, code: &str) -> Result<bool, SessionsAway> {
        let tried = async {
            let key = [keys::login_code(phone.as_str())];
            CODE_TRY
                .call::<String>(&mut self.redis.shared(), &key, |call| {
                    call.arg(code).arg(TRIES);
                })
                .await
        };
        Ok(call(tried).await? == "GOOD")
    }
}
