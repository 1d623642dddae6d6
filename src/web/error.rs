//! Everything that can go wrong in front of a visitor, and the only map from it to status, code and data.
//!
//! A handler returns a [`Problem`]; `finish.rs` words it, as JSON under `/api`, as a page or JSON elsewhere.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::domain::admission::Refusal;
use crate::domain::captcha::Challenge;
use crate::domain::ids::OrderId;
use crate::domain::order::Order;
use crate::domain::time::Millis;
use crate::domain::voucher::FieldErrors;
use crate::service::ServiceError;
use crate::service::purchase::BuyError;
use crate::service::users::UserError;
use crate::store::StoreError;
use crate::web::session::SessionsAway;

/// Seconds after which somebody who was told BUSY may well try again.
pub const BUSY_SECONDS: u64 = 3;

/// Why a request did not get what it asked for. The first group are answers to a question and have status 200.
#[derive(Debug, Clone)]
pub enum Problem {
    /// The gate said no.
    Refused {
        /// Why.
        why: Refusal,
        /// When the sale begins.
        begin: Millis,
        /// The time here.
        now: Millis,
    },
    /// The buyer has a unit already.
    Duplicate {
        /// Under this order.
        order: OrderId,
        /// To ask for it.
        ticket: String,
    },
    /// The sale asks for a captcha first; here is one.
    CaptchaRequired(Box<Challenge>),
    /// Phone or password is wrong; which of them is nobody's business.
    BadCredentials,
    /// Not the login code that was sent.
    BadCode,
    /// Not a phone number (login and code only).
    BadPhone,
    /// Cannot be understood.
    Malformed,
    /// Needs a session.
    LoginRequired,
    /// Not for this user, or forged.
    Forbidden,
    /// Unknown, or not his.
    NotFound,
    /// Another method.
    MethodNotAllowed,
    /// The body is over 16 KiB.
    TooLarge,
    /// The address is too long.
    UriTooLong,
    /// Another kind of body.
    UnsupportedMedia,
    /// The headers are too large.
    HeadersTooLarge,
    /// The phone has an account.
    PhoneTaken,
    /// The order is in a state that does not allow it; here it is.
    WrongState(Box<Order>),
    /// Somebody else edited it since; the latest, as the API tells it.
    VersionConflict(serde_json::Value),
    /// The sale is over; here it is, as the API tells it.
    SaleOver(serde_json::Value),
    /// Somebody decided this dead letter before; here it is, as the API tells it.
    LetterDecided(serde_json::Value),
    /// This dead letter can only be discarded; here it is, as the API tells it.
    LetterStuck(serde_json::Value),
    /// The order is not saved yet.
    StillQueued,
    /// Fields are wrong.
    Invalid(FieldErrors),
    /// Too fast; seconds to wait.
    TooMany(u64),
    /// Our mistake; the truth is for the log only.
    Internal(String),
    /// A store that the answer needs cannot be asked; the truth is for the log only. Nothing was changed.
    Busy(String),
    /// It was sent and no answer came.
    Uncertain,
}

