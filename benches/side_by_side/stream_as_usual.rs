//! The third version, the one that articles end with: look up the stock's key, take an id, a script that also adds the order
//! to a stream. One consumer reads one entry at a time, locks its user, saves one order a transaction, and acknowledges.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::post;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamReadOptions, StreamReadReply};

use crate::database::{NewOrder, Placed};
use crate::design::{Parts, answer};

/// Stock above zero, buyer not in the set; then one unit less, one buyer more, and the order into the stream.
pub const SCRIPT: &str = "
local stock = 'seckill:stock:' .. ARGV[1]
local buyers = 'seckill:order:' .. ARGV[1]
if tonumber(redis.call('get', stock)) <= 0 then return 1 end
if redis.call('sismember', buyers, ARGV[2]) == 1 then return 2 end
redis.call('incrby', stock, -1)
redis.call('sadd', buyers, ARGV[2])
redis.call('xadd', 'stream.orders', '*', 'userId', ARGV[2], 'voucherId', ARGV[1], 'id', ARGV[3])
return 0";
static COMPILED: LazyLock<redis::Script> = LazyLock::new(|| redis::Script::new(SCRIPT));

async fn buy(parts: &Parts, uri: &Uri, headers: &HeaderMap) -> anyhow::Result<(Placed, i64)> {
    let (user, voucher) = parts.read(uri, headers).await?;
    let mut redis = parts.redis.clone();
    let stock: Option<i64> = redis::cmd("GET").arg(format!("seckill:stock:{voucher}")).query_async(&mut redis).await?;
    if stock.is_none_or(|left| left <= 0) {
        return Ok((Placed::SoldOut, 0));
    }
    let id = parts.next_id().await?;
    let verdict: i64 = COMPILED.arg(voucher).arg(user).arg(id).invoke_async(&mut redis).await?;
    Ok(match verdict {
        0 => (Placed::Yes, id),
        1 => (Placed::SoldOut, 0),
        _ => (Placed::Duplicate, 0),
    })
}

async fn press(State(parts): State<Arc<Parts>>, uri: Uri, headers: HeaderMap) -> Response {
    answer(buy(&parts, &uri, &headers).await)
}

fn read_entry(entry: &StreamId) -> Option<NewOrder> {
    Some(NewOrder { id: entry.get("id")?, user: entry.get("userId")?, voucher: entry.get("voucherId")? })
}

/// One entry: lock, transaction, unlock, acknowledge.
async fn save_one(parts: &Parts, redis: &mut MultiplexedConnection, blocking: &mut MultiplexedConnection) -> anyhow::Result<()> {
    let options = StreamReadOptions::default().group("g1", "c1").count(1).block(2000);
    let read: Option<StreamReadReply> =
        redis::cmd("XREADGROUP").arg(&options).arg("STREAMS").arg("stream.orders").arg(">").query_async(blocking).await?;
    for entry in read.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids) {
        if let Some(order) = read_entry(&entry) {
            let lock = format!("lock:order:{}", order.user);
            let locked: Option<String> =
                redis::cmd("SET").arg(&lock).arg(1).arg("NX").arg("EX").arg(10).query_async(redis).await?;
            if locked.is_some() {
                parts.db.place(order).await?;
                let () = redis::cmd("DEL").arg(&lock).query_async(redis).await?;
            }
        }
        let () = redis::cmd("XACK").arg("stream.orders").arg("g1").arg(&entry.id).query_async(redis).await?;
    }
    Ok(())
}

/// Its one route, and the thread behind it.
pub async fn router(parts: Arc<Parts>) -> anyhow::Result<Router> {
    let mut redis = parts.redis.clone();
    let () = redis::cmd("XGROUP")
        .arg("CREATE")
        .arg("stream.orders")
        .arg("g1")
        .arg("0")
        .arg("MKSTREAM")
        .query_async(&mut redis)
        .await?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let mut blocking =
        redis::Client::open(parts.redis_url.as_str())?.get_multiplexed_async_connection_with_config(&config).await?;
    let (saver, runtime) = (parts.clone(), tokio::runtime::Handle::current());
    std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                if let Err(error) = save_one(&saver, &mut redis, &mut blocking).await {
                    crate::say(&format!("the consumer of the stream: {error:#}"));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
    })?;
    Ok(Router::new().route("/api/voucher-order/seckill/{voucher}", post(press)).with_state(parts))
}
