//! What a voucher that is not saved yet would look like, and what a merchant should look at before he saves it.
//!
//! Warnings, never errors: a sale that begins in the past or has no units yet may be meant.

use jiff::tz::TimeZone;

use crate::domain::ids::{ShopId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::sale::Sale;
use crate::domain::time::{Millis, parse_instant};
use crate::domain::voucher::{NewVoucher, Voucher};
use crate::service::sales::Listed;
use crate::web::page::card::Card;
use crate::web::page::voucher_form::FormText;
use crate::web::page::{Chrome, format};

const HOUR_MS: i64 = 3_600_000;
/// Stands for a price that cannot be read yet.
const NO_PRICE: &str = "–";

/// The card that buyers would see, and the warnings. What cannot be read yet is shown as if it were left out.
pub(super) fn look(c: &Chrome, text: &FormText, zone: &TimeZone) -> (Card, Vec<String>) {
    let (pay, worth) = (Fen::parse_yuan(text.pay_value.trim()).ok(), Fen::parse_yuan(text.actual_value.trim()).ok());
    let stock = text.stock.trim().parse::<i64>().ok().filter(|n| *n >= 0);
    let typed = |at: &str| parse_instant(at, zone).ok();
    let (begin_typed, end_typed) = (typed(&text.begin_time), typed(&text.end_time));
    let begin = begin_typed.unwrap_or(c.now + std::time::Duration::from_hours(1));
    let end = end_typed.filter(|end| *end > begin).unwrap_or(Millis(begin.0 + HOUR_MS));
    let sale = Sale {
        voucher: VoucherId(0),
        stock_total: stock.unwrap_or(0),
        stock_left: stock.unwrap_or(0),
        epoch: 0,
        epoch_claimed: 0,
        paused: false,
        begin,
        end,
        captcha: text.captcha,
        version: 0,
    };
    let fields = NewVoucher {
        shop: ShopId(0),
        title: if text.title.trim().is_empty() { c.t("form-untitled") } else { text.title.clone() },
        sub_title: text.sub_title.clone(),
        rules: text.rules.clone(),
        pay_value: pay.unwrap_or(Fen(0)),
        actual_value: worth.unwrap_or(Fen(0)),
    };
    let voucher = Voucher { id: VoucherId(0), fields, version: 0, sale: Some(sale) };
    let (left, state) = (sale.stock_left, Some(sale.state(c.now, sale.stock_left)));
    let mut card = Card::new(c, &Listed { voucher, left, measured_at: c.now, state }, None, None);
    card.preview = true;
    if pay.is_none() {
        NO_PRICE.clone_into(&mut card.price);
    }
    if worth.is_none() {
        card.worth = c.f("worth", &[("value", &NO_PRICE)]);
    }
    let begin = begin_typed.filter(|begin| *begin <= c.now && end_typed.is_some_and(|end| end > c.now));
    (card, minds(c, pay, worth, stock, begin))
}

/// What to look at: a price above its worth, no units, and `late`, a begin that is over while the sale is not.
pub(super) fn minds(c: &Chrome, pay: Option<Fen>, worth: Option<Fen>, stock: Option<i64>, late: Option<Millis>) -> Vec<String> {
    let mut minds = Vec::new();
    if let (Some(pay), Some(worth)) = (pay, worth)
        && pay > worth
    {
        minds.push(c.f("form-mind-price", &[("pay", &pay), ("value", &worth)]));
    }
    if stock == Some(0) {
        minds.push(c.t("form-mind-stock"));
    }
    if let Some(begin) = late {
        minds.push(c.f("form-mind-begin", &[("time", &format::short(c, begin))]));
    }
    minds
}
