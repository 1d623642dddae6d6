//! What an admin does to a sale: pause, resume, end, add or take units, rebuild, edit its texts. Each writes who did it,
//! with before and after, in the transaction of the change.
//!
//! SQL first, because it is the truth; then the gate, at once. Where the gate cannot be asked the caller hears it and may
//! do the same again: every action here may be repeated.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::domain::ids::{Epoch, UserId, VoucherId};
use crate::domain::sale::Sale;
use crate::domain::voucher::{FieldError, FieldErrors, Voucher, check_texts};
use crate::service::ServiceError;
use crate::service::change::WRITER_WITHIN;
use crate::service::rebuild::{Rebuilds, Rebuilt};
use crate::service::sales::Sales;
use crate::service::stock_change::{Changed, StockChange, judge};
use crate::store::{Store, StoreError, Tx, VoucherTexts};

/// Tries of a rebuild that another one came in the way of, and the longest wait between two.
const TRIES: u32 = 5;
const WAIT_MS: u64 = 400;

/// Why an action was not done. Nothing happened.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No such voucher, or it has no sale.
    #[error("no such sale")]
    NotFound,
    /// The sale is over.
    #[error("the sale is over")]
    Over,
    /// Somebody else edited it since.
    #[error("somebody else was faster")]
    Conflict,
    /// Fields are wrong.
    #[error("fields are wrong")]
    Invalid(FieldErrors),
    /// It could not be tried, or not be finished.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

/// Texts as an admin typed them; none: stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// 1–100 characters.
    pub title: Option<String>,
    /// 0–200 characters.
    pub sub_title: Option<String>,
    /// 0–2000 characters.
    pub rules: Option<String>,
}

/// The desk of the control room; cheap to clone.
#[derive(Clone)]
pub struct Control {
    /// The sales, their stores and who is told.
    pub sales: Arc<Sales>,
}

fn subject(voucher: VoucherId) -> String {
    format!("voucher {voucher}")
}

impl Control {
    fn store(&self) -> &Store {
        &self.sales.store
    }

    fn rebuilds(&self) -> &Rebuilds {
        &self.sales.rebuilds
    }

    async fn locked(&self, voucher: VoucherId) -> Result<(Tx, Sale), ControlError> {
        let mut tx = self.store().begin_within(WRITER_WITHIN).await?;
        let sale = tx.sale_locked(voucher).await?.ok_or(ControlError::NotFound)?;
        Ok((tx, sale))
    }

    /// Stops or resumes admission; who is queued keeps his unit. Pausing a paused sale only tells the gate again.
    ///
    /// # Errors
    /// `NotFound`, `Over`. Unavailable: written down, and the gate will follow; try again to be sure.
    pub async fn set_paused(&self, by: UserId, voucher: VoucherId, paused: bool) -> Result<(), ControlError> {
        let now = self.sales.clock.now();
        let (mut tx, sale) = self.locked(voucher).await?;
        if sale.end <= now {
            return Err(ControlError::Over);
        }
        if sale.paused == paused {
            tx.rollback().await?;
        } else {
            tx.set_paused(voucher, paused, sale.version).await?;
            let told = |paused: bool| json!({ "paused": paused }).to_string();
            let action = if paused { "sale.pause" } else { "sale.resume" };
            let (before, after) = (told(!paused), told(paused));
            tx.audit(&by.to_string(), action, &subject(voucher), Some(&before), Some(&after), now).await?;
            tx.commit().await?;
        }
        // A gate of another epoch is in a rebuild, whose load reads the row that was just written.
        let at_gate = self.sales.gate.set_paused(voucher, sale.epoch, paused).await;
        self.sales.tell(voucher).await;
        at_gate.map(drop).map_err(|error| ControlError::Service(error.into()))
    }

