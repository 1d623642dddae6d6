//! Vouchers and sales: made by merchants, listed for shoppers.

use std::sync::Arc;

use crate::clock::Clock;
use crate::domain::event::SaleEvent;
use crate::domain::ids::{ShopId, UserId, VoucherId};
use crate::domain::sale::{Sale, SaleState};
use crate::domain::time::Millis;
use crate::domain::voucher::{NewSale, NewVoucher, Voucher};
use crate::gate::Gate;
use crate::push::bus::Bus;
use crate::service::ServiceError;
use crate::service::change::WRITER_WITHIN;
use crate::service::rebuild::{Rebuilds, Rebuilt};
use crate::service::sale_index::{Known, SaleIndex};
use crate::store::{NewShop, Store};

/// A voucher as a page shows it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The voucher with its sale.
    pub voucher: Voucher,
    /// Units left: the gate's figure, SQL's when the gate cannot be asked; 0 for an everyday voucher.
    pub left: i64,
    /// When `left` was measured.
    pub measured_at: Millis,
    /// Where the sale stands; none for an everyday voucher.
    pub state: Option<SaleState>,
}

/// A sale as the watchers of its voucher are told.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// Which voucher.
    pub voucher: VoucherId,
    /// Its sale as known in memory.
    pub sale: Sale,
    /// Units left at the gate; none when it could not be asked.
    pub left: Option<i64>,
    /// When that was measured.
    pub measured_at: Millis,
}

/// Makes and lists vouchers and sales.
#[derive(Clone)]
pub struct Sales {
    /// The truth.
    pub store: Store,
    /// Asked for units left.
    pub gate: Gate,
    /// Loads a new sale.
    pub rebuilds: Rebuilds,
    /// Learns of a new sale first.
    pub index: Arc<SaleIndex>,
    /// Tells the other instances.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
}

impl Sales {
    /// Saves a shop.
    pub async fn create_shop(&self, by: UserId, shop: &NewShop) -> Result<ShopId, ServiceError> {
        let now = self.clock.now();
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let id = tx.insert_shop(shop, now).await?;
        tx.audit(&by.to_string(), "shop.create", &format!("shop {id}"), None, Some(&shop.name), now).await?;
        tx.commit().await?;
        Ok(id)
    }

    /// Saves an everyday voucher. The same `key` gives the same voucher.
    pub async fn create_voucher(
        &self,
        by: Option<UserId>,
        key: Option<&str>,
        voucher: &NewVoucher,
    ) -> Result<VoucherId, ServiceError> {
        self.save(by, key, voucher, None).await.map(|(id, _)| id)
    }

    /// Saves a voucher with its sale in one transaction, then loads the gate and opens it. The same `key` gives the same
    /// voucher. A gate that cannot be asked now is loaded by the reconciler later.
    pub async fn create_sale(
        &self,
        by: Option<UserId>,
        key: Option<&str>,
        voucher: &NewVoucher,
        sale: &NewSale,
    ) -> Result<VoucherId, ServiceError> {
        let (this, key, voucher, sale) = (self.clone(), key.map(ToOwned::to_owned), voucher.clone(), *sale);
        // A task of its own: a browser drops its first post when it is clicked twice, and a sale that is saved must not stay
        // without a gate because of it.
        let work = async move {
            let (id, fresh) = this.save(by, key.as_deref(), &voucher, Some(&sale)).await?;
            if fresh {
                this.load(id).await;
            }
            Ok(id)
        };
        let done = self.rebuilds.shutdown.spawn(work).await;
        done.unwrap_or_else(|error| Err(ServiceError::Internal(error.to_string())))
    }

    /// Opens the gate of a new sale and tells everybody of it.
    async fn load(&self, id: VoucherId) {
        match self.rebuilds.rebuild(id, 0).await {
            Ok(Rebuilt::Open(_)) => {}
            Ok(other) => tracing::info!(voucher.id = %id, ?other, "the reconciler loads this sale"),
            // The sale is saved: the merchant's answer must not say otherwise.
            Err(error) => tracing::warn!(voucher.id = %id, %error, "the gate cannot be loaded now; the reconciler will"),
        }
        self.tell(id).await;
    }

    /// Every instance reads the sales again.
    pub async fn tell(&self, voucher: VoucherId) {
        if let Err(error) = self.index.refresh().await {
            tracing::warn!(%error, "the sales could not be read");
        }
        self.bus.publish_sale(SaleEvent::Changed { voucher });
    }

