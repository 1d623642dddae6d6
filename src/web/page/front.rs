//! `/` and `/shop/{id}`: vouchers as cards.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::ids::{ShopId, VoucherId};
use crate::domain::sale::SaleState;
use crate::service::sales::Listed;
use crate::web::page::card::{Action, Card};
use crate::web::page::{Alert, Chrome, Held, is_response};

/// Sales on now and soon, over all shops.
#[derive(Template)]
#[template(path = "shop/front.html")]
pub struct FrontPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    now: Vec<Card>,
    soon: Vec<Card>,
}

impl FrontPage {
    /// `sales` with the name of each one's shop, in the order to show; `held`: what the reader holds of a voucher.
    #[must_use]
    pub fn new<'a>(c: Chrome, sales: &[(Listed, String)], held: impl Fn(VoucherId) -> Option<Held<'a>>) -> Self {
        let (mut now, mut soon) = (Vec::new(), Vec::new());
        for (listed, shop) in sales {
            let mut card = Card::new(&c, listed, held(listed.voucher.id), None);
            card.href = format!("/shop/{}", listed.voucher.fields.shop);
            card.sub_title.clone_from(shop);
            card.rules.clear(); // one click away, on the shop's page
            match listed.state {
                Some(SaleState::Soon) => soon.push(card),
                Some(_) => now.push(card),
                None => {}
            }
        }
        Self { status: StatusCode::OK, c, now, soon }
    }
}
is_response!(FrontPage);

/// What the head of a shop's page shows.
#[derive(Debug, Clone)]
pub struct ShopHead {
    /// Which.
    pub id: ShopId,
    /// Its name.
    pub name: String,
    /// Area and street; may be empty.
    pub address: String,
    /// 0–50: tenths of a point; none while nobody has judged.
    pub score: Option<i64>,
    /// Whole yuan a head; none when unknown.
    pub avg_price: Option<i64>,
    /// Such as `10:00-22:00`; may be empty.
    pub open_hours: String,
}

/// A shop with its vouchers and the purchase buttons.
#[derive(Template)]
#[template(path = "shop/shop.html")]
pub struct ShopPage {
    /// 200, or the status that goes with a refused post.
    pub status: StatusCode,
    c: Chrome,
    name: String,
    address: String,
    facts: Vec<String>,
    sales: Vec<Card>,
    plain: Vec<Card>,
}

impl ShopPage {
    /// `vouchers` in the order to show; `held`: what the reader holds of one; `alert`: the answer to a refused post.
    #[must_use]
    pub fn new<'a>(
        c: Chrome,
        shop: &ShopHead,
        vouchers: &[Listed],
        held: impl Fn(VoucherId) -> Option<Held<'a>>,
        alert: Option<&Alert>,
    ) -> Self {
        let (mut sales, mut plain) = (Vec::new(), Vec::new());
        for listed in vouchers {
            let card = Card::new(&c, listed, held(listed.voucher.id), alert);
            if card.state.is_some() { sales.push(card) } else { plain.push(card) }
        }
        let score = shop.score.map(|s| c.f("shop-score", &[("n", &format!("{}.{}", s / 10, s % 10))]));
        let price = shop.avg_price.map(|p| c.f("shop-price", &[("n", &p)]));
        let hours = (!shop.open_hours.is_empty()).then(|| c.f("shop-hours", &[("hours", &shop.open_hours)]));
        Self {
            status: StatusCode::OK,
            name: shop.name.clone(),
            address: shop.address.clone(),
            facts: [score, price, hours].into_iter().flatten().collect(),
            sales,
            plain,
            c,
        }
    }

    /// The same page as the answer to a refused post.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}
is_response!(ShopPage);
