//! A Redis Cluster: which node holds which slot, and calls that go there, also while slots move.
//!
//! A call that a node turned away (MOVED, ASK, TRYAGAIN) ran nothing, so it is sent on. A call whose answer was lost is
//! never sent again here: whether it ran is for the caller to find out.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use rand::seq::SliceRandom;
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::address::Manner;
use super::node::{Node, RESPONSE_TIMEOUT, lost_its_server};
use super::slot::{SLOTS, key_of, slot_of};

/// Between two looks at the map of slots while all is well.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The least time between two of them, however many calls go wrong.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Nodes that are asked in one look.
const ASKED: usize = 8;
/// A call is sent on this often at most.
const HOPS: usize = 5;
/// The pause before a call that a moving slot turned away is tried again.
const SLOT_MOVES: Duration = Duration::from_millis(20);

/// A place: host and port.
type Place = (String, u16);

/// Who holds which slot. Replaced as a whole.
#[derive(Default)]
struct Map {
    nodes: HashMap<Place, Arc<Node>>,
    /// For each slot its node; empty as long as no node answered.
    owners: Vec<Option<Arc<Node>>>,
}

/// The nodes of one Cluster.
pub(super) struct Cluster {
    seeds: Vec<Place>,
    manner: Manner,
    map: RwLock<Arc<Map>>,
    trouble: Notify,
}

/// Nobody is known to hold the slot: nothing was sent.
fn no_owner() -> redis::RedisError {
    (ErrorKind::Server(ServerErrorKind::ClusterDown), "no node of the Cluster is known to hold this slot").into()
}

impl Cluster {
    /// Looks once, so that the map is known when a node answers, and goes on looking for as long as anybody holds this.
    pub(super) async fn start(seeds: Vec<Place>, manner: Manner) -> Arc<Self> {
        let this = Arc::new(Self { seeds, manner, map: RwLock::default(), trouble: Notify::new() });
        let _not_yet = this.look().await;
        super::watch_over(follow(Arc::downgrade(&this)));
        this
    }

    /// The same map over connections whose calls may take `limit`, for bulk work; it is not looked at again.
    pub(super) fn with_patience(&self, limit: Duration) -> RedisResult<Self> {
        let map = self.map();
        let mut copy = Map::default();
        for (place, node) in &map.nodes {
            copy.nodes.insert(place.clone(), Arc::new(node.with_patience(limit)?));
        }
        let places: HashMap<*const Node, &Place> = map.nodes.iter().map(|(place, node)| (Arc::as_ptr(node), place)).collect();
        let same = |owner: &Option<Arc<Node>>| copy.nodes.get(*places.get(&Arc::as_ptr(owner.as_ref()?))?).cloned();
        copy.owners = map.owners.iter().map(same).collect();
        let map = RwLock::new(Arc::new(copy));
        Ok(Self { seeds: self.seeds.clone(), manner: self.manner.clone(), map, trouble: Notify::new() })
    }

    fn map(&self) -> Arc<Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node that holds a slot.
    fn owner(&self, slot: u16) -> RedisResult<Arc<Node>> {
        let owner = self.map().owners.get(usize::from(slot)).cloned().flatten();
        owner.ok_or_else(|| {
            self.trouble.notify_one();
            no_owner()
        })
    }

    /// The node that holds a key.
    pub(super) fn owner_of(&self, key: &[u8]) -> RedisResult<Arc<Node>> {
        self.owner(slot_of(key))
    }

    /// Any node that holds slots.
    pub(super) fn any(&self) -> RedisResult<Arc<Node>> {
        self.owner(rand::random_range(0..SLOTS))
    }

    /// All nodes that hold slots; an error when a slot has none.
    pub(super) fn all(&self) -> RedisResult<Vec<Arc<Node>>> {
        let map = self.map();
        if map.owners.is_empty() || map.owners.iter().any(Option::is_none) {
            self.trouble.notify_one();
            return Err(no_owner());
        }
        let mut all: Vec<_> = map.owners.iter().flatten().cloned().collect();
        all.sort_by_key(Arc::as_ptr);
        all.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Ok(all)
    }

