//! Vouchers and sales: made by merchants, listed for shoppers.

use crate::domain::ids::{ShopId, VoucherId};
use crate::domain::sale::SaleState;
use crate::domain::time::Millis;
use crate::domain::voucher::{NewSale, NewVoucher, Voucher};
use crate::service::ServiceError;

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

/// Makes and lists vouchers and sales.
pub struct Sales {}

impl Sales {
    /// Saves an everyday voucher. The same `key` gives the same voucher.
    pub async fn create_voucher(&self, _key: Option<&str>, _voucher: NewVoucher) -> Result<VoucherId, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// Saves a voucher with its sale in one transaction, then loads the gate and opens it. The same `key` gives the same
    /// voucher. A gate that cannot be asked now is loaded by the reconciler later.
    pub async fn create_sale(&self, _key: Option<&str>, _voucher: NewVoucher, _sale: NewSale) -> Result<VoucherId, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// A shop's vouchers, sales first.
    pub async fn listed(&self, _shop: ShopId) -> Result<Vec<Listed>, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// Sales on now and soon, over all shops.
    pub async fn front_page(&self) -> Result<Vec<Listed>, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }

    /// One voucher; none: unknown.
    pub async fn one(&self, _voucher: VoucherId) -> Result<Option<Listed>, ServiceError> {
        Err(ServiceError::Unavailable(String::new()))
    }
}