    /// Ends a sale for good, now. One that has not begun never will. Ending an ended sale only tells the gate again.
    ///
    /// # Errors
    /// `NotFound`. Unavailable: written down; every process stops asking the gate within a few seconds all the same.
    pub async fn end(&self, by: UserId, voucher: VoucherId) -> Result<(), ControlError> {
        let now = self.sales.clock.now();
        let (mut tx, sale) = self.locked(voucher).await?;
        let mut end = sale.end;
        if sale.end <= now {
            tx.rollback().await?;
        } else {
            end = now;
            // A window has a begin before its end.
            let begin = sale.begin.min(now - Duration::from_millis(1));
            tx.set_window(voucher, begin, end).await?;
            let (before, after) = (
                json!({ "beginTime": sale.begin, "endTime": sale.end }).to_string(),
                json!({ "beginTime": begin, "endTime": end }).to_string(),
            );
            tx.audit(&by.to_string(), "sale.end", &subject(voucher), Some(&before), Some(&after), now).await?;
            tx.commit().await?;
        }
        let at_gate = self.end_at_gate(voucher, sale.epoch, end).await;
        self.sales.tell(voucher).await;
        at_gate
    }

    async fn end_at_gate(&self, voucher: VoucherId, epoch: Epoch, end: crate::domain::time::Millis) -> Result<(), ControlError> {
        if epoch > 0 && !self.sales.gate.end(voucher, epoch, end).await.map_err(ServiceError::from)? {
            tracing::info!(voucher.id = %voucher, "ended while its gate is of another epoch: its load knows the end");
        }
        Ok(())
    }

    /// Loads the gate anew from SQL: the repair of whatever is wrong with it. Buyers hear BUSY until it is open again.
    ///
    /// # Errors
    /// `NotFound`. Unavailable: the gate stays shut, and the reconciler goes on trying.
    pub async fn rebuild(&self, by: UserId, voucher: VoucherId) -> Result<(), ControlError> {
        let sale = self.store().sale(voucher).await?.ok_or(ControlError::NotFound)?;
        let this = self.clone();
        // A task of its own: who asked may go away, and the gate must not stay shut because of it.
        let work = async move {
            let epoch = this.rebuild_until_open(voucher, None).await?;
            let now = this.sales.clock.now();
            let mut tx = this.store().begin().await?;
            let (before, after) = (json!({ "epoch": sale.epoch }).to_string(), json!({ "epoch": epoch }).to_string());
            tx.audit(&by.to_string(), "sale.rebuild", &subject(voucher), Some(&before), Some(&after), now).await?;
            tx.commit().await?;
            this.sales.tell(voucher).await;
            Ok(())
        };
        self.finish(work).await
    }

