//! `/` and `/shop/{id}`: what is on sale, and what the reader holds of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::domain::ids::{ShopId, UserId, VoucherId};
use crate::domain::order::Order;
use crate::service::sales::Listed;
use crate::web::error::Problem;
use crate::web::extract::{Frame, PathId, Who};
use crate::web::identify::Visitor;
use crate::web::page::{Alert, Chrome, FrontPage, Held, ShopHead, ShopPage};
use crate::web::state::AppState;

/// What the reader holds. Decoration: a page is shown without it when it cannot be read.
struct Holdings(HashMap<VoucherId, Order>);

impl Holdings {
    async fn of(state: &AppState, user: Option<UserId>, listed: &[Listed]) -> Self {
        let on_sale: Vec<_> = listed.iter().filter(|l| l.state.is_some()).map(|l| l.voucher.id).collect();
        let (Some(user), false) = (user, on_sale.is_empty()) else { return Self(HashMap::new()) };
        Self(state.orders.held(user, &on_sale).await.unwrap_or_default())
    }

    fn get(&self, voucher: VoucherId) -> Option<Held<'_>> {
        self.0.get(&voucher).map(|order| Held { order: order.id, row: Some(order) })
    }
}

fn user_id(visitor: &Visitor) -> Option<UserId> {
    visitor.user().map(|u| u.id)
}

/// `/`
pub async fn front(State(state): State<AppState>, Who(visitor): Who, Frame(chrome): Frame) -> Result<Response, Problem> {
    let listed = state.sales.front_page().await?;
    let holdings = Holdings::of(&state, user_id(&visitor), &listed).await;
    let mut names: HashMap<ShopId, String> = HashMap::new();
    let mut sales = Vec::with_capacity(listed.len());
    for item in listed {
        let shop = item.voucher.fields.shop;
        let name = match names.entry(shop) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(state.shops.one(shop).await?.map(|s| s.name).unwrap_or_default()).clone(),
        };
        sales.push((item, name));
    }
    Ok(FrontPage::new(chrome, &sales, |voucher| holdings.get(voucher)).into_response())
}

/// `/shop/{id}`
pub async fn shop(
    State(state): State<AppState>,
    Who(visitor): Who,
    PathId(id): PathId<ShopId>,
    Frame(chrome): Frame,
) -> Result<Response, Problem> {
    shop_page(&state, chrome, &visitor, id, None).await
}

/// A shop's page; `answer`: what is said at a card after a refused post, and the status that goes with it.
pub async fn shop_page(
    state: &AppState,
    mut chrome: Chrome,
    visitor: &Visitor,
    id: ShopId,
    answer: Option<(&Alert, &Problem)>,
) -> Result<Response, Problem> {
    let shop = state.shops.one(id).await?.ok_or(Problem::NotFound)?;
    let listed = state.sales.listed(id).await?;
    let holdings = Holdings::of(state, user_id(visitor), &listed).await;
    if answer.is_some() {
        chrome.path = format!("/shop/{id}"); // the page's links lead to a page, not to the post
    }
    let head = ShopHead {
        id,
        address: [shop.area.as_str(), shop.address.as_str()].join(" ").trim().to_owned(),
        score: Some(shop.score).filter(|s| *s > 0),
        avg_price: Some(shop.avg_price.whole_yuan()).filter(|y| *y > 0),
        open_hours: shop.open_hours,
        name: shop.name,
    };
    let page = ShopPage::new(chrome, &head, &listed, |voucher| holdings.get(voucher), answer.map(|(alert, _)| alert));
    let status = answer.map(|(_, problem)| (problem.page_status(), problem.retry_after()));
    let Some((status, wait)) = status else { return Ok(page.into_response()) };
    let mut response = page.with_status(status).into_response();
    if wait > 0 {
        response.headers_mut().insert(axum::http::header::RETRY_AFTER, wait.into());
    }
    Ok(response)
}
