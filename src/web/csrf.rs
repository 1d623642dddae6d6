//! Forged requests: a page of somebody else may not act with a visitor's cookie.
//!
//! tower-http's layer decides (Sec-Fetch-Site, then Origin against Host). Only a call whose header carries the token of a
//! living session is let through unseen: no foreign page knows one. Any other `authorization` exempts nobody: a browser adds
//! `Basic …` by itself wherever a proxy once asked for it.

use std::convert::Infallible;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower::{Layer, ServiceExt};
use tower_http::csrf::{CsrfLayer, ProtectionError};

use crate::config::PublicUrl;
use crate::web::error::Problem;
use crate::web::identify::ByToken;

type Refusing = fn(ProtectionError) -> Response;

/// The guard, made once.
#[derive(Clone)]
pub struct Csrf(CsrfLayer<Refusing>);

fn refuse(_: ProtectionError) -> Response {
    Problem::Forbidden.into_response()
}

impl Csrf {
    /// A guard that also lets pages of `public_url` act: behind a proxy that changes the Host.
    #[must_use]
    pub fn new(public_url: &PublicUrl) -> Self {
        let strict = CsrfLayer::new();
        let layer = strict.clone().add_trusted_origin(&public_url.0).unwrap_or(strict);
        Self(layer.with_rejection_response(refuse as Refusing))
    }
}

/// Lets a request through or answers FORBIDDEN. GET, HEAD and OPTIONS always pass: they change nothing.
pub async fn guard(State(csrf): State<Csrf>, request: Request, next: Next) -> Response {
    guarded(&csrf, request, |request| next.run(request)).await
}

/// As [`guard`], around a plain function.
pub async fn guarded<F: Future<Output = Response>>(csrf: &Csrf, request: Request, run: impl FnOnce(Request) -> F) -> Response {
    if request.method().is_safe() || request.extensions().get::<ByToken>().is_some() {
        return run(request).await;
    }
    // The layer calls its service once; the function can be called only once.
    let mut run = Some(run);
    let once = tower::service_fn(move |request| {
        let run = run.take();
        async move {
            match run {
                Some(run) => Ok::<_, Infallible>(run(request).await),
                None => Ok(Problem::Internal(String::from("a guard let a request through twice")).into_response()),
            }
        }
    });
    match csrf.0.layer(once).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
