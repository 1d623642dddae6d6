//! One server: the shared connection to it, and new ones for whoever needs his own.
//!
//! Every connection has time-outs; a call that waits for ever would hold a buyer for ever.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, ProtocolVersion, RedisResult, ServerErrorKind};

use super::breaker::Guarded;

/// How long an ordinary call may wait for its answer.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long one attempt to connect may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);

/// One server.
pub(super) struct Node {
    info: ConnectionInfo,
    client: Client,
    /// The shared connection; it reconnects by itself, and while the server is silent its calls fail at once.
    pub(super) shared: Guarded<ConnectionManager>,
    /// Another one, for calls that wait for replicas: the server lets nothing else of their connection through meanwhile.
    pub(super) waiting: Guarded<ConnectionManager>,
}

impl Node {
    /// The server at this address; nothing is sent yet.
    pub(super) fn new(info: ConnectionInfo) -> RedisResult<Self> {
        Self::patient(info, RESPONSE_TIMEOUT)
    }

    /// The same server over a connection whose calls may take `limit`: for bulk work that nobody waits for.
    pub(super) fn with_patience(&self, limit: Duration) -> RedisResult<Self> {
        Self::patient(self.info.clone(), limit)
    }

    fn patient(info: ConnectionInfo, limit: Duration) -> RedisResult<Self> {
        let plain = info.redis_settings().clone();
        // RESP3 on the shared connection: only then a broken one is noticed, and made anew, while nobody uses it. So the
        // first call after a restart is not the one that finds out.
        let noticing = Client::open(info.clone().set_redis_settings(plain.clone().set_protocol(ProtocolVersion::RESP3)))?;
        let client = Client::open(info.clone().set_redis_settings(plain.set_protocol(ProtocolVersion::RESP2)))?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(limit))
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(10))
            .set_max_delay(Duration::from_millis(50))
            .set_pipeline_buffer_size(1024);
        let shared = Guarded::new(ConnectionManager::new_lazy_with_config(noticing.clone(), config.clone())?);
        // Lazy: it is opened by its first call, so who waits for nobody has none.
        let waiting = Guarded::new(ConnectionManager::new_lazy_with_config(noticing, config)?);
        Ok(Self { info, client, shared, waiting })
    }

    /// `host:port`, or the path of a socket.
    pub(super) fn place(&self) -> String {
        self.info.addr().to_string()
    }

    /// A connection of its own: `response_timeout` must be longer than the longest block.
    pub(super) async fn dedicated(&self, response_timeout: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(response_timeout));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// A connection of its own, for subscriptions.
    pub(super) async fn pubsub(&self) -> RedisResult<PubSub> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.client.get_async_pubsub()).await {
            Ok(connected) => connected,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    /// Whether it answers, within 500 ms.
    pub(super) async fn ping(&self) -> RedisResult<()> {
        redis::cmd("PING").exec_async(&mut self.shared.clone()).await
    }
}

/// Whether an error says that the right server may be another one by now.
pub(crate) fn lost_its_server(e: &redis::RedisError) -> bool {
    use ServerErrorKind as S;
    e.is_io_error()
        || e.is_unrecoverable_error()
        || matches!(
            e.kind(),
            ErrorKind::Server(S::ReadOnly | S::Moved | S::Ask | S::ClusterDown | S::MasterDown | S::BusyLoading | S::ExecAbort)
        )
}
