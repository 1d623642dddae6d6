//! Where is my order? Reads over rows, holders and tickets.

use std::collections::HashMap;

use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::domain::order::Order;
use crate::service::ServiceError;

/// Who asks for an order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asker<'a> {
    /// The logged-in user.
    pub user: Option<UserId>,
    /// May see every order.
    pub admin: bool,
    /// A ticket, alone enough for the one order it names.
    pub ticket: Option<&'a str>,
}

/// One page of a list, newest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// The orders.
    pub items: Vec<Order>,
    /// Where the next page begins (orders older than this id); none on the last page.
    pub next: Option<OrderId>,
}

/// Reads orders.
pub struct Orders {}

impl Orders {
    /// The order `id` as `asker` may see it; none: unknown, or not his.
    pub async fn find(&self, _id: OrderId, _asker: Asker<'_>) -> Result<Option<Order>, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// His orders, newest first, older than `before`; `limit` 1–100.
    pub async fn list(&self, _user: UserId, _before: Option<OrderId>, _limit: u32) -> Result<Page, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// Queued and live orders and those changed in the last 24 h, newest first, at most 50.
    pub async fn snapshot(&self, _user: UserId) -> Result<Vec<Order>, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// Which of `vouchers` he holds a unit of, and under which order.
    pub async fn held(&self, _user: UserId, _vouchers: &[VoucherId]) -> Result<HashMap<VoucherId, OrderId>, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }
}
