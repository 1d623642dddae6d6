//! The JSON envelope: `{"success":true,"data":…}` or `{"success":false,"errorMsg":…,"code":…}`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::admission::Refusal;
use crate::i18n::{self, Lang};
use crate::push::order_json::OrderJson;
use crate::web::captcha::ChallengeJson;
use crate::web::error::Problem;

/// The field order is the one of the pages that this API was first written for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a, T> {
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_msg: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
}

/// `value` as a JSON answer.
#[must_use]
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response(),
        Err(error) => Problem::Internal(error.to_string()).into_response(),
    }
}

/// Success with data.
#[must_use]
pub fn ok(data: impl Serialize) -> Response {
    json(StatusCode::OK, &Envelope { success: true, error_msg: None, code: None, data: Some(data), ticket: None })
}

/// Success with data and the ticket beside it.
#[must_use]
pub fn ok_with_ticket(data: impl Serialize, ticket: String) -> Response {
    json(StatusCode::OK, &Envelope { success: true, error_msg: None, code: None, data: Some(data), ticket: Some(ticket) })
}

/// Success without data.
#[must_use]
pub fn done() -> Response {
    json(StatusCode::OK, &Envelope::<'_, ()> { success: true, error_msg: None, code: None, data: None, ticket: None })
}

type Worded = HashMap<(Lang, &'static str), Arc<str>>;

/// The fixed sentence of a code. Kept once worded: a sold-out sale says the same one ten thousand times a second.
fn sentence(lang: Lang, code: &'static str) -> Arc<str> {
    static WORDED: LazyLock<RwLock<Worded>> = LazyLock::new(RwLock::default);
    if let Some(words) = WORDED.read().unwrap_or_else(PoisonError::into_inner).get(&(lang, code)) {
        return words.clone();
    }
    let words: Arc<str> = i18n::api_message(lang, code).into();
    WORDED.write().unwrap_or_else(PoisonError::into_inner).insert((lang, code), words.clone());
    words
}

/// A problem as JSON. `request_id` is told only where it helps: with our own mistakes.
#[must_use]
pub fn problem(problem: &Problem, lang: Lang, request_id: &str) -> Response {
    let (status, code) = problem.status_and_code();
    let data = match problem {
        Problem::Refused { why: Refusal::NotBegun, begin, now } => {
            Some(serde_json::json!({ "beginTime": begin, "serverTime": now }))
        }
        Problem::Duplicate { order, .. } => Some(serde_json::json!(order)),
        Problem::CaptchaRequired(asked) => serde_json::to_value(ChallengeJson::from(asked.as_ref())).ok(),
        Problem::VersionConflict(now) | Problem::SaleOver(now) | Problem::LetterDecided(now) | Problem::LetterStuck(now) => {
            Some(now.clone())
        }
        Problem::WrongState(order) => serde_json::to_value(OrderJson::from(order.as_ref())).ok(),
        Problem::Invalid(errors) => {
            let fields: BTreeMap<_, _> = errors.iter().map(|(field, e)| (*field, i18n::field_error(lang, e))).collect();
            Some(serde_json::json!({ "fields": fields }))
        }
        Problem::Internal(_) => Some(serde_json::json!({ "requestId": request_id })),
        _ => None,
    };
    let ticket = match problem {
        Problem::Duplicate { ticket, .. } => Some(ticket.clone()),
        _ => None,
    };
    let words = sentence(lang, problem.sentence().unwrap_or(code));
    let mut response = json(status, &Envelope { success: false, error_msg: Some(&words), code: Some(code), data, ticket });
    if problem.retry_after() > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(problem.retry_after()));
    }
    response
}