    /// After a call: whether the slot may be somebody else's by now.
    pub(super) fn note(&self, error: &redis::RedisError) {
        if lost_its_server(error) {
            self.trouble.notify_one();
        }
    }

    /// The node at a place, known or new.
    fn node_at(&self, place: &Place) -> RedisResult<Arc<Node>> {
        match self.map().nodes.get(place) {
            Some(node) => Ok(Arc::clone(node)),
            None => Ok(Arc::new(Node::new(self.manner.at(&place.0, place.1)?)?)),
        }
    }

    /// Reads the map anew from several nodes; the one that knows the highest epoch is believed.
    pub(super) async fn look(&self) -> RedisResult<()> {
        let known = self.map();
        let mut places: Vec<Place> = known.nodes.keys().cloned().collect();
        places.shuffle(&mut rand::rng());
        // The seeds always: every known node may be gone.
        places.splice(0..0, self.seeds.iter().cloned());
        let mut seen = std::collections::HashSet::new();
        places.retain(|place| seen.insert(place.clone()));
        places.truncate(self.seeds.len().max(ASKED));
        let asked = places.iter().map(|place| self.ask(place));
        let (mut best, mut error): (Option<(u64, Vec<Range>)>, _) = (None, None);
        for answer in join_all(asked).await {
            match answer {
                Ok(view) if best.as_ref().is_none_or(|best| view.0 > best.0) => best = Some(view),
                Ok(_) => {}
                Err(e) => error = Some(e),
            }
        }
        let Some((_, ranges)) = best else { return Err(error.unwrap_or_else(no_owner)) };
        let mut map = Map { nodes: HashMap::new(), owners: vec![None; usize::from(SLOTS)] };
        for Range { first, last, place } in ranges {
            let node = match map.nodes.get(&place) {
                Some(node) => Arc::clone(node),
                None => self.node_at(&place)?,
            };
            map.nodes.insert(place, Arc::clone(&node));
            map.owners[usize::from(first)..=usize::from(last)].fill(Some(node));
        }
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        Ok(())
    }

    /// One node's view: the epoch that it knows, and its ranges.
    async fn ask(&self, place: &Place) -> RedisResult<(u64, Vec<Range>)> {
        let node = self.node_at(place)?;
        let mut asked = redis::pipe();
        asked.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let (info, slots): (String, Vec<Vec<Value>>) = asked.query_async(&mut node.shared.clone()).await?;
        let epoch = super::info_field(&info, "cluster_current_epoch").and_then(|n| n.parse().ok()).unwrap_or(0);
        let ranges: Option<Vec<Range>> = slots.iter().map(|range| Range::read(range, place)).collect();
        let ranges = ranges.ok_or((ErrorKind::UnexpectedReturnType, "the answer to CLUSTER SLOTS makes no sense"))?;
        // A node that was told of no slot yet knows nothing.
        if ranges.is_empty() { Err(no_owner()) } else { Ok((epoch, ranges)) }
    }

    /// One command, at its slot's node.
    pub(super) async fn call(&self, command: &Cmd) -> RedisResult<Value> {
        if let Some(each) = each_key_alone(command) {
            let answers = self.pipeline(&each, 0, each.len()).await?;
            return Value::Array(answers).extract_error();
        }
        let node = match key_of(command) {
            Some(key) => self.owner_of(key)?,
            None => self.any()?,
        };
        let answer = node.shared.clone().req_packed_command(command).await.and_then(own_error);
        self.sent_on(command, node, answer).await
    }

