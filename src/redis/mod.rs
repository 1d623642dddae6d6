//! The way to a Redis server: the connections, and the child server for who brings none of his own.
//!
//! No command of the shop is here: admission is in `gate/`, the stream in `queue/`, the bus in `push/`.

mod address;
mod breaker;
mod child;
mod cluster;
mod connect;
mod durability;
mod link;
pub mod managed;
mod node;
#[cfg(feature = "fault-injection")]
mod script_mutants;
pub(crate) mod scripts;
mod sentinel;
mod shared;
mod slot;
mod stream_id;
mod watch;

pub(crate) use connect::info_field;
pub use connect::{Dedicated, Redis};
pub use managed::Managed;
pub(crate) use node::lost_its_server;
pub use shared::Shared;
pub use stream_id::{BadStreamId, StreamId};

/// Why no Redis can be used. Each text is one sentence for an operator; none holds a password.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// The address cannot be read, or needs something that this build lacks.
    #[error("the Redis address cannot be used: {0}")]
    BadAddress(String),
    /// Nobody answers.
    #[error("Redis does not answer: {0}")]
    Unreachable(String),
    /// It answers, and will not have us.
    #[error("Redis cannot be used: {0}")]
    Refused(&'static str),
    /// It answers and is older than 7.0.
    #[error("Redis {0} is too old: 7.0 or newer is needed")]
    TooOld(String),
    /// No server program for the managed Redis.
    #[error(
        "no Redis server program found{0}: install one (apt-get install redis-server) or name one with --redis-server or --redis-url"
    )]
    NoProgram(String),
    /// Another process manages the Redis of this data dir.
    #[error("the data dir {0} is in use by another seckill process")]
    Locked(String),
    /// The managed Redis could not be started.
    #[error("the managed Redis did not start: {0}")]
    Start(String),
}

/// Reads what `--redis-url` may say, without connecting.
///
/// # Errors
/// [`RedisError::BadAddress`], which never repeats the address.
pub fn check_address(url: &str) -> Result<(), RedisError> {
    address::Address::read(url).map(drop)
}

/// Starts a task that looks where servers are for as long as anybody asks for it.
#[expect(clippy::disallowed_methods, reason = "it holds nothing that an end must wait for, and ends with its last user")]
fn watch_over(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}
