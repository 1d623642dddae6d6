//! Stories: one file a use case. Composes the rooms below (`store`, `gate`, `queue`, `payment_provider`, `push`).
//!
//! No axum, sqlx or redis names here, and no clock but the one handed in. Every write of the program is one function here.

pub mod audit;
pub mod cancel;
pub mod change;
pub mod code_sender;
pub mod control;
pub mod dead_letters;
pub mod demo;
pub mod desk;
pub mod drain;
pub mod drift;
pub mod figures;
pub mod follow_up;
pub mod id_blocks;
pub mod money;
pub mod notice;
pub mod orders;
pub mod passwords;
pub mod pay;
pub mod place_orders;
pub mod purchase;
pub mod rebuild;
pub mod reconcile;
pub mod refund;
pub mod release;
pub mod reports;
mod retry;
pub mod rings;
pub mod sale_health;
pub mod sale_index;
pub mod sales;
pub mod sandbox_provider;
pub mod scrape;
pub mod settle;
pub mod shops;
pub mod stock_change;
pub mod users;

use crate::gate::GateError;
use crate::queue::QueueError;
use crate::store::StoreError;

/// What a use case may say when it could not even be tried or finished.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A store that the answer needs cannot be asked now.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Something that must not happen; the log has the truth, the visitor a fixed sentence.
    #[error("internal: {0}")]
    Internal(String),
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        if error.is_transient() { Self::Unavailable(error.to_string()) } else { Self::Internal(error.to_string()) }
    }
}

impl From<GateError> for ServiceError {
    fn from(error: GateError) -> Self {
        match error {
            GateError::BadReply(_) => Self::Internal(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<users::UserError> for ServiceError {
    fn from(error: users::UserError) -> Self {
        match error {
            users::UserError::Store(error) => error.into(),
            other => Self::Internal(other.to_string()),
        }
    }
}

impl From<QueueError> for ServiceError {
    fn from(error: QueueError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
