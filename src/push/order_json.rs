//! An order as JSON: the one shape that API and socket share, and the socket's messages around it.
//!
//! A field without a value is left out. Ids of orders are strings, money is fen, times are RFC 3339.

use serde::Serialize;

use crate::domain::event::OrderEvent;
use crate::domain::ids::{OrderId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::order::{CloseReason, Order, Refund};
use crate::domain::sale::SaleState;
use crate::domain::time::Millis;

/// The order object of API and socket.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderJson<'a> {
    id: OrderId,
    voucher_id: VoucherId,
    voucher_title: &'a str,
    status: &'static str,
    version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<i64>,
    pay_amount: Fen,
    created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pay_before: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refunded_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    close_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coupon_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund: Option<&'static str>,
}

impl<'a> From<&'a Order> for OrderJson<'a> {
    fn from(o: &'a Order) -> Self {
        Self {
            id: o.id,
            voucher_id: o.voucher,
            voucher_title: &o.voucher_title,
            status: o.status.as_str(),
            version: o.version,
            ahead: o.ahead,
            pay_amount: o.pay_amount,
            created_at: o.created_at,
            pay_before: o.pay_before,
            paid_at: o.paid_at,
            closed_at: o.closed_at,
            refunded_at: o.refunded_at,
            close_reason: o.close_reason.map(CloseReason::as_str),
            coupon_code: o.coupon_code.as_deref(),
            refund: o.refund.map(Refund::as_str),
        }
    }
}

/// One change of an order, ready to be put into a message: rendered where it happened, once.
#[must_use]
pub fn order_text(event: &OrderEvent) -> String {
    text(&OrderJson::from(&event.order))
}

/// `{"type":KIND,"order":ORDER,"serverTime":NOW}` around an order that [`order_text`] rendered.
#[must_use]
pub fn order_message(kind: &str, order_text: &str, now: Millis) -> String {
    format!(r#"{{"type":"{kind}","order":{order_text},"serverTime":{}}}"#, now.0)
}

/// The snapshot: the orders that a socket needs after it connected or asked.
#[must_use]
pub fn snapshot_message(orders: &[Order], now: Millis) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Snapshot<'a> {
        r#type: &'static str,
        orders: Vec<OrderJson<'a>>,
        server_time: i64,
    }
    text(&Snapshot { r#type: "snapshot", orders: orders.iter().map(OrderJson::from).collect(), server_time: now.0 })
}

/// Units left of a watched voucher, as measured at `as_of`.
#[must_use]
pub fn stock_message(voucher: VoucherId, stock: i64, as_of: Millis, now: Millis) -> String {
    format!(r#"{{"type":"voucher.stock","voucherId":{voucher},"stock":{stock},"asOf":"{as_of}","serverTime":{}}}"#, now.0)
}

/// The state and window of a watched sale.
#[must_use]
pub fn sale_message(voucher: VoucherId, state: SaleState, begin: Millis, end: Millis, now: Millis) -> String {
    format!(
        r#"{{"type":"voucher.sale","voucherId":{voucher},"state":"{}","beginTime":"{begin}","endTime":"{end}","serverTime":{}}}"#,
        state.as_str(),
        now.0
    )
}

/// An answer to a message that was not understood.
#[must_use]
pub fn malformed_message(now: Millis) -> String {
    format!(r#"{{"type":"error","code":"MALFORMED","serverTime":{}}}"#, now.0)
}

fn text(value: &impl Serialize) -> String {
    // Strings, numbers and fixed names only: nothing here can fail to serialize.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::UserId;
    use crate::domain::order::Status;

    fn order() -> Order {
        Order {
            id: OrderId(610_467_444_359_694_349),
            user: UserId(1),
            voucher: VoucherId(10),
            voucher_title: String::from("<script>\"50\""),
            status: Status::Failed,
            version: 1,
            ahead: None,
            pay_amount: Fen(4900),
            epoch: 1,
            created_at: Millis(1_783_123_200_000),
            pay_before: None,
            paid_at: None,
            closed_at: Some(Millis(1_783_123_200_001)),
            refunded_at: None,
            close_reason: Some(CloseReason::Lost),
            coupon_code: None,
            refund: None,
        }
    }

    #[test]
    fn an_order_is_told_with_a_string_id_and_without_empty_fields() {
        let event = OrderEvent { user: UserId(1), order: order() };
        let message = order_message(event.kind(), &order_text(&event), Millis(7));
        let read: serde_json::Value = serde_json::from_str(&message).unwrap();
        assert_eq!(read["type"], "order.failed");
        assert_eq!(read["serverTime"], 7);
        assert_eq!(read["order"]["id"], "610467444359694349");
        assert_eq!(read["order"]["closeReason"], "LOST");
        assert_eq!(read["order"]["createdAt"], "2026-07-04T00:00:00.000Z");
        assert!(read["order"].get("paidAt").is_none() && read["order"].get("ahead").is_none());
    }

    #[test]
    fn every_message_is_json_with_a_type_and_the_servers_time() {
        let messages = [
            snapshot_message(&[order()], Millis(7)),
            stock_message(VoucherId(10), 3, Millis(5), Millis(7)),
            sale_message(VoucherId(10), SaleState::SoldOut, Millis(1), Millis(2), Millis(7)),
            malformed_message(Millis(7)),
        ];
        for message in messages {
            let read: serde_json::Value = serde_json::from_str(&message).unwrap();
            assert!(read["type"].is_string() && read["serverTime"] == 7, "{message}");
        }
    }
}
