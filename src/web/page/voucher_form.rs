//! `/admin/vouchers/new`: the form that makes a voucher and its sale.

use askama::Template;
use axum::http::StatusCode;
use jiff::tz::TimeZone;

use crate::domain::ids::ShopId;
use crate::domain::money::Fen;
use crate::domain::voucher::FieldErrors;
use crate::i18n;
use crate::web::page::form::{Field, summary};
use crate::web::page::{Chrome, format, is_response};

/// What was typed, as it was typed.
#[derive(Debug, Clone, Default)]
pub struct FormText {
    /// `formId`: the same on every submit of one form, so that two of them make one voucher.
    pub form_id: String,
    /// `timeZone`: the zone of the two times; the shop's where it is empty.
    pub time_zone: String,
    /// `shopId`
    pub shop_id: String,
    /// `title`
    pub title: String,
    /// `subTitle`
    pub sub_title: String,
    /// `rules`
    pub rules: String,
    /// `payValue`, in yuan
    pub pay_value: String,
    /// `actualValue`, in yuan
    pub actual_value: String,
    /// `stock`
    pub stock: String,
    /// `beginTime`, as `datetime-local` writes it
    pub begin_time: String,
    /// `endTime`, as `datetime-local` writes it
    pub end_time: String,
}

/// One choice of the shop list.
struct ShopChoice {
    id: String,
    name: String,
    chosen: bool,
}

/// The form.
#[derive(Template)]
#[template(path = "admin/voucher_form.html")]
pub struct VoucherFormPage {
    /// 200, or what a refusal asks for.
    pub status: StatusCode,
    c: Chrome,
    form_id: String,
    time_zone: String,
    zone_words: String,
    zone_error: Option<String>,
    alert: Option<String>,
    mind: Option<String>,
    shops: Vec<ShopChoice>,
    shop: Field,
    title: Field,
    sub_title: Field,
    rules: Field,
    pay_value: Field,
    actual_value: Field,
    stock: Field,
    begin_time: Field,
    end_time: Field,
}

impl VoucherFormPage {
    /// The form with what was typed (nothing but a fresh `form_id` at first) and what is wrong with it; 422 when anything is.
    #[must_use]
    pub fn new(c: Chrome, shops: &[(ShopId, String)], text: &FormText, errors: &FieldErrors) -> Self {
        let field = |name, value: &str| Field::new(&c, name, value, errors);
        let typed = TimeZone::get(&text.time_zone).ok().filter(|_| !text.time_zone.is_empty());
        let zone = typed.unwrap_or_else(|| c.zone.clone());
        let zone_words = zone_words(&c, &zone);
        let choice = |(id, name): &(ShopId, String)| ShopChoice {
            chosen: id.to_string() == text.shop_id,
            id: id.to_string(),
            name: name.clone(),
        };
        Self {
            status: if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY },
            form_id: text.form_id.clone(),
            time_zone: zone.iana_name().unwrap_or("UTC").to_owned(),
            zone_words,
            zone_error: field("timeZone", "").error,
            alert: summary(&c, errors),
            mind: mind(&c, text),
            shops: shops.iter().map(choice).collect(),
            shop: field("shopId", &text.shop_id),
            title: field("title", &text.title),
            sub_title: field("subTitle", &text.sub_title),
            rules: field("rules", &text.rules),
            pay_value: field("payValue", &text.pay_value),
            actual_value: field("actualValue", &text.actual_value),
            stock: field("stock", &text.stock),
            begin_time: field("beginTime", &text.begin_time),
            end_time: field("endTime", &text.end_time),
            c,
        }
    }

    /// The form again with the sentence of `code` (`BUSY`, …), all values kept.
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, seconds: u64) -> Self {
        self.status = status;
        self.alert = Some(i18n::page_message(self.c.lang, code, "", seconds, ""));
        self
    }
}
is_response!(VoucherFormPage);

fn zone_words(c: &Chrome, zone: &TimeZone) -> String {
    let (name, offset) = (format::zone_name(c.lang, zone), format::offset(zone, c.now));
    c.f("form-zone-server", &[("zone", &name), ("offset", &offset)])
}

/// A price above its worth may be meant, but is more often two fields swapped.
fn mind(c: &Chrome, text: &FormText) -> Option<String> {
    let (pay, value) = (Fen::parse_yuan(&text.pay_value).ok()?, Fen::parse_yuan(&text.actual_value).ok()?);
    (pay > value).then(|| c.f("form-mind-price", &[("pay", &pay), ("value", &value)]))
}
