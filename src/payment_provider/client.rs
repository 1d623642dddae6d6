//! The shop's side of the provider's HTTP interface: start a payment, send money back.
//!
//! Both calls carry an idempotency key, so that an attempt whose answer was lost can be made again.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::http::{Http, HttpError};
use super::notice::CURRENCY;
use crate::domain::ids::OrderId;
use crate::domain::money::Fen;

/// How long a payment's start may take: somebody waits for the page.
const START_WITHIN: Duration = Duration::from_secs(3);

/// How long a refund may take: nobody waits, and a provider may be slow.
const REFUND_WITHIN: Duration = Duration::from_secs(10);

/// Why the provider did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// It cannot be reached, or has trouble of its own. Whether it did anything is unknown.
    #[error("the payment provider cannot be asked: {0}")]
    Away(String),
    /// It understood and said no.
    #[error("the payment provider refused with status {0}")]
    Refused(u16),
    /// It answered something else than it should.
    #[error("the payment provider's answer was not understood")]
    Unreadable,
}

impl From<HttpError> for ProviderError {
    fn from(error: HttpError) -> Self {
        Self::Away(error.to_string())
    }
}

/// A payment to be started.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPaymentCall<'a> {
    /// For which order.
    pub order_id: OrderId,
    /// How much.
    pub amount: Fen,
    /// Where the provider sends its notice.
    pub callback_url: &'a str,
    /// Where the buyer goes afterwards.
    pub return_url: &'a str,
}

/// A payment that the buyer can now make.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedPayment {
    /// The provider's name for it.
    pub payment_id: String,
    /// Where the buyer pays.
    pub pay_url: String,
}

#[derive(Serialize)]
struct StartBody<'a> {
    #[serde(flatten)]
    call: NewPaymentCall<'a>,
    currency: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefundBody<'a> {
    transaction_id: &'a str,
    amount: Fen,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefundAnswer {
    refund_id: String,
}

/// Speaks to one provider; cheap to clone.
#[derive(Debug, Clone)]
pub struct Provider {
    http: Http,
    base: String,
    /// What the built-in sandbox knows its own shop by.
    authorization: Option<String>,
}

impl Provider {
    /// The provider at `base`, without a slash at the end.
    #[must_use]
    pub fn new(http: Http, base: String, authorization: Option<String>) -> Self {
        Self { http, base, authorization }
    }

    /// Starts a payment. The same order gets the same payment from a provider that honours the key.
    pub async fn start_payment(&self, call: NewPaymentCall<'_>) -> Result<StartedPayment, ProviderError> {
        let key = format!("order-{}", call.order_id);
        let started: StartedPayment = self.call("/payments", &key, &StartBody { call, currency: CURRENCY }, START_WITHIN).await?;
        let browsable = ["http://", "https://"].iter().any(|scheme| started.pay_url.starts_with(scheme));
        let sane = browsable && started.pay_url.len() <= 2048 && started.pay_url.bytes().all(|b| b.is_ascii_graphic());
        if sane { Ok(started) } else { Err(ProviderError::Unreadable) }
    }

    /// Sends `amount` of a transaction back and answers the provider's name for it. `key` is the payment's own, the same on
    /// every attempt: that, and nothing on this side, is what keeps a repeated call from paying twice.
    pub async fn refund(&self, transaction: &str, amount: Fen, key: &str) -> Result<String, ProviderError> {
        let body = RefundBody { transaction_id: transaction, amount };
        let answer: RefundAnswer = self.call("/refunds", key, &body, REFUND_WITHIN).await?;
        Ok(answer.refund_id)
    }

    async fn call<A: for<'a> Deserialize<'a>>(
        &self,
        path: &str,
        key: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<A, ProviderError> {
        let body = serde_json::to_vec(body).map_err(|_| ProviderError::Unreadable)?;
        let mut headers = vec![("idempotency-key", key)];
        headers.extend(self.authorization.as_deref().map(|value| ("authorization", value)));
        let answer = self.http.post(&format!("{}{path}", self.base), &headers, Bytes::from(body), limit).await?;
        match answer.status {
            200..300 => serde_json::from_slice(&answer.body).map_err(|_| ProviderError::Unreadable),
            408 | 425 | 429 | 500.. => Err(ProviderError::Away(format!("status {}", answer.status))),
            status => Err(ProviderError::Refused(status)),
        }
    }
}
