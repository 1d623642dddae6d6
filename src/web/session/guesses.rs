//! Guesses at one account, counted in Redis: the same number on every instance. The login path alone asks; it goes to Redis
//! for its session anyway, and a hash costs a hundred such questions.

use std::time::Duration;

use super::SessionsAway;
use crate::domain::time::Millis;
use crate::keys;
use crate::redis::Redis;
use crate::redis::scripts::GUESS;

/// After the guesses that wait for nothing: one second, then two, four, … and never longer than a minute. An account is
/// slowed, not shut: whoever tries its doors for ever must not keep its owner out for ever.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// After so long without a guess they are forgotten.
const FORGOTTEN: Duration = Duration::from_mins(15);
/// How long a call may take.
const CALL: Duration = Duration::from_millis(400);

/// What is guessed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guessed<'a> {
    /// The password of the account with this phone, whether there is one or not.
    Password(&'a str),
    /// A login code sent to this phone: counted apart, so that somebody who guesses passwords cannot slow this way in.
    Code(&'a str),
    /// The password of somebody who is logged in, shown once more.
    Own(i64),
}

impl Guessed<'_> {
    fn key(self) -> String {
        match self {
            Self::Password(phone) => keys::limit("password", phone),
            Self::Code(phone) => keys::limit("code", phone),
            Self::Own(user) => keys::limit("own", &user.to_string()),
        }
    }
}

/// All guesses; cheap to clone.
#[derive(Clone)]
pub struct Guesses {
    redis: Redis,
    free: Option<u32>,
}

impl Guesses {
    /// Guesses kept in `redis`. `free` of them at one account wait for nothing; none: nothing is counted.
    #[must_use]
    pub fn new(redis: Redis, free: Option<u32>) -> Self {
        Self { redis, free }
    }

    /// Counts one guess before it is checked, right or wrong: the answer of a limit must not tell which it was.
    /// Answers the seconds to wait; 0: go on.
    pub async fn count(&self, what: Guessed<'_>, now: Millis) -> Result<u64, SessionsAway> {
        let Some(free) = self.free else { return Ok(0) };
        let (key, mut redis) = ([what.key()], self.redis.shared());
        let counted = GUESS.call::<u64>(&mut redis, &key, |call| {
            call.arg(now.0).arg(free).arg(ms(FIRST_WAIT)).arg(ms(LONGEST_WAIT)).arg(ms(FORGOTTEN));
        });
        match tokio::time::timeout(CALL, counted).await {
            Ok(Ok(wait)) => Ok(wait.div_ceil(1000)),
            Ok(Err(error)) => Err(SessionsAway(error.to_string())),
            Err(_) => Err(SessionsAway(String::from("no answer in time"))),
        }
    }

    /// Forgets the guesses at an account: its owner is there. Of no account does it tell anything that his login does not.
    pub async fn forget(&self, what: Guessed<'_>) {
        if self.free.is_none() {
            return;
        }
        let mut redis = self.redis.shared();
        let mut del = redis::cmd("DEL");
        del.arg(what.key());
        if !matches!(tokio::time::timeout(CALL, del.exec_async(&mut redis)).await, Ok(Ok(()))) {
            tracing::debug!("guesses were not forgotten");
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
