//! Lead a buyer to the provider's page. Nothing is paid here: only a notice says that money came.
//!
//! Idempotent because: the page of an order is remembered, and the provider is asked under the order's own key.

use std::sync::Arc;

use crate::clock::Clock;
use crate::domain::ids::{OrderId, UserId};
use crate::domain::order::{Action, next};
use crate::payment_provider::client::{NewPaymentCall, Provider, ProviderError, StartedPayment};
use crate::service::ServiceError;
use crate::service::change::{ChangeError, WRITER_WITHIN, saved_order_of};
use crate::service::orders::Orders;
use crate::store::Store;

/// Where the provider and the buyer find the shop.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Where browsers reach the shop, without a slash at the end.
    pub public: String,
    /// Where the provider sends its notices.
    pub callback: String,
}

/// Starts payments.
#[derive(Clone)]
pub struct Payments {
    /// The books.
    pub store: Store,
    /// Where an order is.
    pub orders: Arc<Orders>,
    /// Who takes the money.
    pub provider: Provider,
    /// The time.
    pub clock: Clock,
    /// Where the shop is.
    pub addresses: Addresses,
}

impl From<ProviderError> for ServiceError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Away(_) => Self::Unavailable(error.to_string()),
            ProviderError::Refused(_) | ProviderError::Unreadable => Self::Internal(error.to_string()),
        }
    }
}

impl Payments {
    /// The page where `owner` pays `id`: the same one as long as the order is PENDING.
    pub async fn start(&self, id: OrderId, owner: UserId) -> Result<String, ChangeError> {
        let order = saved_order_of(&self.orders, id, owner).await?;
        if next(order.status, Action::Pay).is_none() {
            return Err(ChangeError::WrongState(Box::new(order)));
        }
        if let Some(known) = self.store.payment_link(id).await? {
            return Ok(self.absolute(known));
        }
        let return_url = format!("{}/orders/{id}", self.addresses.public);
        let call = NewPaymentCall {
            order_id: id,
            amount: order.pay_amount,
            callback_url: &self.addresses.callback,
            return_url: &return_url,
        };
        let started = self.provider.start_payment(call).await.map_err(ServiceError::from)?;
        self.remember(id, started).await
    }

    /// Two clicks at once may both have asked the provider; both are led to what was written first.
    async fn remember(&self, id: OrderId, started: StartedPayment) -> Result<String, ChangeError> {
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let first = tx.put_payment_link(id, &started.payment_id, self.relative(&started.pay_url), self.clock.now()).await?;
        tx.commit().await?;
        let link = if first { None } else { self.store.payment_link(id).await? };
        Ok(link.map_or(started.pay_url, |known| self.absolute(known)))
    }

    /// A page of our own (the sandbox's) is kept as a path: after a restart the shop may listen elsewhere.
    fn relative<'a>(&self, url: &'a str) -> &'a str {
        url.strip_prefix(&self.addresses.public).filter(|path| path.starts_with('/')).unwrap_or(url)
    }

    fn absolute(&self, url: String) -> String {
        if url.starts_with('/') { format!("{}{url}", self.addresses.public) } else { url }
    }
}
