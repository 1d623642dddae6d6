//! The shared way to Redis, whatever it is: one server, a primary that moves, or many nodes. For short calls.

use std::sync::Arc;

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{Cmd, Pipeline, RedisFuture, Value};

use super::breaker::Guarded;
use super::cluster::Cluster;
use super::sentinel::Sentinels;

/// Short calls only, each answered within about 500 ms or failed. Cheap to clone; reconnects, and follows a move, by itself.
#[derive(Clone)]
pub struct Shared(pub(super) Way);

#[derive(Clone)]
pub(super) enum Way {
    One(Guarded<ConnectionManager>),
    Sentinel(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

impl ConnectionLike for Shared {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.0 {
            Way::One(connection) => connection.req_packed_command(cmd),
            Way::Sentinel(sentinels) => Box::pin(async move {
                let mut connection = sentinels.current()?.shared.clone();
                let answer = connection.req_packed_command(cmd).await;
                match &answer {
                    Err(error) => sentinels.note(error),
                    Ok(Value::ServerError(error)) => sentinels.note(&error.clone().into()),
                    Ok(_) => {}
                }
                answer
            }),
            Way::Cluster(cluster) => Box::pin(cluster.call(cmd)),
        }
    }

    fn req_packed_commands<'a>(&'a mut self, pipeline: &'a Pipeline, offset: usize, count: usize) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.0 {
            Way::One(connection) => connection.req_packed_commands(pipeline, offset, count),
            Way::Sentinel(sentinels) => Box::pin(async move {
                let mut connection = sentinels.current()?.shared.clone();
                let answers = connection.req_packed_commands(pipeline, offset, count).await;
                match &answers {
                    Err(error) => sentinels.note(error),
                    Ok(answers) => {
                        for answer in answers {
                            if let Value::ServerError(error) = answer {
                                sentinels.note(&error.clone().into());
                            }
                        }
                    }
                }
                answers
            }),
            Way::Cluster(cluster) => Box::pin(cluster.pipeline(pipeline, offset, count)),
        }
    }

    fn get_db(&self) -> i64 {
        match &self.0 {
            Way::One(connection) => connection.get_db(),
            Way::Sentinel(sentinels) => sentinels.current().map_or(0, |node| node.shared.get_db()),
            Way::Cluster(_) => 0,
        }
    }
}
