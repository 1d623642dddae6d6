//! The second version: a script in Redis decides, the order goes into a queue in memory, and one thread saves one order a
//! transaction. What is in the queue when the process ends is lost; that is why there is a third version.

use std::sync::{Arc, LazyLock};

use anyhow::bail;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::post;
use tokio::sync::mpsc;

use crate::database::{NewOrder, Placed};
use crate::design::{Parts, answer};

/// Stock above zero, buyer not in the set; then one unit less and one buyer more.
const SCRIPT: &str = "
local stock = 'seckill:stock:' .. ARGV[1]
local buyers = 'seckill:order:' .. ARGV[1]
if tonumber(redis.call('get', stock)) <= 0 then return 1 end
if redis.call('sismember', buyers, ARGV[2]) == 1 then return 2 end
redis.call('incrby', stock, -1)
redis.call('sadd', buyers, ARGV[2])
return 0";
static COMPILED: LazyLock<redis::Script> = LazyLock::new(|| redis::Script::new(SCRIPT));

/// The size that everybody gives it.
const QUEUE: usize = 1024 * 1024;

#[derive(Clone)]
struct Shared {
    parts: Arc<Parts>,
    queue: mpsc::Sender<NewOrder>,
}

async fn buy(shared: &Shared, uri: &Uri, headers: &HeaderMap) -> anyhow::Result<(Placed, i64)> {
    let (user, voucher) = shared.parts.read(uri, headers).await?;
    let verdict: i64 = COMPILED.arg(voucher).arg(user).invoke_async(&mut shared.parts.redis.clone()).await?;
    match verdict {
        0 => {}
        1 => return Ok((Placed::SoldOut, 0)),
        _ => return Ok((Placed::Duplicate, 0)),
    }
    let id = shared.parts.next_id().await?;
    if shared.queue.try_send(NewOrder { id, user, voucher }).is_err() {
        bail!("the queue is full");
    }
    Ok((Placed::Yes, id))
}

async fn press(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    answer(buy(&shared, &uri, &headers).await)
}

/// Its one route, and the thread behind it.
pub fn router(parts: Arc<Parts>) -> anyhow::Result<Router> {
    let (queue, mut orders) = mpsc::channel::<NewOrder>(QUEUE);
    let (saver, runtime) = (parts.clone(), tokio::runtime::Handle::current());
    std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
        while let Some(order) = orders.blocking_recv() {
            if let Err(error) = runtime.block_on(saver.db.place(order)) {
                crate::say(&format!("an order of the queue was lost: {error:#}"));
            }
        }
    })?;
    Ok(Router::new().route("/api/voucher-order/seckill/{voucher}", post(press)).with_state(Shared { parts, queue }))
}
