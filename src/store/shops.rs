//! Shops and their types. Coordinates are whole millionths of a degree; distances are `service/`'s to work out.

use super::run::{on_store, on_tx};
use super::{Store, StoreError, Tx};
use crate::domain::ids::ShopId;
use crate::domain::money::Fen;
use crate::domain::time::Millis;

/// A shop to be saved. Texts were checked; `type_id` is one of [`Store::shop_types`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShop {
    /// Its name.
    pub name: String,
    /// Its type's id.
    pub type_id: i64,
    /// Comma-separated picture paths, may be empty.
    pub images: String,
    /// Its part of the town.
    pub area: String,
    /// Its street.
    pub address: String,
    /// Longitude in millionths of a degree.
    pub x: i64,
    /// Latitude in millionths of a degree.
    pub y: i64,
    /// What a visit costs on average.
    pub avg_price: Fen,
    /// Ten times its stars, 0–50.
    pub score: i64,
    /// When it is open, as people write it.
    pub open_hours: String,
}

impl NewShop {
    /// A shop of which nothing but the name is known: of the first type, at no place, without price or stars.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            type_id: 1,
            images: String::new(),
            area: String::new(),
            address: String::new(),
            x: 0,
            y: 0,
            avg_price: Fen(0),
            score: 0,
            open_hours: String::new(),
        }
    }
}

/// A shop as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shop {
    /// Which.
    pub id: ShopId,
    /// Its name.
    pub name: String,
    /// Its type's id.
    pub type_id: i64,
    /// Comma-separated picture paths, may be empty.
    pub images: String,
    /// Its part of the town.
    pub area: String,
    /// Its street.
    pub address: String,
    /// Longitude in millionths of a degree.
    pub x: i64,
    /// Latitude in millionths of a degree.
    pub y: i64,
    /// What a visit costs on average.
    pub avg_price: Fen,
    /// Vouchers sold.
    pub sold: i64,
    /// Comments written.
    pub comments: i64,
    /// Ten times its stars, 0–50.
    pub score: i64,
    /// When it is open, as people write it.
    pub open_hours: String,
}

/// A kind of shop.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ShopType {
    /// Which.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The path of its picture.
    pub icon: String,
    /// Its place in the list.
    pub sort: i64,
}

/// A stretch of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Rows left out before it.
    pub offset: i64,
    /// Rows at most.
    pub limit: i64,
}

#[derive(sqlx::FromRow)]
struct ShopRow {
    id: i64,
    name: String,
    type_id: i64,
    images: String,
    area: String,
    address: String,
    x: i64,
    y: i64,
    avg_price: i64,
    sold: i64,
    comments: i64,
    score: i64,
    open_hours: String,
}

impl From<ShopRow> for Shop {
    fn from(row: ShopRow) -> Self {
        Self {
            id: ShopId(row.id),
            name: row.name,
            type_id: row.type_id,
            images: row.images,
            area: row.area,
            address: row.address,
            x: row.x,
            y: row.y,
            avg_price: Fen(row.avg_price),
            sold: row.sold,
            comments: row.comments,
            score: row.score,
            open_hours: row.open_hours,
        }
    }
}

macro_rules! select_shop {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, type_id, images, area, address, x, y, avg_price, sold, comments, score, open_hours FROM shop ",
            $rest
        )
    };
}

/// Makes `%`, `_` and the escape itself mean themselves in a LIKE pattern.
fn like_pattern(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

impl Store {
    /// The shop of an id. Uses the primary key.
    pub async fn shop_by_id(&self, id: ShopId) -> Result<Option<Shop>, StoreError> {
        let row = on_store!(self, Db, conn =>
            sqlx::query_as::<Db, ShopRow>(select_shop!("WHERE id = $1")).bind(id.0).fetch_optional(conn))?;
        Ok(row.map(Shop::from))
    }

    /// Shops of a type, oldest first. Uses `shop_by_type`.
    pub async fn shops_of_type(&self, type_id: i64, page: Page) -> Result<Vec<Shop>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, ShopRow>(
            select_shop!("WHERE type_id = $1 ORDER BY id LIMIT $2 OFFSET $3")
        ).bind(type_id).bind(page.limit).bind(page.offset).fetch_all(conn))?;
        Ok(rows.into_iter().map(Shop::from).collect())
    }

    /// Shops whose name contains `part`, letters of either case. Scans: there are few shops.
    pub async fn shops_by_name(&self, part: &str, page: Page) -> Result<Vec<Shop>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, ShopRow>(
            select_shop!("WHERE LOWER(name) LIKE LOWER($1) ESCAPE '\\' ORDER BY id LIMIT $2 OFFSET $3")
        ).bind(like_pattern(part)).bind(page.limit).bind(page.offset).fetch_all(conn))?;
        Ok(rows.into_iter().map(Shop::from).collect())
    }

    /// Every shop, oldest first, a thousand at most. Uses the primary key.
    pub async fn shops(&self) -> Result<Vec<Shop>, StoreError> {
        let rows = on_store!(self, Db, conn =>
            sqlx::query_as::<Db, ShopRow>(select_shop!("ORDER BY id LIMIT 1000")).fetch_all(conn))?;
        Ok(rows.into_iter().map(Shop::from).collect())
    }

    /// Every type in the order to show. Scans ten rows.
    pub async fn shop_types(&self) -> Result<Vec<ShopType>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, ShopType>(
            "SELECT id, name, icon, sort FROM shop_type ORDER BY sort, id"
        ).fetch_all(conn))
    }
}

impl Tx {
    /// Adds a shop.
    ///
    /// # Errors
    /// [`StoreError::UnknownReference`]: no such type.
    pub async fn insert_shop(&mut self, shop: &NewShop, now: Millis) -> Result<ShopId, StoreError> {
        let id = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "INSERT INTO shop (name, type_id, images, area, address, x, y, avg_price, score, open_hours, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id"
        ).bind(shop.name.as_str()).bind(shop.type_id).bind(shop.images.as_str()).bind(shop.area.as_str())
         .bind(shop.address.as_str()).bind(shop.x).bind(shop.y).bind(shop.avg_price.0).bind(shop.score)
         .bind(shop.open_hours.as_str()).bind(now.0).fetch_one(conn))?;
        Ok(ShopId(id))
    }
}
