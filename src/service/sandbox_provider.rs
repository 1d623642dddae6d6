//! The built-in payment provider: another company that happens to live in this process. The shop speaks to it over HTTP like
//! to any other, and it answers with signed notices over HTTP; nothing else passes between them.
//!
//! It trusts its shop as a real one does: a refund under a new key is a new refund. Its books show whoever asked twice.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::StreamExt;
use subtle::ConstantTimeEq;

use crate::clock::Clock;
use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::domain::time::Millis;
use crate::payment_provider::http::Http;
pub use crate::payment_provider::sandbox::Deed;
use crate::payment_provider::sandbox::consequences;
use crate::payment_provider::signature::SigningKeys;
use crate::service::ServiceError;
use crate::service::change::WRITER_WITHIN;
use crate::service::retry::wait_before;
use crate::store::{SandboxEntry, SandboxLetter, SandboxPayment, Store, StoreError, Way};

/// Notices of one round.
const BATCH: i64 = 64;
/// Notices under way at once.
const AT_ONCE: usize = 8;
/// How long the shop may take to answer one.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A shop that understood and said no hears the same notice this often, then no more.
const MOST_REFUSALS: i64 = 4;

/// Why the sandbox does not do it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It knows no such payment or transaction.
    #[error("unknown")]
    Unknown,
    /// The key stands for another refund.
    #[error("the key stands for another refund")]
    KeyReused,
    /// More than the transaction took.
    #[error("more than was paid")]
    TooMuch,
    /// Its books cannot be read or written.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for SandboxError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// The provider's books.
#[derive(Debug, Clone)]
pub struct Books {
    /// Money that came in.
    pub paid: Fen,
    /// Money that went back.
    pub refunded: Fen,
    /// Line by line, oldest first.
    pub entries: Vec<SandboxEntry>,
}

/// The provider.
#[derive(Clone)]
pub struct SandboxProvider {
    /// Where its tables are.
    pub store: Store,
    /// How it speaks.
    pub http: Http,
    /// What it signs with.
    pub keys: SigningKeys,
    /// The time.
    pub clock: Clock,
    /// Where this process answers itself, without a slash at the end.
    pub local: String,
    /// Where browsers reach its page, without a slash at the end.
    pub public: String,
    /// A late notice comes after this.
    pub late: Duration,
    /// What its shop shows in `authorization`.
    pub token: String,
}

impl SandboxProvider {
    /// Whether a caller is its shop.
    #[must_use]
    pub fn knows(&self, authorization: Option<&str>) -> bool {
        authorization.is_some_and(|given| given.as_bytes().ct_eq(self.token.as_bytes()).into())
    }

    /// Starts a payment, or answers the one that the order has; its id and its page.
    pub async fn create(
        &self,
        order: OrderId,
        amount: Fen,
        callback_url: &str,
        return_url: &str,
    ) -> Result<(String, String), SandboxError> {
        // A way back into this process is kept as a path: after a restart it may listen elsewhere.
        let callback = callback_url.strip_prefix(&self.local).filter(|path| path.starts_with('/')).unwrap_or(callback_url);
        let new = SandboxPayment {
            id: format!("pay_{}", random_name()),
            order,
            amount,
            callback_url: callback.to_owned(),
            return_url: return_url.to_owned(),
        };
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let payment = tx.put_sandbox_payment(&new, self.clock.now()).await?;
        tx.commit().await?;
        let page = format!("{}/sandbox-pay/{}", self.public, payment.id);
        Ok((payment.id, page))
    }

    /// A payment, for its page.
    pub async fn payment(&self, id: &str) -> Result<SandboxPayment, SandboxError> {
        self.store.sandbox_payment(id).await?.ok_or(SandboxError::Unknown)
    }