impl Problem {
    /// Status and code of CONTRACT.
    #[must_use]
    pub fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Refused { why, .. } => (StatusCode::OK, why.code()),
            Self::Duplicate { .. } => (StatusCode::OK, "DUPLICATE"),
            Self::CaptchaRequired(_) => (StatusCode::OK, "CAPTCHA_REQUIRED"),
            Self::BadCredentials => (StatusCode::OK, "BAD_CREDENTIALS"),
            Self::BadCode => (StatusCode::OK, "BAD_CODE"),
            Self::BadPhone => (StatusCode::OK, "BAD_PHONE"),
            Self::Malformed => (StatusCode::BAD_REQUEST, "MALFORMED"),
            Self::LoginRequired => (StatusCode::UNAUTHORIZED, "LOGIN_REQUIRED"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "FORBIDDEN"),
            Self::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, "URI_TOO_LONG"),
            Self::UnsupportedMedia => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE"),
            Self::HeadersTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "HEADERS_TOO_LARGE"),
            Self::PhoneTaken => (StatusCode::CONFLICT, "PHONE_TAKEN"),
            Self::WrongState(_) | Self::SaleOver(_) | Self::LetterDecided(_) | Self::LetterStuck(_) => {
                (StatusCode::CONFLICT, "WRONG_STATE")
            }
            Self::VersionConflict(_) => (StatusCode::CONFLICT, "VERSION_CONFLICT"),
            Self::StillQueued => (StatusCode::CONFLICT, "QUEUED"),
            Self::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "INVALID"),
            Self::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
            Self::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "BUSY"),
            Self::Uncertain => (StatusCode::SERVICE_UNAVAILABLE, "UNCERTAIN"),
        }
    }

    /// The name of its sentence in the catalogue where the code alone would say too little; none: the code's own.
    #[must_use]
    pub fn sentence(&self) -> Option<&'static str> {
        match self {
            Self::SaleOver(_) => Some("SALE_OVER"),
            Self::LetterDecided(_) => Some("LETTER_DECIDED"),
            Self::LetterStuck(_) => Some("LETTER_STUCK"),
            _ => None,
        }
    }

    /// `Retry-After` in seconds; 0: none.
    #[must_use]
    pub fn retry_after(&self) -> u64 {
        match self {
            Self::TooMany(seconds) => *seconds,
            Self::Busy(_) => BUSY_SECONDS,
            Self::Uncertain => 1,
            _ => 0,
        }
    }

    /// The status of a page that shows this at its place: what the API answers with 200 is a refused form there.
    #[must_use]
    pub fn page_status(&self) -> StatusCode {
        match self {
            Self::BadCredentials | Self::BadCode | Self::BadPhone => StatusCode::UNPROCESSABLE_ENTITY,
            other => other.status_and_code().0,
        }
    }

    /// What a bare answer of a layer below means (a route without this method, a body over the limit).
    #[must_use]
    pub fn of_bare_status(status: StatusCode) -> Option<Self> {
        Some(match status {
            StatusCode::BAD_REQUEST => Self::Malformed,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed,
            StatusCode::PAYLOAD_TOO_LARGE => Self::TooLarge,
            StatusCode::URI_TOO_LONG => Self::UriTooLong,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::UnsupportedMedia,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Self::HeadersTooLarge,
            StatusCode::INTERNAL_SERVER_ERROR => Self::Internal(String::from("a layer answered 500")),
            _ => return None,
        })
    }
}

impl IntoResponse for Problem {
    /// Carries the problem to `finish.rs`, which alone knows language and form.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status_and_code().0;
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Unavailable(truth) => Self::Busy(truth),
            ServiceError::Internal(truth) => Self::Internal(truth),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_transient() { Self::Busy(error.to_string()) } else { Self::Internal(error.to_string()) }
    }
}

impl From<SessionsAway> for Problem {
    fn from(error: SessionsAway) -> Self {
        Self::Busy(error.to_string())
    }
}

impl From<BuyError> for Problem {
    fn from(error: BuyError) -> Self {
        match error {
            BuyError::UnknownVoucher => Self::NotFound,
            BuyError::Busy => Self::Busy(String::from("the gate said no or nothing")),
            BuyError::Uncertain => Self::Uncertain,
        }
    }
}

impl From<UserError> for Problem {
    fn from(error: UserError) -> Self {
        match error {
            UserError::BadCredentials => Self::BadCredentials,
            UserError::PhoneTaken => Self::PhoneTaken,
            UserError::Invalid(fields) => Self::Invalid(fields),
            UserError::Crowded => Self::Busy(String::from("too many passwords are being checked")),
            UserError::Store(error) => error.into(),
            UserError::Hash(truth) => Self::Internal(truth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_question_is_not_a_failed_request() {
        let refused = |why| Problem::Refused { why, begin: Millis(0), now: Millis(0) };
        let answered = [Refusal::SoldOut, Refusal::NotBegun, Refusal::Ended, Refusal::Paused].map(refused);
        let duplicate = Problem::Duplicate { order: OrderId(1), ticket: String::new() };
        for problem in answered.iter().chain(&[duplicate, Problem::BadCredentials, Problem::BadPhone]) {
            assert_eq!(problem.status_and_code().0, StatusCode::OK, "{problem:?}");
        }
        assert_eq!(Problem::Busy(String::new()).status_and_code(), (StatusCode::SERVICE_UNAVAILABLE, "BUSY"));
        assert_eq!(Problem::PhoneTaken.status_and_code(), (StatusCode::CONFLICT, "PHONE_TAKEN"));
        assert!(Problem::Busy(String::new()).retry_after() > 0 && Problem::Uncertain.retry_after() > 0);
    }
}
