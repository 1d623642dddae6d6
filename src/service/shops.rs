//! Shops: found by type, name and distance. Making one is `sales.rs`' business, which keeps the audit log.

use crate::domain::ids::ShopId;
use crate::store::{Page, Shop, ShopType, Store, StoreError};

/// Shops that one sorted list looks through; a type with more is sorted within the first of them.
const SORTED_AMONG: i64 = 1000;
/// The mean radius of the earth in metres.
const EARTH_METRES: f64 = 6_371_000.0;

/// A place in millionths of a degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Longitude.
    pub x: i64,
    /// Latitude.
    pub y: i64,
}

/// How a list of shops is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Nearest first where the asker's place is known, else oldest first.
    #[default]
    Near,
    /// Most comments first.
    Comments,
    /// Best score first.
    Score,
}

/// A shop and how far away it is.
#[derive(Debug, Clone)]
pub struct Found {
    /// The shop.
    pub shop: Shop,
    /// Metres from the asker, where his place is known.
    pub distance: Option<f64>,
}

/// Finds shops; cheap to clone.
#[derive(Clone)]
pub struct Shops {
    store: Store,
}

fn radians(millionths: i64) -> f64 {
    (f64::from(i32::try_from(millionths).unwrap_or(0)) / 1e6).to_radians()
}

/// The great-circle distance in metres.
fn distance(a: Place, b: Place) -> f64 {
    let (lat_a, lat_b) = (radians(a.y), radians(b.y));
    let (dx, dy) = (radians(b.x) - radians(a.x), lat_b - lat_a);
    let h = (dy / 2.0).sin().powi(2) + lat_a.cos() * lat_b.cos() * (dx / 2.0).sin().powi(2);
    2.0 * EARTH_METRES * h.sqrt().min(1.0).asin()
}

impl Shops {
    /// Shops in `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// One shop; none: unknown.
    pub async fn one(&self, id: ShopId) -> Result<Option<Shop>, StoreError> {
        self.store.shop_by_id(id).await
    }

    /// Every kind of shop, in the order to show.
    pub async fn types(&self) -> Result<Vec<ShopType>, StoreError> {
        self.store.shop_types().await
    }

    /// A page of the shops of one type; empty past the end.
    pub async fn of_type(&self, type_id: i64, from: Option<Place>, order: Order, page: Page) -> Result<Vec<Found>, StoreError> {
        if from.is_none() && order == Order::Near {
            return Ok(found(self.store.shops_of_type(type_id, page).await?, None));
        }
        let all = self.store.shops_of_type(type_id, Page { offset: 0, limit: SORTED_AMONG }).await?;
        let mut all = found(all, from);
        match order {
            Order::Near => all.sort_by(|a, b| a.distance.unwrap_or(f64::MAX).total_cmp(&b.distance.unwrap_or(f64::MAX))),
            Order::Comments => all.sort_by_key(|f| std::cmp::Reverse(f.shop.comments)),
            Order::Score => all.sort_by_key(|f| std::cmp::Reverse(f.shop.score)),
        }
        let count = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(all.into_iter().skip(count(page.offset)).take(count(page.limit)).collect())
    }

    /// A page of the shops with `part` in their name.
    pub async fn by_name(&self, part: &str, page: Page) -> Result<Vec<Found>, StoreError> {
        Ok(found(self.store.shops_by_name(part, page).await?, None))
    }
}

fn found(shops: Vec<Shop>, from: Option<Place>) -> Vec<Found> {
    let measure = |shop: &Shop| from.map(|from| distance(from, Place { x: shop.x, y: shop.y }));
    shops.into_iter().map(|shop| Found { distance: measure(&shop), shop }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_in_metres() {
        let west_lake = Place { x: 120_149_192, y: 30_316_078 };
        let north = Place { x: 120_149_192, y: 30_326_078 };
        let metres = distance(west_lake, north);
        assert!((1111.0..1113.0).contains(&metres), "{metres}");
        assert!(distance(west_lake, west_lake) < 0.001);
    }
}
