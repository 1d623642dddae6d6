//! The voucher: the product. What its fields may hold; the sale of it is `sale.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ids::{ShopId, VoucherId};
use super::money::{Fen, MAX_PRICE};
use super::time::Millis;

/// The most units that one sale may hold.
pub const MAX_STOCK: i64 = 1_000_000;
/// The longest sale.
pub const MAX_SALE: Duration = Duration::from_hours(8784);

/// What is wrong with a field, to be said at that field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldError {
    /// Nothing was given where something is needed.
    Missing,
    /// Longer than `max` characters.
    TooLong {
        /// The most characters that fit.
        max: usize,
    },
    /// A control character other than a line break where lines are allowed.
    ControlCharacter,
    /// Not a whole number.
    NotANumber,
    /// Not an amount in yuan with at most two decimals.
    NotAnAmount,
    /// Outside the range, both ends included.
    OutOfRange {
        /// The least that is allowed.
        min: i64,
        /// The most that is allowed.
        max: i64,
    },
    /// Cannot be read as a time.
    NotATime,
    /// The end is not after the begin.
    EndBeforeBegin,
    /// The end is not after now.
    EndInThePast,
    /// The end is more than 366 days after the begin.
    TooLongASale,
    /// No shop has this id.
    UnknownShop,
    /// A time zone that nobody knows.
    UnknownZone,
    /// A rule of a person's field.
    Person(super::user::BadField),
}

/// Errors by the JSON name of their field.
pub type FieldErrors = BTreeMap<&'static str, FieldError>;

/// A voucher that was checked and may be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVoucher {
    /// The shop that sells it.
    pub shop: ShopId,
    /// 1–100 characters.
    pub title: String,
    /// 0–200 characters.
    pub sub_title: String,
    /// 0–2000 characters, line breaks allowed.
    pub rules: String,
    /// The price.
    pub pay_value: Fen,
    /// What it is worth in the shop.
    pub actual_value: Fen,
}

/// A sale that was checked and may be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSale {
    /// Units, 0–1,000,000.
    pub stock: i64,
    /// First instant of the sale.
    pub begin: Millis,
    /// First instant after the sale.
    pub end: Millis,
    /// A captcha is asked before the gate is.
    pub captcha: bool,
}

/// The fields as they came in, each already of its type or absent.
#[derive(Debug, Clone, Default)]
pub struct VoucherFields {
    /// `shopId`
    pub shop: Option<ShopId>,
    /// `title`
    pub title: String,
    /// `subTitle`
    pub sub_title: String,
    /// `rules`
    pub rules: String,
    /// `payValue`
    pub pay_value: Option<Fen>,
    /// `actualValue`
    pub actual_value: Option<Fen>,
}

/// A character that shows nothing or turns the line round: controls and the bidirectional overrides.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Whether a text shows nothing at all: spaces, marks without width, fillers.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    let shows_nothing = |c: char| {
        c.is_whitespace()
            || is_hidden(c)
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}')
            || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}')
            || matches!(c, '\u{3164}' | '\u{ffa0}' | '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    text.chars().all(shows_nothing)
}

fn check_text(errors: &mut FieldErrors, field: &'static str, text: &str, max: usize, lines: bool) {
    if text.chars().count() > max {
        errors.entry(field).or_insert(FieldError::TooLong { max });
    } else if text.chars().any(|c| is_hidden(c) && !(lines && matches!(c, '\n' | '\r' | '\t'))) {
        errors.entry(field).or_insert(FieldError::ControlCharacter);
    }
}

fn check_price(errors: &mut FieldErrors, field: &'static str, price: Option<Fen>) -> Fen {
    match price {
        Some(p) if (1..=MAX_PRICE.0).contains(&p.0) => p,
        Some(_) => {
            errors.entry(field).or_insert(FieldError::OutOfRange { min: 1, max: MAX_PRICE.0 });
            Fen(0)
        }
        None => {
            errors.entry(field).or_insert(FieldError::Missing);
            Fen(0)
        }
    }
}

