//! The voucher card: the ticket with its body and stub, the same on the front page, the shop page and the admin's page.

use crate::domain::ids::{OrderId, VoucherId};
use crate::domain::order::{Order, Status};
use crate::domain::sale::{Sale, SaleState};
use crate::domain::time::Millis;
use crate::i18n;
use crate::service::sales::Listed;
use crate::web::page::{Chrome, format};

/// The unit that the reader holds of a voucher.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    /// Its order.
    pub order: OrderId,
    /// The order itself, where it is known.
    pub row: Option<&'a Order>,
}

/// The answer to a click that is shown at its card.
#[derive(Debug, Clone)]
pub struct Alert {
    /// At which card.
    pub voucher: VoucherId,
    /// The code of CONTRACT, such as `SOLD_OUT` or `BUSY`.
    pub code: &'static str,
    /// When the sale begins, for `NOT_BEGUN`.
    pub begin: Option<Millis>,
    /// How long to wait, for `BUSY` and `TOO_MANY_REQUESTS`.
    pub seconds: u64,
    /// The captcha that stands before the click: its id and its question.
    pub asked: Option<(String, String)>,
}

impl Alert {
    fn words(&self, c: &Chrome) -> String {
        if self.code == "SOLD_OUT" {
            return c.t("refused-sold-out"); // the next step stands below the button already
        }
        let time = self.begin.map(|at| format::short(c, at)).unwrap_or_default();
        i18n::page_message(c.lang, self.code, &time, self.seconds, "")
    }
}

/// The stub's label over a number or a word.
pub(super) struct Count {
    pub(super) label: String,
    /// A word; empty where a countdown runs.
    pub(super) word: String,
    /// The end of the countdown and what is left of it.
    pub(super) until: Option<(String, String)>,
}

/// What the stub offers.
pub(super) enum Action {
    /// The button, live or with its reason to be off.
    Buy { label: String, off: bool },
    /// The way to the order that he holds.
    Link { label: String, href: String },
    /// Nothing is sold here.
    None,
}

/// Units, in parts around the number that the script keeps fresh.
pub(super) struct Stock {
    pub(super) left: i64,
    pub(super) total: i64,
    pub(super) low: bool,
    pub(super) before: String,
    pub(super) after: String,
    /// Before the begin: a full bar and its age would say nothing, so they are there but hidden.
    pub(super) soon: bool,
    /// When it was measured and how old it is; none where the number no longer moves.
    pub(super) age: Option<(i64, String)>,
}

/// A voucher card, worded.
pub(super) struct Card {
    pub(super) id: VoucherId,
    /// Only shown: its button does nothing and no script touches it.
    pub(super) preview: bool,
    pub(super) state: Option<SaleState>,
    pub(super) held: Option<OrderId>,
    pub(super) begin: String,
    pub(super) end: String,
    pub(super) chip: String,
    pub(super) title: String,
    /// Where the title leads; empty on the shop's own page.
    pub(super) href: String,
    pub(super) sub_title: String,
    pub(super) price: String,
    pub(super) worth: String,
    pub(super) discount: Option<String>,
    pub(super) stock: Option<Stock>,
    pub(super) rules: String,
    pub(super) count: Count,
    pub(super) alert: Option<String>,
    /// Id and question of a captcha, to be answered with the next click.
    pub(super) asked: Option<(String, String)>,
    pub(super) action: Action,
    pub(super) why: String,
}

impl Card {
    pub(super) fn new(c: &Chrome, listed: &Listed, held: Option<Held<'_>>, alert: Option<&Alert>) -> Self {
        let v = &listed.voucher;
        let fields = &v.fields;
        let at_sale = v.sale.as_ref().zip(listed.state);
        let (chip, count, action, why) = match (at_sale, held) {
            (Some((_, _)), Some(held)) => held_stub(c, held),
            (Some((sale, state)), None) => sale_stub(c, sale, state, listed.measured_at),
            (None, _) => plain_stub(c),
        };
        Self {
            id: v.id,
            preview: false,
            state: at_sale.map(|(_, state)| state),
            held: held.filter(|_| at_sale.is_some()).map(|h| h.order),
            begin: v.sale.map(|s| s.begin.rfc3339()).unwrap_or_default(),
            end: v.sale.map(|s| s.end.rfc3339()).unwrap_or_default(),
            chip,
            title: fields.title.clone(),
            href: String::new(),
            sub_title: fields.sub_title.clone(),
            price: fields.pay_value.to_string(),
            worth: c.f("worth", &[("value", &fields.actual_value)]),
            discount: format::discount_words(c.lang, fields.pay_value, fields.actual_value),
            stock: at_sale.map(|(sale, state)| stock(c, sale, state, listed)),
            rules: fields.rules.clone(),
            count,
            alert: alert.filter(|a| a.voucher == v.id).map(|a| a.words(c)),
            asked: alert.filter(|a| a.voucher == v.id).and_then(|a| a.asked.clone()),
            action,
            why,
        }
    }