    /// Sends a command on for as long as it is turned away, within the time of one call.
    async fn sent_on(&self, command: &Cmd, mut node: Arc<Node>, mut answer: RedisResult<Value>) -> RedisResult<Value> {
        let give_up = Instant::now() + RESPONSE_TIMEOUT;
        let mut hops = 0;
        loop {
            let Err(error) = &answer else { return answer };
            self.note(error);
            let asking = match error.kind() {
                ErrorKind::Server(ServerErrorKind::Moved) => {
                    node = self.node_at(&redirected(error, &node)?)?;
                    false
                }
                ErrorKind::Server(ServerErrorKind::Ask) => {
                    node = self.node_at(&redirected(error, &node)?)?;
                    true
                }
                // Some of the keys have moved, some have not: a moment later all will have. It can be that they have
                // just now, so the answer may next be ASK.
                ErrorKind::Server(ServerErrorKind::TryAgain) => {
                    tokio::time::sleep(SLOT_MOVES).await;
                    node = key_of(command).map_or_else(|| self.any(), |key| self.owner_of(key))?;
                    hops = 0;
                    false
                }
                _ => return answer,
            };
            hops += 1;
            if hops > HOPS || Instant::now() >= give_up {
                return answer;
            }
            answer = if asking {
                // In one piece: the permission is for the next command of the same connection.
                let mut both = Pipeline::with_capacity(2);
                both.cmd("ASKING").add_command(command.clone());
                let answers = node.shared.clone().req_packed_commands(&both, 0, 2).await;
                answers.and_then(|mut answers| answers.pop().map_or_else(|| Err(no_owner()), own_error))
            } else {
                node.shared.clone().req_packed_command(command).await.and_then(own_error)
            };
        }
    }

    /// A pipeline: what belongs to one node goes in one piece, several pieces at once; the answers stand in their old order.
    /// A transaction must stay within one slot.
    pub(super) async fn pipeline(&self, pipeline: &Pipeline, offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        if pipeline.is_transaction() {
            return self.transaction(pipeline, offset, count).await;
        }
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut pieces: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let node = match key_of(command) {
                Some(key) => self.owner_of(key)?,
                None => pieces.first().map_or_else(|| self.any(), |(node, _)| Ok(Arc::clone(node)))?,
            };
            match pieces.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &node)) {
                Some((_, places)) => places.push(at),
                None => pieces.push((node, vec![at])),
            }
        }
        let sent = pieces.iter().map(async |(node, places)| {
            let mut piece = Pipeline::with_capacity(places.len());
            for at in places {
                piece.add_command(commands[*at].clone());
            }
            node.shared.clone().req_packed_commands(&piece, 0, places.len()).await
        });
        let sent = join_all(sent).await;
        let mut answers = vec![Value::Nil; commands.len()];
        for ((node, places), piece) in pieces.iter().zip(sent) {
            let piece = piece.inspect_err(|error| self.note(error))?;
            for (at, answer) in places.iter().zip(piece) {
                answers[*at] = match answer {
                    Value::ServerError(error) => self.turned_away(commands[*at], node, error).await?,
                    answer => answer,
                };
            }
        }
        Ok(answers)
    }

    /// One command of a pipeline that came back with an error: sent on where it was only turned away.
    async fn turned_away(&self, command: &Cmd, node: &Arc<Node>, error: redis::ServerError) -> RedisResult<Value> {
        match self.sent_on(command, Arc::clone(node), Err(error.clone().into())).await {
            Err(e) if e.is_io_error() => Err(e),
            Err(_) => Ok(Value::ServerError(error)),
            answer => answer,
        }
    }

    async fn transaction(&self, pipeline: &Pipeline, offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        let key = pipeline.cmd_iter().find_map(key_of);
        let send = async || {
            let node = match key {
                Some(key) => self.owner_of(key)?,
                None => self.any()?,
            };
            node.shared.clone().req_packed_commands(pipeline, offset, count).await
        };
        let first = send().await;
        let aborted = match &first {
            Err(e) => matches!(e.kind(), ErrorKind::Server(ServerErrorKind::ExecAbort | ServerErrorKind::Moved)),
            Ok(answers) => matches!(answers.first(), Some(Value::ServerError(e)) if matches!(e.code(), "EXECABORT" | "MOVED")),
        };
        if !aborted {
            return first.inspect_err(|error| self.note(error));
        }
        // Nothing of it ran. Most likely the slot is somebody else's now.
        self.look().await?;
        send().await.inspect_err(|error| self.note(error))
    }
}

