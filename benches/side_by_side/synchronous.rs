//! The first version of every course: all SQL in the request. Count the user's orders, look at the stock, take a unit if there
//! still is one, insert the order, in one transaction; the answer waits for the commit.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::post;

use crate::database::{NewOrder, Placed};
use crate::design::{Parts, answer};

async fn buy(parts: &Parts, uri: &Uri, headers: &HeaderMap) -> anyhow::Result<(Placed, i64)> {
    let (user, voucher) = parts.read(uri, headers).await?;
    let id = parts.next_id().await?;
    Ok((parts.db.place(NewOrder { id, user, voucher }).await?, id))
}

async fn press(State(parts): State<Arc<Parts>>, uri: Uri, headers: HeaderMap) -> Response {
    answer(buy(&parts, &uri, &headers).await)
}

/// Its one route.
pub fn router(parts: Arc<Parts>) -> Router {
    Router::new().route("/api/voucher-order/seckill/{voucher}", post(press)).with_state(parts)
}