    async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ControlError>> + Send + 'static,
    ) -> Result<T, ControlError> {
        let done = self.rebuilds().shutdown.spawn(work).await;
        done.unwrap_or_else(|error| Err(ControlError::Service(ServiceError::Internal(error.to_string()))))
    }

    /// Rebuilds, again where another rebuild came in the way; the epoch that is open then, 0: another rebuild's.
    async fn rebuild_until_open(&self, voucher: VoucherId, mut change: Option<&mut StockChange>) -> Result<Epoch, ControlError> {
        for _ in 0..TRIES {
            match self.rebuilds().rebuild_with(voucher, change.as_deref_mut()).await? {
                Rebuilt::Open(epoch) => return Ok(epoch),
                Rebuilt::Unknown => return Err(ControlError::NotFound),
                Rebuilt::GivenUp(why) => {
                    tracing::info!(voucher.id = %voucher, why, "a rebuild that was asked for waits");
                    // Committed, and somebody else opens the gate: tried again it would meet its own new version.
                    if change.as_ref().is_some_and(|change| change.committed) {
                        return Ok(0);
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(rand::random_range(WAIT_MS / 4..=WAIT_MS))).await;
        }
        Err(ControlError::Service(ServiceError::Unavailable(String::from("other rebuilds are under way"))))
    }

    /// Adds `delta` units to a sale, or takes them away, also while it sells: a rebuild whose transaction changes the stock.
    ///
    /// # Errors
    /// `Conflict`: it is not at `version` any more. `Invalid` (`delta`): fewer are left. `Over`, `NotFound`.
    pub async fn change_stock(&self, by: UserId, voucher: VoucherId, delta: i64, version: i64) -> Result<(), ControlError> {
        let sale = self.store().sale(voucher).await?.ok_or(ControlError::NotFound)?;
        if sale.end <= self.sales.clock.now() {
            return Err(ControlError::Over);
        }
        // Before the gate is shut for it; decided again under the lock.
        judged(judge(&sale, delta, version))?;
        if delta == 0 {
            return Ok(());
        }
        let this = self.clone();
        let work = async move {
            let mut change = StockChange { delta, version, by, outcome: None, committed: false };
            let opened = this.rebuild_until_open(voucher, Some(&mut change)).await;
            this.sales.tell(voucher).await;
            opened?;
            judged(change.outcome.unwrap_or(Changed::Conflict))
        };
        self.finish(work).await
    }

    /// Edits the texts of a voucher; the stock is not touched. Answers the voucher as it is then.
    ///
    /// # Errors
    /// `Conflict`: it is not at `version` (the sale's, where it has one) any more. `Invalid`, `NotFound`.
    pub async fn edit(&self, by: UserId, voucher: VoucherId, edit: Edit, version: i64) -> Result<Voucher, ControlError> {
        let known = self.store().voucher(voucher).await?.ok_or(ControlError::NotFound)?;
        if version_of(&known) != version {
            return Err(ControlError::Conflict);
        }
        let mut fields = known.fields.clone();
        fields.title = edit.title.unwrap_or(fields.title);
        fields.sub_title = edit.sub_title.unwrap_or(fields.sub_title);
        fields.rules = edit.rules.unwrap_or(fields.rules);
        let mut errors = FieldErrors::new();
        check_texts(&mut errors, &fields.title, &fields.sub_title, &fields.rules);
        if !errors.is_empty() {
            return Err(ControlError::Invalid(errors));
        }
        let now = self.sales.clock.now();
        let mut tx = self.store().begin_within(WRITER_WITHIN).await?;
        let texts = VoucherTexts { title: &fields.title, sub_title: &fields.sub_title, rules: &fields.rules };
        // The voucher's row first, as everybody locks them; the sale's version is looked at under its lock.
        let mut free = tx.update_voucher_texts(voucher, texts, known.version).await?;
        if free && known.sale.is_some() {
            free = tx.sale_locked(voucher).await?.is_some_and(|sale| sale.version == version);
            tx.raise_sale_version(voucher).await?;
        }
        if !free {
            tx.rollback().await?;
            return Err(ControlError::Conflict);
        }
        let told = |f: &crate::domain::voucher::NewVoucher| {
            json!({ "title": f.title, "subTitle": f.sub_title, "rules": f.rules }).to_string()
        };
        let (before, after) = (told(&known.fields), told(&fields));
        tx.audit(&by.to_string(), "voucher.edit", &subject(voucher), Some(&before), Some(&after), now).await?;
        tx.commit().await?;
        self.sales.tell(voucher).await;
        self.store().voucher(voucher).await?.ok_or(ControlError::NotFound)
    }
}

/// The one number by which edits of a voucher are told apart: its sale's, where it has one.
#[must_use]
pub fn version_of(voucher: &Voucher) -> i64 {
    voucher.sale.map_or(voucher.version, |sale| sale.version)
}

fn judged(verdict: Changed) -> Result<(), ControlError> {
    match verdict {
        Changed::Done => Ok(()),
        Changed::Conflict => Err(ControlError::Conflict),
        Changed::OutOfRange { min, max } => {
            Err(ControlError::Invalid(FieldErrors::from([("delta", FieldError::OutOfRange { min, max })])))
        }
    }
}
