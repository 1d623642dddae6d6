//! Stories: one file a use case. Composes the rooms below (`store`, `gate`, `queue`, `payment_provider`, `push`).
//!
//! No axum, sqlx or redis names here, and no clock but the one handed in. Every write of the program is one function here.

pub mod orders;
pub mod passwords;
pub mod purchase;
pub mod sales;
pub mod shops;
pub mod users;

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
