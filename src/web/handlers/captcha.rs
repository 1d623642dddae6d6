//! `/api/captcha/{voucherId}`: a challenge ahead of the click.

use axum::extract::State;
use axum::response::Response;

use crate::domain::ids::VoucherId;
use crate::web::captcha::{ChallengeJson, ask};
use crate::web::error::Problem;
use crate::web::extract::{ClientAddress, LoggedIn, PathId};
use crate::web::limits::{Bucket, Client};
use crate::web::reply;
use crate::web::state::AppState;

/// `GET /api/captcha/{voucherId}`: not found where the sale asks for none.
pub async fn challenge(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    ClientAddress(from): ClientAddress,
    PathId(voucher): PathId<VoucherId>,
) -> Result<Response, Problem> {
    state.limits.count(Bucket::Captcha, Client::User(user.id))?;
    let sale = state.purchase.asks_captcha(voucher).ok_or(Problem::NotFound)?;
    Ok(reply::ok(ChallengeJson::from(&ask(&state, user.id, from, &sale).await?)))
}
