//! What a notice says, read strictly. Whether it may be believed is `signature.rs`'s business and comes first.

use serde::Deserialize;

use crate::domain::ids::OrderId;
use crate::domain::money::Fen;

/// The one currency of this shop.
pub const CURRENCY: &str = "CNY";

/// The type of the one notice that means something here.
pub const PAID: &str = "payment.succeeded";

/// A notice that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Money was taken.
    Paid(PaidNotice),
    /// Anything else that a provider may tell; answered and ignored.
    Other,
}

/// Money was taken for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidNotice {
    /// For which order, as the provider was told.
    pub order: OrderId,
    /// The provider's name for the transaction, 1–128 printable ASCII characters.
    pub transaction: String,
    /// How much; any number, it is compared with the order's price.
    pub amount: Fen,
    /// The currency, when it is not ours.
    pub foreign_currency: Option<String>,
}

/// The body is not what CONTRACT describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a notice")]
pub struct Malformed;

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

#[derive(Deserialize)]
struct Body {
    data: Data,
}

/// Fields that are not named here are ignored: a provider may add some. One that is named twice is not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    order_id: OrderId,
    transaction_id: String,
    amount: i64,
    currency: Option<String>,
}

/// Reads a body.
///
/// # Errors
/// [`Malformed`]: no JSON object with a `type`, or a paid notice without its fields. An order id is a decimal string, an
/// amount a whole number.
pub fn read(body: &[u8]) -> Result<Notice, Malformed> {
    let typed: Typed = serde_json::from_slice(body).map_err(|_| Malformed)?;
    if typed.r#type != PAID {
        return Ok(Notice::Other);
    }
    let Body { data } = serde_json::from_slice(body).map_err(|_| Malformed)?;
    let printable = data.transaction_id.bytes().all(|b| b.is_ascii_graphic());
    if data.transaction_id.is_empty() || data.transaction_id.len() > 128 || !printable {
        return Err(Malformed);
    }
    Ok(Notice::Paid(PaidNotice {
        order: data.order_id,
        transaction: data.transaction_id,
        amount: Fen(data.amount),
        foreign_currency: data.currency.filter(|c| c != CURRENCY),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paid_notice_is_read_and_its_currency_may_be_absent() {
        let read_one = |body: &str| read(body.as_bytes());
        let expected = PaidNotice {
            order: OrderId(610_467_444_359_694_349),
            transaction: "txn_1".into(),
            amount: Fen(1200),
            foreign_currency: None,
        };
        let plain =
            r#"{"type":"payment.succeeded","data":{"orderId":"610467444359694349","transactionId":"txn_1","amount":1200}}"#;
        let more = r#" {"id":1,"data":{"currency":"CNY","orderId":"610467444359694349","amount":1200,"transactionId":"txn_1","x":null},"type":"payment.succeeded"} "#;
        assert_eq!(read_one(plain), Ok(Notice::Paid(expected.clone())));
        assert_eq!(read_one(more), Ok(Notice::Paid(expected.clone())));
        let dollars = plain.replace("1200}", r#"1200,"currency":"USD"}"#);
        assert_eq!(read_one(&dollars), Ok(Notice::Paid(PaidNotice { foreign_currency: Some("USD".into()), ..expected })));
        assert_eq!(read_one(r#"{"type":"payment.failed"}"#), Ok(Notice::Other));
    }

    #[test]
    fn anything_else_is_malformed() {
        let data = |data: &str| format!(r#"{{"type":"payment.succeeded","data":{data}}}"#);
        let texts = [
            String::new(),
            "{".into(),
            "[]".into(),
            "null".into(),
            "{}".into(),
            r#"{"type":1}"#.into(),
            r#"{"type":"payment.succeeded"}"#.into(),
            r#"{"type":"payment.succeeded","type":"x"}"#.into(),
            data("{}"),
            data("[]"),
            data(r#"{"orderId":5,"transactionId":"t","amount":1}"#),
            data(r#"{"orderId":"05","transactionId":"t","amount":1}"#),
            data(r#"{"orderId":"-5","transactionId":"t","amount":1}"#),
            data(r#"{"orderId":"5","transactionId":"","amount":1}"#),
            data(r#"{"orderId":"5","transactionId":"a b","amount":1}"#),
            data(r#"{"orderId":"5","transactionId":7,"amount":1}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":"1"}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":1.0}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":1e3}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":9223372036854775808}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":null}"#),
            data(r#"{"orderId":"5","transactionId":"t"}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":1,"amount":2}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":1,"currency":5}"#),
            data(r#"{"orderId":"5","transactionId":"t","amount":1}"#) + "x",
            "\u{feff}".to_owned() + &data(r#"{"orderId":"5","transactionId":"t","amount":1}"#),
            "[".repeat(100_000),
        ];
        for text in texts {
            assert_eq!(read(text.as_bytes()), Err(Malformed), "{}", &text[..text.len().min(200)]);
        }
        assert_eq!(read(b"{\"type\":\"\xff\"}"), Err(Malformed));
    }
}
