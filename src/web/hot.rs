//! The hot path on one page: what a click on "buy" goes through between the connection and `service/purchase`.
//!
//! The checks are those of the layers in `routes.rs`, in the same order, as plain calls: each layer would cost every click
//! a box, a clone of the rest of the stack and a future of its own, and a click has nothing else to spend. Whatever is
//! not needed by everyone who clicks stays off this page.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::header::{ALLOW, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::domain::ids::VoucherId;
use crate::web::captcha::Shown;
use crate::web::client_address::client_address;
use crate::web::csrf::{Csrf, guarded};
use crate::web::error::Problem;
use crate::web::extract::{LoggedIn, PathId, lang_of};
use crate::web::fields::OptionalJson;
use crate::web::finish;
use crate::web::handlers::purchase;
use crate::web::identify::identified;
use crate::web::observe;
use crate::web::reply;
use crate::web::request_id;
use crate::web::state::AppState;

/// The one path, as `routes.rs` has it.
const PATH: &str = "/api/voucher-order/seckill/{voucherId}";

/// What the page needs; cheap to clone.
#[derive(Clone)]
pub struct Hot(Arc<(AppState, Csrf)>);

impl Hot {
    /// Over the state of all routes.
    #[must_use]
    pub fn new(state: AppState) -> Self {
        let csrf = Csrf::new(&state.public_url);
        Self(Arc::new((state, csrf)))
    }
}

/// `POST /api/voucher-order/seckill/{voucherId}`
pub async fn buy(State(hot): State<Hot>, request: Request) -> Response {
    around(&hot.0.0, request, |request| checked(&hot, request)).await
}

/// The same path with any other method.
pub async fn other_method(State(hot): State<Hot>, request: Request) -> Response {
    let mut response = around(&hot.0.0, request, async |_| Problem::MethodNotAllowed.into_response()).await;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Number, head, words, headers: what stands around every answer.
async fn around<F: Future<Output = Response>>(state: &AppState, request: Request, run: impl FnOnce(Request) -> F) -> Response {
    let began = Instant::now();
    let method = observe::method_of(request.method());
    let lang = lang_of(request.uri().query(), request.headers());
    let number = request_id::number_of(request.headers());
    let mut response = match finish::unfit(request.version(), request.uri(), request.headers()) {
        Some(problem) => problem.into_response(),
        None => AssertUnwindSafe(run(request)).catch_unwind().await.unwrap_or_else(request_id::panicked),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let number = number.to_str().unwrap_or("-");
        finish::note(&problem, number, PATH);
        response = reply::problem(&problem, lang, number);
    }
    finish::protect(state, true, finish::POLICY, response.headers_mut());
    finish::hang_up_on_excess(&mut response);
    observe::record(method, PATH, response.status().as_u16(), began.elapsed().as_secs_f64());
    response.headers_mut().insert(request_id::HEADER, number);
    response
}

async fn checked(hot: &Hot, mut request: Request) -> Response {
    let (state, csrf) = &*hot.0;
    identified(state, &mut request).await;
    guarded(csrf, request, async |request| {
        let (mut parts, body) = request.into_parts();
        match voucher_and_user(state, &mut parts).await {
            Ok((voucher, user)) => {
                let from = client_address(&parts, &state.trusted_proxies);
                match click(state, (user, from), voucher, Request::from_parts(parts, body)).await {
                    Ok(response) => response,
                    Err(problem) => problem.into_response(),
                }
            }
            Err(problem) => problem.into_response(),
        }
    })
    .await
}

async fn voucher_and_user(state: &AppState, parts: &mut Parts) -> Result<(VoucherId, LoggedIn), Problem> {
    let user = LoggedIn::from_request_parts(parts, state).await?;
    let PathId(voucher) = PathId::from_request_parts(parts, state).await?;
    Ok((voucher, user))
}

async fn click(
    state: &AppState,
    (user, from): (LoggedIn, IpAddr),
    voucher: VoucherId,
    request: Request,
) -> Result<Response, Problem> {
    let OptionalJson(body) = OptionalJson::from_request(request, state).await?;
    let shown = match &body {
        Some(fields) => {
            fields.only(&["captcha"])?;
            Shown::in_json(fields)?
        }
        None => None,
    };
    purchase::buy(state, (&*user.0, from), voucher, shown.as_ref()).await
}
