//! `/admin/vouchers/new`: the form that makes a voucher and its sale.

use askama::Template;
use axum::http::StatusCode;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::domain::ids::ShopId;
use crate::domain::time::{Millis, parse_instant};
use crate::domain::voucher::{FieldErrors, Voucher};
use crate::i18n;
use crate::web::page::card::{Action, Card};
use crate::web::page::form::{Field, summary};
use crate::web::page::{Chrome, format, is_response, voucher_look};

/// How `datetime-local` writes a time.
const INPUT_TIME: &str = "%Y-%m-%dT%H:%M";
/// A fresh form offers a sale of so many units and hours.
const UNITS: i64 = 100;
const HOURS: i64 = 2;
/// A begin that is offered lies at least so far ahead: the form has to be filled in first.
const AHEAD_MS: i64 = 10 * 60_000;

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
    /// `captcha`: the box is ticked
    pub captcha: bool,
}

impl FormText {
    /// What a fresh form offers: a round number of units, from the next full hour in `zone` on.
    #[must_use]
    pub fn fresh(now: Millis, zone: &TimeZone) -> Self {
        let first = Millis(now.0 + AHEAD_MS).in_zone(zone);
        let past_hour = i64::from(first.minute()) * 60 + i64::from(first.second());
        let begin = Millis((now.0 + AHEAD_MS) / 1_000 * 1_000 + if past_hour == 0 { 0 } else { (3_600 - past_hour) * 1_000 });
        Self { stock: UNITS.to_string(), ..Self::default() }.with_window(begin, HOURS * 3_600_000, zone)
    }

    /// The form of an earlier voucher once more. Its sale is offered for the next time that the clock shows its begin.
    #[must_use]
    pub fn copy_of(voucher: &Voucher, now: Millis, zone: &TimeZone) -> Self {
        let fields = &voucher.fields;
        let copy = Self {
            shop_id: fields.shop.to_string(),
            title: fields.title.clone(),
            sub_title: fields.sub_title.clone(),
            rules: fields.rules.clone(),
            pay_value: fields.pay_value.to_string(),
            actual_value: fields.actual_value.to_string(),
            ..Self::fresh(now, zone)
        };
        let Some(sale) = voucher.sale else { return copy };
        let today = DateTime::from_parts(now.in_zone(zone).date(), sale.begin.in_zone(zone).time());
        let begin = instant(today, zone).filter(|at| at.0 > now.0 + AHEAD_MS);
        let begin = begin.or_else(|| instant(today.tomorrow().ok()?, zone)).unwrap_or(Millis(now.0 + 86_400_000));
        let copy = Self { stock: sale.stock_total.to_string(), captcha: sale.captcha, ..copy };
        copy.with_window(begin, sale.end.0 - sale.begin.0, zone)
    }

    fn with_window(self, begin: Millis, lasts_ms: i64, zone: &TimeZone) -> Self {
        let text = |at: Millis| at.in_zone(zone).strftime(INPUT_TIME).to_string();
        Self { begin_time: text(begin), end_time: text(Millis(begin.0 + lasts_ms)), ..self }
    }
}

fn instant(at: DateTime, zone: &TimeZone) -> Option<Millis> {
    zone.to_timestamp(at).ok().map(|t| Millis(t.as_millisecond()))
}

/// One choice of a list.
struct Choice {
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
    /// The zone is the one that was sent with what was typed: it stays, whatever browser shows the form now.
    zone_kept: bool,
    zone_words: String,
    zone_error: Option<String>,
    alert: Option<String>,
    /// The fields with something to mend: their input and their label.
    wrong: Vec<(&'static str, String)>,
    look: Card,
    minds: Vec<String>,
    copies: Vec<Choice>,
    copied: Option<String>,
    shops: Vec<Choice>,
    shop: Field,
    title: Field,
    sub_title: Field,
    rules: Field,
    pay_value: Field,
    actual_value: Field,
    stock: Field,
    begin_time: Field,
    end_time: Field,
    /// The instants of the two times in milliseconds, where they are an offer that another zone may write differently.
    begin_at: Option<i64>,
    end_at: Option<i64>,
    captcha: bool,
}

/// The fields in their order on the page, with their labels.
const LABELS: [(&str, &str); 9] = [
    ("shopId", "form-shop"),
    ("title", "form-title-field"),
    ("subTitle", "form-sub-title"),
    ("payValue", "form-pay-value"),
    ("actualValue", "form-actual-value"),
    ("rules", "form-rules"),
    ("stock", "form-stock"),
    ("beginTime", "form-begin"),
    ("endTime", "form-end"),
];

impl VoucherFormPage {
    /// The form with what was typed (or what is offered at first, with a fresh `form_id`) and what is wrong with it; 422
    /// when anything is.
    #[must_use]
    pub fn new(c: Chrome, shops: &[(ShopId, String)], text: &FormText, errors: &FieldErrors) -> Self {
        let field = |name, value: &str| Field::new(&c, name, value, errors);
        let typed = TimeZone::get(&text.time_zone).ok().filter(|_| !text.time_zone.is_empty());
        let zone_kept = typed.is_some();
        let zone = typed.unwrap_or_else(|| c.zone.clone());
        let at = |typed: &str| parse_instant(typed, &zone).ok().filter(|_| !zone_kept).map(|at| at.0);
        let choice = |(id, name): &(ShopId, String)| Choice {
            chosen: id.to_string() == text.shop_id,
            id: id.to_string(),
            name: name.clone(),
        };
        let (look, minds) = voucher_look::look(&c, text, &zone);
        Self {
            status: if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY },
            form_id: text.form_id.clone(),
            time_zone: zone.iana_name().unwrap_or("UTC").to_owned(),
            zone_kept,
            zone_words: zone_words(&c, &zone),
            zone_error: field("timeZone", "").error,
            alert: summary(&c, errors),
            wrong: LABELS.iter().filter(|(name, _)| errors.contains_key(name)).map(|(name, key)| (*name, c.t(key))).collect(),
            look,
            minds,
            copies: Vec::new(),
            copied: None,
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
            begin_at: at(&text.begin_time),
            end_at: at(&text.end_time),
            captcha: text.captcha,
            c,
        }
    }

    /// Offers earlier vouchers to copy; `from`: the one that the form holds now.
    #[must_use]
    pub fn with_copies(mut self, earlier: &[Voucher], from: Option<&Voucher>) -> Self {
        let c = &self.c;
        let choice = |voucher: &Voucher| Choice {
            id: voucher.id.to_string(),
            name: match voucher.sale {
                Some(sale) => format!("{} · {}", voucher.fields.title, format::short(c, sale.begin)),
                None => voucher.fields.title.clone(),
            },
            chosen: from.is_some_and(|v: &Voucher| v.id == voucher.id),
        };
        self.copies = earlier.iter().map(choice).collect();
        self.copied = from.map(|v| c.f("form-copied", &[("title", &v.fields.title)]));
        self
    }

    /// The form as a preview was asked for: nothing was to be saved, so nothing was refused.
    #[must_use]
    pub fn previewed(mut self) -> Self {
        self.status = StatusCode::OK;
        self
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
