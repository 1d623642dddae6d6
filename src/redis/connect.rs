//! Connections to one Redis server: a shared one for short calls, own ones for whoever blocks.
//!
//! Every connection has time-outs; a call that waits for ever would hold a buyer for ever.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::RngExt;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection, PubSub};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::RedisError;

/// How long an ordinary call may wait for its answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);
/// How long `open` keeps trying: a server that is just starting is not an error.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);

/// A Redis server and the shared connection to it; cheap to clone.
#[derive(Clone)]
pub struct Redis {
    client: Client,
    shared: ConnectionManager,
}

impl Redis {
    /// Opens `redis://…` or `unix://…`, waits up to 5 s for an answer and checks that the server is 7.0 or newer.
    pub async fn open(url: &str) -> Result<Self, RedisError> {
        // The library's own message could repeat the address, and with it a password.
        let info = url.into_connection_info().map_err(|e| RedisError::BadAddress(String::from(e.category())))?;
        Self::open_at(info).await
    }

    /// Opens the unix socket at `path`, as [`Redis::open`] does.
    pub async fn open_socket(path: &Path) -> Result<Self, RedisError> {
        let info =
            ConnectionAddr::Unix(path.to_owned()).into_connection_info().map_err(|e| RedisError::BadAddress(e.to_string()))?;
        Self::open_at(info).await
    }

    async fn open_at(info: ConnectionInfo) -> Result<Self, RedisError> {
        if !info.addr().is_supported() {
            return Err(RedisError::BadAddress(String::from("this build has no TLS, use redis:// or unix://")));
        }
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let plain = info.redis_settings().clone();
        let bad = |e: redis::RedisError| RedisError::BadAddress(String::from(e.category()));
        // RESP3 on the shared connection: only then a broken one is noticed, and made anew, while nobody uses it. So the
        // first call after a restart is not the one that finds out.
        let noticing =
            Client::open(info.clone().set_redis_settings(plain.clone().set_protocol(ProtocolVersion::RESP3))).map_err(bad)?;
        let client = Client::open(info.set_redis_settings(plain.set_protocol(ProtocolVersion::RESP2))).map_err(bad)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(10))
            .set_max_delay(Duration::from_millis(50))
            .set_pipeline_buffer_size(1024);
        let shared = ConnectionManager::new_lazy_with_config(noticing, config).map_err(bad)?;
        let redis = Self { client, shared };
        redis.check_version().await?;
        Ok(redis)
    }

    /// The shared connection: short calls only, each answered within 500 ms or failed. It reconnects by itself.
    #[must_use]
    pub fn shared(&self) -> ConnectionManager {
        self.shared.clone()
    }

    /// A connection of its own, for blocking reads: `response_timeout` must be longer than the longest block.
    pub async fn dedicated(&self, response_timeout: Duration) -> redis::RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(response_timeout));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// A connection of its own, for subscriptions. It ends when the server does; the caller connects again.
    pub async fn pubsub(&self) -> redis::RedisResult<PubSub> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.client.get_async_pubsub()).await {
            Ok(connected) => connected,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    /// Whether the server answers, within 500 ms.
    pub async fn ping(&self) -> redis::RedisResult<()> {
        redis::cmd("PING").exec_async(&mut self.shared()).await
    }

    async fn check_version(&self) -> Result<(), RedisError> {
        let started = Instant::now();
        loop {
            let answer: redis::RedisResult<String> = redis::cmd("INFO").arg("server").query_async(&mut self.shared()).await;
            match answer {
                Ok(info) => {
                    let version = info_field(&info, "redis_version").unwrap_or("unknown");
                    let major: u32 = version.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                    return if major >= 7 { Ok(()) } else { Err(RedisError::TooOld(version.to_owned())) };
                }
                Err(e) if started.elapsed() > OPEN_PATIENCE => return Err(RedisError::Unreachable(e.to_string())),
                Err(e) if matches!(e.kind(), redis::ErrorKind::AuthenticationFailed) => {
                    return Err(RedisError::Unreachable(String::from("it refuses the user or password")));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(rand::rng().random_range(50..150))).await,
            }
        }
    }
}

/// One field of an answer to INFO.
#[must_use]
pub(crate) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_info_is_found_by_its_whole_name() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\n";
        assert_eq!(info_field(info, "redis_version"), Some("7.0.15"));
        assert_eq!(info_field(info, "run_id"), Some("0a1b"));
        assert_eq!(info_field(info, "run"), None);
    }
}
