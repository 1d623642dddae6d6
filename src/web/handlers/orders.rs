//! Orders, as JSON and as pages. Somebody else's order is as unknown as one that never was.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;

use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::domain::order::Order;
use crate::domain::payment::PaymentState;
use crate::push::order_json::OrderJson;
use crate::service::orders::{Asker, Page};
use crate::store::Payment;
use crate::web::error::Problem;
use crate::web::extract::{Frame, LoggedIn, PathId, Who, is_admin_now};
use crate::web::fields::{Fields, QueryFields};
use crate::web::identify::Visitor;
use crate::web::page::{Chrome, OrderPage, OrderView, OrdersPage};
use crate::web::reply;
use crate::web::state::AppState;

fn cursor(before: OrderId) -> String {
    BASE64URL_NOPAD.encode(before.to_string().as_bytes())
}

fn read_cursor(text: &str) -> Result<Option<OrderId>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| Problem::Malformed)?;
    let id = std::str::from_utf8(&bytes).ok().and_then(|t| t.parse().ok());
    id.map(Some).ok_or(Problem::Malformed)
}

fn limit(fields: &mut Fields) -> Result<u32, Problem> {
    let limit = fields.integer("limit").unwrap_or(20);
    let limit = u32::try_from(limit).ok().filter(|n| (1..=100).contains(n) && fields.errors.is_empty());
    limit.ok_or(Problem::Malformed)
}

/// The order as this visitor may see it.
async fn find(state: &AppState, id: OrderId, visitor: &Visitor, ticket: Option<&str>) -> Result<Order, Problem> {
    let user = visitor.user();
    let admin = match user {
        Some(user) => is_admin_now(state, user).await?,
        None => false,
    };
    let asker = Asker { user: user.map(|u| u.id), admin, ticket };
    let found = state.orders.find(id, asker).await?;
    match (found, visitor) {
        (Some(order), _) => Ok(order),
        // It may well be his.
        (None, Visitor::CannotTell) => Err(Problem::Busy(String::from("sessions cannot be asked"))),
        (None, _) => Err(Problem::NotFound),
    }
}

#[derive(Serialize)]
struct WithPayments<'a> {
    #[serde(flatten)]
    order: OrderJson<'a>,
    payments: Vec<PaymentJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentJson<'a> {
    transaction_id: &'a str,
    amount: Fen,
    state: &'static str,
}

impl<'a> From<&'a Payment> for PaymentJson<'a> {
    fn from(p: &'a Payment) -> Self {
        Self { transaction_id: &p.transaction, amount: p.amount, state: p.state.as_str() }
    }
}

#[derive(Serialize)]
struct List<'a> {
    items: Vec<OrderJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `GET /api/voucher-order/{id}[?ticket=]`
pub async fn one(
    State(state): State<AppState>,
    Who(visitor): Who,
    PathId(id): PathId<OrderId>,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let ticket = Some(query.typed("ticket")).filter(|t| !t.is_empty());
    let order = find(&state, id, &visitor, ticket).await?;
    let payments = state.store.payments_of(id).await?;
    // Money that waits for its order's row is not this order's yet.
    let payments = payments.iter().filter(|p| p.state != PaymentState::Early).map(PaymentJson::from).collect();
    Ok(reply::ok(WithPayments { order: OrderJson::from(&order), payments }))
}

async fn page_of(state: &AppState, user: crate::domain::ids::UserId, mut query: Fields) -> Result<Page, Problem> {
    let limit = limit(&mut query)?;
    let before = read_cursor(query.text("cursor")?.unwrap_or_default())?;
    Ok(state.orders.list(user, before, limit).await?)
}

/// `GET /api/voucher-order`
pub async fn list(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let page = page_of(&state, user.id, query).await?;
    let items = page.items.iter().map(OrderJson::from).collect();
    Ok(reply::ok(List { items, next: page.next.map(cursor) }))
}

/// `/orders`
pub async fn list_page(
    State(state): State<AppState>,
    LoggedIn(user): LoggedIn,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    let page = page_of(&state, user.id, query).await?;
    Ok(OrdersPage::new(chrome, &page.items, page.next.map(cursor).as_deref()).into_response())
}

/// `/orders/{id}`
pub async fn one_page(
    State(state): State<AppState>,
    Who(visitor): Who,
    PathId(id): PathId<OrderId>,
    Frame(chrome): Frame,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    if query.typed("ticket").is_empty() {
        LoggedIn::of(visitor.clone())?;
    }
    let ticket = Some(query.typed("ticket")).filter(|t| !t.is_empty());
    Ok(page_of_one(&state, &visitor, id, ticket, chrome).await?.into_response())
}

/// The page of the order `id` as this visitor may see it.
pub(super) async fn page_of_one(
    state: &AppState,
    visitor: &Visitor,
    id: OrderId,
    ticket: Option<&str>,
    chrome: Chrome,
) -> Result<OrderPage, Problem> {
    let order = find(state, id, visitor, ticket).await?;
    // The rest is decoration: the order is shown also when it cannot be read.
    let listed = state.sales.one(order.voucher).await.ok().flatten();
    let voucher = listed.map(|l| l.voucher);
    let shop = match &voucher {
        Some(v) => state.shops.one(v.fields.shop).await.ok().flatten(),
        None => None,
    };
    let is_owner = visitor.user().is_some_and(|user| user.id == order.user);
    let view = OrderView {
        order: &order,
        voucher: voucher.as_ref(),
        shop: shop.as_ref().map(|s| s.name.as_str()),
        eta_seconds: state.orders.seconds_until_saved(&order).await,
        can_pay: is_owner,
        can_cancel: is_owner,
    };
    Ok(OrderPage::new(chrome, view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_back_as_it_came_and_a_bad_one_is_malformed() {
        let id = OrderId(610_467_444_359_694_349);
        assert_eq!(read_cursor(&cursor(id)).unwrap(), Some(id));
        assert_eq!(read_cursor("").unwrap(), None);
        for bad in ["x", "%", "MDE", &BASE64URL_NOPAD.encode(b"-1")] {
            assert!(read_cursor(bad).is_err(), "{bad}");
        }
    }
}
