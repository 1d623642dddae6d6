//! The scripts that are sent to Redis, by their hash; sent whole when the server does not know one.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind};

use super::Redis;

/// One script of `lua/`.
pub(crate) struct Script {
    text: &'static str,
    /// Lower-case hex SHA-1 of the text.
    hash: LazyLock<String, fn() -> String>,
}

macro_rules! script {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub(crate) static $name: Script = Script {
            text: include_str!(concat!("../../lua/", $file)),
            hash: LazyLock::new(|| {
                redis::Script::new(include_str!(concat!("../../lua/", $file))).get_hash().to_owned()
            }),
        };
    };
}

script!(ADMIT, "admit.lua");
script!(RELEASE, "release.lua");
script!(CLOSE, "close.lua");
script!(STAGE, "stage.lua");
script!(LOAD, "load.lua");
script!(OPEN, "open.lua");
script!(PAUSE, "pause.lua");
script!(END, "end.lua");
script!(COUNT, "count.lua");
script!(TURNED_AWAY, "turned_away.lua");
script!(SETTLE, "settle.lua");
script!(STRAYS, "strays.lua");
script!(CODE_NEW, "code_new.lua");
script!(CODE_TRY, "code_try.lua");
script!(PACE, "pace.lua");
script!(GUESS, "guess.lua");
script!(DROP_CONSUMERS, "drop_consumers.lua");

impl Script {
    /// Runs the script once. Sent a second time, whole, only when the server said that it does not know it, and so ran
    /// nothing; after every other error it may have run.
    pub(crate) async fn call<T: FromRedisValue>(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        keys: &[String],
        arguments: impl Fn(&mut Cmd),
    ) -> RedisResult<T> {
        #[cfg(feature = "fault-injection")]
        if let Some(text) = super::script_mutants::mutated(self.text) {
            return command("EVAL", &text, keys, &arguments).query_async(connection).await;
        }
        match self.by_hash(keys, &arguments).query_async(connection).await {
            Err(e) if is_unknown(&e) => self.whole(keys, &arguments).query_async(connection).await,
            answer => answer,
        }
    }

    /// As [`Script::call`]; answers too how many replicas have what it wrote, once `replicas` do or `within` is over.
    pub(crate) async fn call_and_wait<T: FromRedisValue>(
        &self,
        redis: &Redis,
        keys: &[String],
        arguments: impl Fn(&mut Cmd),
        (replicas, within): (u16, Duration),
    ) -> RedisResult<(T, i64)> {
        let answer = match redis.ask_and_wait(&self.by_hash(keys, &arguments), replicas, within).await {
            Err(e) if is_unknown(&e) => redis.ask_and_wait(&self.whole(keys, &arguments), replicas, within).await,
            answer => answer,
        };
        let (value, counted) = answer?;
        Ok((redis::from_redis_value(value.extract_error()?)?, counted))
    }

    fn by_hash(&self, keys: &[String], arguments: &impl Fn(&mut Cmd)) -> Cmd {
        command("EVALSHA", &self.hash, keys, arguments)
    }

    /// EVAL also makes it known. Loading it by a call of its own would leave a moment in which it can be forgotten again.
    fn whole(&self, keys: &[String], arguments: &impl Fn(&mut Cmd)) -> Cmd {
        command("EVAL", self.text, keys, arguments)
    }
}

fn command(name: &str, script: &str, keys: &[String], arguments: &impl Fn(&mut Cmd)) -> Cmd {
    let mut call = redis::cmd(name);
    call.arg(script).arg(keys.len()).arg(keys);
    arguments(&mut call);
    call
}

fn is_unknown(e: &redis::RedisError) -> bool {
    e.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
