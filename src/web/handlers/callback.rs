//! `POST /api/payment/callback`: notices of the payment provider. No session, no cookie, no language; a signature.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::service::notice::{Heard, NoticeError, SignedHeaders};
use crate::web::error::Problem;
use crate::web::extract::ClientAddress;
use crate::web::limits::Client;
use crate::web::reply;
use crate::web::state::AppState;

/// The most bytes of a notice.
pub const MAX_NOTICE: usize = 64 * 1024;

/// Hears a notice. The body is taken as it came: what was signed are its bytes.
pub async fn notice(
    State(state): State<AppState>,
    ClientAddress(client): ClientAddress,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // A header that is missing, or is no text, is one that nobody signed.
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signed =
        SignedHeaders { id: text("webhook-id"), timestamp: text("webhook-timestamp"), signature: text("webhook-signature") };
    let (status, code) = match state.money.notices.hear(signed, &body).await {
        Ok(heard) => {
            metrics::counter!("seckill_notices_total", "outcome" => word_of(heard)).increment(1);
            return reply::json(status_of(heard), &json!({ "success": true }));
        }
        Err(NoticeError::NotBelieved(why)) => {
            metrics::counter!("seckill_notices_total", "outcome" => "BAD_SIGNATURE").increment(1);
            // Counted after the check: whoever can sign is never held up by those who cannot, not even from the same address.
            if let Err(problem) = state.limits.count_unsigned(Client::at(client)) {
                return problem.into_response();
            }
            tracing::warn!(%why, %client, "a notice of payment was not believed");
            return refused(StatusCode::UNAUTHORIZED, "BAD_SIGNATURE");
        }
        Err(NoticeError::Malformed) => {
            tracing::warn!("a signed notice of payment was not understood");
            (StatusCode::BAD_REQUEST, "MALFORMED")
        }
        Err(NoticeError::UnknownOrder) => {
            tracing::warn!("a notice of payment for an order that cannot be");
            (StatusCode::NOT_FOUND, "NOT_FOUND")
        }
        Err(NoticeError::OtherBody) => (StatusCode::CONFLICT, "OTHER_BODY"),
        Err(NoticeError::OtherOrder) => (StatusCode::CONFLICT, "OTHER_ORDER"),
        Err(NoticeError::WrongAmount) => (StatusCode::UNPROCESSABLE_ENTITY, "WRONG_AMOUNT"),
        Err(NoticeError::Service(error)) => return Problem::from(error).into_response(),
    };
    metrics::counter!("seckill_notices_total", "outcome" => code).increment(1);
    refused(status, code)
}

fn refused(status: StatusCode, code: &str) -> Response {
    reply::json(status, &json!({ "success": false, "code": code }))
}

fn word_of(heard: Heard) -> &'static str {
    match heard {
        Heard::Applied => "APPLIED",
        Heard::Repeated => "REPEATED",
        Heard::Kept => "KEPT",
        Heard::RefundDue => "REFUND_DUE",
        Heard::Ignored => "IGNORED",
    }
}

fn status_of(heard: Heard) -> StatusCode {
    match heard {
        Heard::Kept => StatusCode::ACCEPTED,
        Heard::Applied | Heard::Repeated | Heard::RefundDue | Heard::Ignored => StatusCode::OK,
    }
}
