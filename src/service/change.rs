//! What the stories that change an order share: who may, what they may answer, and who is woken afterwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::ids::{OrderId, UserId};
use crate::domain::order::{Order, Status};
use crate::service::ServiceError;
use crate::service::orders::{Asker, Orders};
use crate::store::{Store, StoreError};

/// How long somebody who waits for an answer waits for the database's writer; then he hears BUSY and nothing happened.
pub(super) const WRITER_WITHIN: Duration = Duration::from_millis(900);

/// Why an order was not changed. Nothing happened.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Unknown, or not his.
    #[error("no such order")]
    NotFound,
    /// Admitted, not saved yet: a moment please.
    #[error("not saved yet")]
    Queued,
    /// It is in a state that does not allow it, or not due; here it is.
    #[error("not in this state")]
    WrongState(Box<Order>),
    /// It could not be tried.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// The order `id` when it is saved and belongs to `owner`.
pub(super) async fn saved_order_of(orders: &Orders, id: OrderId, owner: UserId) -> Result<Order, ChangeError> {
    match orders.find(id, Asker { user: Some(owner), admin: false, ticket: None }).await? {
        Some(order) if order.status == Status::Queued => Err(ChangeError::Queued),
        Some(order) => Ok(order),
        None => Err(ChangeError::NotFound),
    }
}

/// The answer when a guarded update found the order in another state: the order as it now is.
pub(super) async fn wrong_state(store: &Store, id: OrderId) -> ChangeError {
    match store.order(id).await {
        Ok(Some(order)) => ChangeError::WrongState(Box::new(order)),
        Ok(None) => ChangeError::NotFound,
        Err(error) => error.into(),
    }
}

/// Wakes the loops of this process that have something to do now; those of other processes look by themselves.
#[derive(Debug, Clone, Default)]
pub struct Wakes {
    /// Units to give back.
    pub releases: Arc<Notify>,
    /// Payments whose order was saved meanwhile.
    pub early: Arc<Notify>,
    /// Money to send back.
    pub refunds: Arc<Notify>,
    /// Codes to give.
    pub coupons: Arc<Notify>,
    /// Credits to count.
    pub credits: Arc<Notify>,
    /// Notices of the sandbox to send.
    pub letters: Arc<Notify>,
}

impl Wakes {
    /// What a paid order is followed by.
    pub fn paid(&self) {
        self.coupons.notify_one();
        self.credits.notify_one();
    }
}
