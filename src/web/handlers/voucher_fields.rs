//! The fields of a voucher and of its sale, read alike from JSON and from the form.

use jiff::tz::TimeZone;

use crate::domain::ids::{MAX_JSON_ID, ShopId};
use crate::domain::voucher::{FieldError, NewSale, NewVoucher, VoucherFields, check_sale};
use crate::web::error::Problem;
use crate::web::fields::Fields;
use crate::web::state::AppState;

/// The names of an everyday voucher's fields.
pub const VOUCHER: &[&str] = &["shopId", "title", "subTitle", "rules", "payValue", "actualValue"];
/// The names of a sale's fields, its voucher's included.
pub const SALE: &[&str] =
    &["shopId", "title", "subTitle", "rules", "payValue", "actualValue", "stock", "beginTime", "endTime", "captcha"];

/// Reads the voucher's fields; what is wrong is in `fields.errors`, and then the result may not be saved.
pub async fn voucher(state: &AppState, fields: &mut Fields) -> Result<NewVoucher, Problem> {
    let shop = fields.integer("shopId");
    if shop.is_some_and(|id| !(1..=MAX_JSON_ID).contains(&id)) {
        fields.errors.insert("shopId", FieldError::UnknownShop);
    }
    let read = VoucherFields {
        shop: shop.map(ShopId),
        title: fields.text("title")?.unwrap_or_default().to_owned(),
        sub_title: fields.text("subTitle")?.unwrap_or_default().to_owned(),
        rules: fields.text("rules")?.unwrap_or_default().to_owned(),
        pay_value: fields.amount("payValue"),
        actual_value: fields.amount("actualValue"),
    };
    let voucher = read.check(&mut fields.errors);
    if !fields.errors.contains_key("shopId") && state.shops.one(voucher.shop).await?.is_none() {
        fields.errors.insert("shopId", FieldError::UnknownShop);
    }
    Ok(voucher)
}

/// Reads the sale's fields, as [`voucher`] does. A form's times are in its own `timeZone`.
pub fn sale(state: &AppState, fields: &mut Fields) -> Result<NewSale, Problem> {
    let zone = match fields.typed("timeZone") {
        "" => state.zone.clone(),
        name => TimeZone::get(name).unwrap_or_else(|_| {
            fields.errors.insert("timeZone", FieldError::UnknownZone);
            state.zone.clone()
        }),
    };
    let (stock, begin, end) = (fields.integer("stock"), fields.instant("beginTime", &zone), fields.instant("endTime", &zone));
    let captcha = fields.switch("captcha")?;
    Ok(check_sale(&mut fields.errors, stock, begin, end, captcha, state.clock.now()))
}

/// The key that makes a repeated creation one: 1–200 visible ASCII characters; none: every call makes a new one.
pub fn idempotency_key(text: Option<&str>) -> Result<Option<&str>, Problem> {
    match text {
        None | Some("") => Ok(None),
        Some(key) if key.len() <= 200 && key.bytes().all(|b| b.is_ascii_graphic()) => Ok(Some(key)),
        Some(_) => Err(Problem::Malformed),
    }
}