    async fn save(
        &self,
        by: Option<UserId>,
        key: Option<&str>,
        voucher: &NewVoucher,
        sale: Option<&NewSale>,
    ) -> Result<(VoucherId, bool), ServiceError> {
        let now = self.clock.now();
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let inserted = tx.insert_voucher(voucher, key, now).await?;
        if inserted.fresh {
            if let Some(sale) = sale {
                tx.insert_sale(inserted.id, sale).await?;
            }
            let action = if sale.is_some() { "sale.create" } else { "voucher.create" };
            let who = by.map_or_else(|| String::from("system"), |user| user.to_string());
            tx.audit(&who, action, &format!("voucher {}", inserted.id), None, Some(&voucher.title), now).await?;
            tx.commit().await?;
        }
        Ok((inserted.id, inserted.fresh))
    }

    /// A shop's vouchers, sales first.
    pub async fn listed(&self, shop: ShopId) -> Result<Vec<Listed>, ServiceError> {
        let mut listed = self.measure(self.store.vouchers_of_shop(shop).await?).await;
        listed.sort_by_key(order_on_page);
        Ok(listed)
    }

    /// Sales on now and soon, over all shops.
    pub async fn front_page(&self) -> Result<Vec<Listed>, ServiceError> {
        if !self.index.is_loaded() {
            self.index.refresh().await?;
        }
        let now = self.clock.now();
        let vouchers = self.index.sales().into_iter().filter(|(_, sale)| sale.end > now).map(|(v, _)| (*v).clone()).collect();
        let mut listed = self.measure(vouchers).await;
        listed.sort_by_key(order_on_page);
        Ok(listed)
    }

    /// One voucher; none: unknown.
    pub async fn one(&self, voucher: VoucherId) -> Result<Option<Listed>, ServiceError> {
        let Some(voucher) = self.store.voucher(voucher).await? else { return Ok(None) };
        Ok(self.measure(vec![voucher]).await.pop())
    }

    /// Where these sales stand: the sales from memory, the units from the gate in one round trip. A voucher that is no sale
    /// of now is left out; a figure that the gate does not give is none, never SQL's: what is told by itself is measured.
    pub async fn standing(&self, vouchers: &[VoucherId]) -> Vec<Standing> {
        let sale_of = |id: &VoucherId| match self.index.get(*id) {
            Known::Sale(_, sale) => Some((*id, sale)),
            _ => None,
        };
        let known: Vec<(VoucherId, Sale)> = vouchers.iter().filter_map(sale_of).collect();
        let ids: Vec<VoucherId> = known.iter().map(|(id, _)| *id).collect();
        let stocks = match self.gate.stocks(&ids).await {
            Ok(stocks) => stocks,
            Err(error) => {
                tracing::debug!(%error, "units left cannot be looked at");
                vec![None; ids.len()]
            }
        };
        let measured_at = self.clock.now();
        let standing = |((voucher, sale), left)| Standing { voucher, sale, left, measured_at };
        known.into_iter().zip(stocks).map(standing).collect()
    }

    /// Adds the gate's figures in one round trip; SQL's where the gate cannot be asked.
    async fn measure(&self, vouchers: Vec<Voucher>) -> Vec<Listed> {
        let now = self.clock.now();
        let asked: Vec<VoucherId> = vouchers.iter().filter(|v| v.sale.is_some_and(|s| s.end > now)).map(|v| v.id).collect();
        let stocks = if asked.is_empty() { Vec::new() } else { self.gate.stocks(&asked).await.unwrap_or_default() };
        let at_gate = |id: VoucherId| asked.iter().position(|a| *a == id).and_then(|i| stocks.get(i).copied().flatten());
        vouchers
            .into_iter()
            .map(|voucher| {
                let left = voucher.sale.map_or(0, |sale| at_gate(voucher.id).unwrap_or(sale.stock_left));
                let state = voucher.sale.map(|sale| sale.state(now, left));
                Listed { voucher, left, measured_at: now, state }
            })
            .collect()
    }
}

/// On now, then soon, then the rest, each by the instant that comes next; everyday vouchers and past sales last.
fn order_on_page(listed: &Listed) -> (u8, i64, i64) {
    let id = listed.voucher.id.0;
    match (listed.state, listed.voucher.sale) {
        (Some(SaleState::Open), Some(sale)) => (0, sale.end.0, id),
        (Some(SaleState::Soon), Some(sale)) => (1, sale.begin.0, id),
        (Some(SaleState::Paused | SaleState::SoldOut), Some(sale)) => (2, sale.end.0, id),
        (Some(SaleState::Ended), Some(sale)) => (4, -sale.end.0, id),
        _ => (3, 0, id),
    }
}