    /// A button of the page was pressed; answers where the buyer goes. Books and notices are one transaction: what was
    /// pressed is told, whatever dies.
    pub async fn press(&self, id: &str, deed: Deed) -> Result<String, SandboxError> {
        let payment = self.payment(id).await?;
        let now = self.clock.now();
        let transaction = format!("txn_{}", random_name());
        let made = consequences(deed, payment.order, payment.amount, &transaction, now, self.late);
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        if let Some(amount) = made.taken {
            tx.put_sandbox_entry(&entry(Way::Paid, &transaction, &transaction, payment.order, amount, now)).await?;
        }
        for letter in made.letters {
            let name = format!("msg_{}", random_name());
            tx.put_sandbox_letter(&name, &payment.callback_url, &letter.body, letter.send_at).await?;
        }
        tx.commit().await?;
        Ok(payment.return_url)
    }

    /// Sends money back, once for each key; answers the refund's name.
    pub async fn refund(&self, key: &str, transaction: &str, amount: Fen) -> Result<String, SandboxError> {
        let (taken, order) = self.store.sandbox_taken(transaction).await?.ok_or(SandboxError::Unknown)?;
        if amount > taken || amount.0 <= 0 {
            return Err(SandboxError::TooMuch);
        }
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let new = entry(Way::Refunded, key, transaction, order, amount, self.clock.now());
        if let Some(known) = tx.put_sandbox_entry(&new).await?
            && (known.transaction != transaction || known.amount != amount)
        {
            return Err(SandboxError::KeyReused);
        }
        tx.commit().await?;
        Ok(format!("re_{key}"))
    }

    /// The books.
    pub async fn books(&self) -> Result<Books, SandboxError> {
        let entries = self.store.sandbox_entries().await?;
        let sum = |way: Way| Fen(entries.iter().filter(|e| e.way == way).map(|e| e.amount.0).sum());
        Ok(Books { paid: sum(Way::Paid), refunded: sum(Way::Refunded), entries })
    }

    /// Sends the notices that are due; answers how many are off the table. The others stay, each with its own next time.
    pub async fn send_due(&self) -> Result<usize, ServiceError> {
        let due = self.store.sandbox_letters_due(self.clock.now(), BATCH).await?;
        let mut sent = futures_util::stream::iter(due).map(|letter| self.send(letter)).buffer_unordered(AT_ONCE);
        let (mut done, mut trouble) = (0, None);
        while let Some(result) = sent.next().await {
            match result {
                Ok(over) => done += usize::from(over),
                Err(error) => trouble = Some(error),
            }
        }
        trouble.map_or(Ok(done), Err)
    }

    async fn send(&self, letter: SandboxLetter) -> Result<bool, ServiceError> {
        // Signed when it is sent: a notice that waited for hours must not be stale.
        let seconds = self.clock.now().0.div_euclid(1000);
        let (timestamp, signature) = (seconds.to_string(), self.keys.sign(&letter.id, seconds, letter.body.as_bytes()));
        let headers = [
            ("webhook-id", letter.id.as_str()),
            ("webhook-timestamp", timestamp.as_str()),
            ("webhook-signature", signature.as_str()),
        ];
        let url = if letter.callback_url.starts_with('/') {
            format!("{}{}", self.local, letter.callback_url)
        } else {
            letter.callback_url.clone()
        };
        let answer = self.http.post(&url, &headers, Bytes::from(letter.body.clone()), ANSWER_WITHIN).await;
        let over = match &answer {
            Ok(answer) if answer.is_success() => true,
            Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => letter.attempts >= MOST_REFUSALS,
            Ok(_) | Err(_) => false,
        };
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        if over {
            tx.finish_sandbox_letter(&letter.id, self.clock.now()).await?;
        } else {
            tracing::debug!(letter.id, attempts = letter.attempts, ?answer, "a notice of the sandbox will be sent again");
            let wait = wait_before(letter.attempts, Duration::from_millis(500), Duration::from_secs(15));
            tx.retry_sandbox_letter(&letter.id, self.clock.now() + wait).await?;
        }
        tx.commit().await?;
        Ok(over)
    }
}

fn entry(way: Way, key: &str, transaction: &str, order: OrderId, amount: Fen, at: Millis) -> SandboxEntry {
    SandboxEntry { way, key: key.to_owned(), transaction: transaction.to_owned(), order, amount, at }
}

/// Nobody guesses it.
fn random_name() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 15]>())
}