    /// The word of `data-state`; empty for an everyday voucher.
    pub(super) fn state_word(&self) -> &'static str {
        self.state.map_or("", SaleState::as_str)
    }
}

fn stock(c: &Chrome, sale: &Sale, state: SaleState, listed: &Listed) -> Stock {
    let (left, total) = (listed.left.clamp(0, sale.stock_total.max(0)), sale.stock_total);
    let soon = state == SaleState::Soon;
    let low = matches!(state, SaleState::Open | SaleState::Paused) && left > 0 && left * 10 <= total;
    let (before, after) = if soon {
        (c.t("units-before"), c.t("units-after"))
    } else {
        (c.t(if low { "low-before" } else { "stock-before" }), c.f("stock-after", &[("total", &format::figure(total))]))
    };
    let age = (state != SaleState::Ended).then(|| (listed.measured_at.0, format::age(c, listed.measured_at)));
    Stock { left, total, low, before, after, soon, age }
}

type Stub = (String, Count, Action, String);

/// A label over a countdown.
fn timer(c: &Chrome, label: &str, at: Millis) -> Count {
    Count { label: c.t(label), word: String::new(), until: Some((at.rfc3339(), format::left(c.lang, c.now, at))) }
}

fn sale_stub(c: &Chrome, sale: &Sale, state: SaleState, measured: Millis) -> Stub {
    let off = |label: String| Action::Buy { label, off: true };
    let word = |label: String, word: String| Count { label, word, until: None };
    match state {
        SaleState::Soon => (
            c.t("chip-soon"),
            timer(c, "label-starts", sale.begin),
            off(c.f("buy-soon", &[("time", &format::short(c, sale.begin))])),
            c.t("why-soon"),
        ),
        SaleState::Open => {
            let why = if c.user.is_some() { why_open(c) } else { c.t("why-visitor") };
            let count = timer(c, "label-ends", sale.end);
            (c.t("chip-open"), count, Action::Buy { label: c.t("buy"), off: false }, why)
        }
        SaleState::Paused => {
            let count = word(c.t("label-paused"), c.t("word-paused"));
            (c.t("chip-paused"), count, off(c.t("chip-paused")), c.t("why-paused"))
        }
        SaleState::SoldOut => {
            let count = word(c.f("label-sold-out", &[("time", &format::exact(c, measured))]), c.t("chip-sold-out"));
            (c.t("chip-sold-out"), count, off(c.t("chip-sold-out")), c.t("why-sold-out"))
        }
        SaleState::Ended => {
            let count = word(c.t("label-ended"), format::end(c, sale.end));
            (c.t("chip-ended"), count, off(c.t("chip-ended")), c.t("why-ended"))
        }
    }
}

/// The rule of an open sale, with the pay window in whole minutes (at least one).
pub(super) fn why_open(c: &Chrome) -> String {
    c.f("why-open", &[("minutes", &pay_minutes(c))])
}

pub(super) fn pay_minutes(c: &Chrome) -> u64 {
    (c.pay_window.as_secs() / 60).max(1)
}

fn held_stub(c: &Chrome, held: Held<'_>) -> Stub {
    let status = held.row.map(|o| o.status);
    let state = status.and_then(|s| match s {
        Status::Queued => Some("held-queued"),
        Status::Pending => Some("held-pending"),
        Status::Paid => Some("held-paid"),
        Status::Refunding => Some("held-refunding"),
        _ => None,
    });
    let why = match state {
        Some(key) => c.f("why-held", &[("state", &c.t(key))]),
        None => c.t("why-held-plain"),
    };
    let deadline = held.row.filter(|o| o.status == Status::Pending).and_then(|o| o.pay_before);
    let count = match deadline {
        Some(at) => timer(c, "label-pay", at),
        None => Count { label: c.t("label-held"), word: c.t("word-held"), until: None },
    };
    let label = c.t(match status {
        Some(Status::Pending) => "go-pay",
        Some(Status::Paid) => "go-coupon",
        _ => "go-order",
    });
    (c.t("chip-held"), count, Action::Link { label, href: format!("/orders/{}", held.order) }, why)
}

fn plain_stub(c: &Chrome) -> Stub {
    let count = Count { label: c.t("label-plain"), word: c.t("word-plain"), until: None };
    (c.t("chip-plain"), count, Action::None, c.t("why-plain"))
}