/// MGET reads many keys and so many slots: as a GET for each, which the pipeline parts by node. None: another command.
fn each_key_alone(command: &Cmd) -> Option<Pipeline> {
    let mut words = command.args_iter().map(|arg| match arg {
        redis::Arg::Simple(word) => word,
        _ => b"".as_slice(),
    });
    words.next().filter(|name| name.eq_ignore_ascii_case(b"MGET"))?;
    let mut each = Pipeline::new();
    for key in words {
        each.cmd("GET").arg(key);
    }
    Some(each)
}

/// An answer that is itself an error. One inside an answer stays: a script may tell it.
fn own_error(value: Value) -> RedisResult<Value> {
    match value {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}

/// Where MOVED and ASK point; without a host it is the host that said so.
fn redirected(error: &redis::RedisError, from: &Node) -> RedisResult<Place> {
    let target = error.redirect_node().and_then(|(address, _)| address.rsplit_once(':'));
    let place = target.and_then(|(host, port)| {
        let from = from.place();
        let host = if host.is_empty() { from.rsplit_once(':')?.0 } else { host };
        Some((host.to_owned(), port.parse().ok()?))
    });
    place.ok_or_else(no_owner)
}

/// Slots `first..=last` and where their primary is.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    place: Place,
}

impl Range {
    /// One line of CLUSTER SLOTS, told by the node at `from`.
    fn read(line: &[Value], from: &Place) -> Option<Self> {
        let slot = |value: &Value| match value {
            Value::Int(slot) => u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS),
            _ => None,
        };
        let [first, last, Value::Array(primary), ..] = line else { return None };
        let (first, last) = (slot(first)?, slot(last)?);
        let host = match primary.first()? {
            Value::BulkString(host) if !host.is_empty() && host != b"?" => String::from_utf8(host.clone()).ok()?,
            // It does not know its own name: it is the one that we asked.
            Value::BulkString(_) | Value::Nil => from.0.clone(),
            _ => return None,
        };
        let port = match primary.get(1)? {
            Value::Int(port) => u16::try_from(*port).ok()?,
            _ => return None,
        };
        (first <= last).then_some(Self { first, last, place: (host, port) })
    }
}

async fn follow(cluster: Weak<Cluster>) {
    let mut failing = false;
    loop {
        let Some(this) = cluster.upgrade() else { return };
        tokio::time::sleep(LOOK_AGAIN).await;
        // Jitter: many processes must not ask in step.
        let rest = LOOK_EVERY.mul_f64(rand::random_range(0.7..1.0));
        let _all_well = tokio::time::timeout(rest, this.trouble.notified()).await;
        match this.look().await {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "no node of the Cluster tells who holds what; they are asked on");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_are_read_one_by_one() {
        let mut call = redis::cmd("MGET");
        call.arg("a").arg("b");
        let each = each_key_alone(&call).unwrap();
        assert_eq!(each.cmd_iter().map(|one| key_of(one).unwrap().to_vec()).collect::<Vec<_>>(), [b"a", b"b"]);
        assert!(each_key_alone(redis::cmd("GET").arg("a")).is_none());
    }

    #[test]
    fn a_range_is_read_and_an_unknown_host_is_the_one_that_was_asked() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let from = (String::from("asked"), 1);
        let line = |host: Value| vec![Value::Int(0), Value::Int(5460), Value::Array(vec![host, Value::Int(7000), bulk("id")])];
        let told = Range::read(&line(bulk("10.0.0.1")), &from).unwrap();
        assert_eq!(told, Range { first: 0, last: 5460, place: (String::from("10.0.0.1"), 7000) });
        for unknown in [bulk(""), bulk("?"), Value::Nil] {
            assert_eq!(Range::read(&line(unknown), &from).unwrap().place.0, "asked");
        }
        assert_eq!(Range::read(&[Value::Int(0), Value::Int(20_000), Value::Array(vec![])], &from), None);
        assert_eq!(Range::read(&[Value::Int(0)], &from), None);
    }
}