/// Checks the texts of a voucher and adds what is wrong to `errors` (an error already there for a field stays).
pub fn check_texts(errors: &mut FieldErrors, title: &str, sub_title: &str, rules: &str) {
    if is_blank(title) {
        errors.entry("title").or_insert(FieldError::Missing);
    }
    check_text(errors, "title", title, 100, false);
    check_text(errors, "subTitle", sub_title, 200, false);
    check_text(errors, "rules", rules, 2000, true);
}

impl VoucherFields {
    /// Checks every field and adds what is wrong to `errors` (an error already there for a field stays).
    /// The result may be saved only when `errors` is empty.
    #[must_use]
    pub fn check(self, errors: &mut FieldErrors) -> NewVoucher {
        check_texts(errors, &self.title, &self.sub_title, &self.rules);
        let pay_value = check_price(errors, "payValue", self.pay_value);
        let actual_value = check_price(errors, "actualValue", self.actual_value);
        let shop = self.shop.unwrap_or_else(|| {
            errors.entry("shopId").or_insert(FieldError::Missing);
            ShopId(0)
        });
        NewVoucher { shop, title: self.title, sub_title: self.sub_title, rules: self.rules, pay_value, actual_value }
    }
}

/// Checks a sale's own fields at `now`; the result may be saved only when `errors` is empty. A begin in the past is allowed.
#[must_use]
pub fn check_sale(
    errors: &mut FieldErrors,
    stock: Option<i64>,
    begin: Option<Millis>,
    end: Option<Millis>,
    captcha: bool,
    now: Millis,
) -> NewSale {
    match stock {
        None => drop(errors.entry("stock").or_insert(FieldError::Missing)),
        Some(n) if !(0..=MAX_STOCK).contains(&n) => {
            errors.entry("stock").or_insert(FieldError::OutOfRange { min: 0, max: MAX_STOCK });
        }
        Some(_) => {}
    }
    for (field, at) in [("beginTime", begin), ("endTime", end)] {
        if at.is_none() {
            errors.entry(field).or_insert(FieldError::Missing);
        }
    }
    if let (Some(begin), Some(end)) = (begin, end) {
        if end <= begin {
            errors.entry("endTime").or_insert(FieldError::EndBeforeBegin);
        } else if end <= now {
            errors.entry("endTime").or_insert(FieldError::EndInThePast);
        } else if begin.until(end) > MAX_SALE {
            errors.entry("endTime").or_insert(FieldError::TooLongASale);
        }
    }
    NewSale { stock: stock.unwrap_or(0), begin: begin.unwrap_or_default(), end: end.unwrap_or_default(), captcha }
}

/// A voucher as it is stored, with its sale when it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voucher {
    /// Which.
    pub id: VoucherId,
    /// The fields that were saved.
    pub fields: NewVoucher,
    /// Raised by every edit; the second editor of the same version is told.
    pub version: i64,
    /// Its flash sale; none: an everyday voucher, listed and not sold here.
    pub sale: Option<super::sale::Sale>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_sale_are_checked_at_their_field() {
        let now = Millis(1_000_000);
        let day = 86_400_000;
        let cases = [
            (Some(0), 0, 2_000_000, None),
            (Some(1_000_000), 0, 2_000_000, None),
            (Some(-1), 0, 2_000_000, Some(("stock", FieldError::OutOfRange { min: 0, max: MAX_STOCK }))),
            (Some(1), 2_000_000, 2_000_000, Some(("endTime", FieldError::EndBeforeBegin))),
            (Some(1), 0, 1_000_000, Some(("endTime", FieldError::EndInThePast))),
            (Some(1), 0, 366 * day, None),
            (Some(1), 0, 366 * day + 1, Some(("endTime", FieldError::TooLongASale))),
        ];
        for (stock, begin, end, expected) in cases {
            let mut errors = FieldErrors::new();
            let _ = check_sale(&mut errors, stock, Some(Millis(begin)), Some(Millis(end)), false, now);
            assert_eq!(errors.into_iter().next(), expected);
        }
    }
}
