//! `/orders/{id}`: one order as a ticket, in every state, with its time line.

use askama::Template;
use axum::http::StatusCode;
use fast_qr::qr::QRBuilder;

use crate::domain::money::Fen;
use crate::domain::order::{CloseReason, Order, Refund, Status};
use crate::domain::voucher::Voucher;
use crate::i18n;
use crate::web::page::order_line::{Step, steps};
use crate::web::page::{Chrome, format, is_response};

/// What an order's page is made of.
#[derive(Debug, Clone, Copy)]
pub struct OrderView<'a> {
    /// The order.
    pub order: &'a Order,
    /// Its voucher, where it could be read.
    pub voucher: Option<&'a Voucher>,
    /// The name of the shop, where it could be read.
    pub shop: Option<&'a str>,
    /// While queued: about how many seconds until it is saved, where that is known.
    pub eta_seconds: Option<u64>,
    /// Whether "pay" leads anywhere and its owner is looking.
    pub can_pay: bool,
    /// Whether its owner is looking and may cancel.
    pub can_cancel: bool,
}

/// A line of the facts on the body.
struct Fact {
    label: String,
    value: String,
    /// RFC 3339 when the value is a time.
    datetime: String,
    code: bool,
}

/// One order.
#[derive(Template)]
#[template(path = "order/order.html")]
pub struct OrderPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    order: Order,
    chip: String,
    title: String,
    lead: String,
    alert: Option<String>,
    sub_title: String,
    price: String,
    worth: String,
    facts: Vec<Fact>,
    shop_link: Option<String>,
    deadline: Option<(String, String)>,
    eta_seconds: Option<u64>,
    can_pay: bool,
    can_cancel: bool,
    qr: Option<(usize, String)>,
    coupon: String,
    steps: Vec<Step>,
}

impl OrderPage {
    /// The page of an order that the reader may see.
    #[must_use]
    pub fn new(c: Chrome, view: OrderView<'_>) -> Self {
        let order = view.order.clone();
        let fields = view.voucher.map(|v| &v.fields);
        let sub = fields.map(|f| f.sub_title.as_str()).filter(|s| !s.is_empty());
        let worth = fields.map_or(String::new(), |f| match order.status {
            Status::Paid => c.f("paid-worth", &[("value", &f.actual_value)]),
            _ => c.f("worth", &[("value", &f.actual_value)]),
        });
        let pending = order.status == Status::Pending;
        let coupon = order.coupon_code.clone().filter(|_| order.status == Status::Paid).unwrap_or_default();
        Self {
            status: StatusCode::OK,
            chip: c.t(chip_key(&order)),
            title: c.t(title_key(&order)),
            lead: lead(&c, &order),
            alert: None,
            sub_title: view.shop.into_iter().chain(sub).collect::<Vec<_>>().join(" · "),
            price: order.pay_amount.to_string(),
            worth,
            facts: facts(&c, &order),
            shop_link: fields.map(|f| format!("/shop/{}", f.shop)),
            deadline: order.pay_before.filter(|_| pending).map(|at| (at.rfc3339(), format::left(c.lang, c.now, at))),
            eta_seconds: view.eta_seconds,
            can_pay: view.can_pay && pending,
            can_cancel: view.can_cancel && pending,
            qr: qr_path(&coupon),
            coupon: grouped(&coupon),
            steps: steps(&c, &order),
            order,
            c,
        }
    }

    /// The same page as the answer to a refused post (`WRONG_STATE`, `QUEUED`, `BUSY`, …).
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, seconds: u64) -> Self {
        self.status = status;
        self.alert = Some(i18n::page_message(self.c.lang, code, "", seconds, ""));
        self
    }

    fn word(&self) -> &'static str {
        self.order.status.as_str()
    }

    fn event(&self) -> &'static str {
        crate::domain::event::OrderEvent { user: self.order.user, order: self.order.clone() }.kind()
    }

    fn is(&self, word: &str) -> bool {
        self.word() == word
    }

    fn amount(&self) -> String {
        format::yuan(self.order.pay_amount)
    }

    fn pay_label(&self) -> String {
        self.c.f("stub-pay", &[("amount", &format::yuan(self.order.pay_amount))])
    }

    fn ahead_words(&self) -> Option<String> {
        self.order.ahead.map(|n| self.c.f("stub-ahead-number", &[("n", &format::figure(n))]))
    }

    fn eta_words(&self) -> Option<String> {
        self.eta_seconds.map(|s| self.c.f("stub-queued-eta", &[("seconds", &s)]))
    }

    /// The one sentence of the push for the state that the page shows.
    fn push_words(&self) -> String {
        match (self.order.status, self.order.ahead) {
            (Status::Queued, Some(n)) => self.c.f("push-order-queued", &[("n", &format::figure(n))]),
            (Status::Queued, None) => self.c.t("status-queued"),
            _ => self.c.t(&format!("push-{}", self.event().replace('.', "-"))),
        }
    }

    fn push_more(&self) -> String {
        let deadline = self.order.pay_before.filter(|_| self.is("PENDING"));
        deadline.map_or(String::new(), |at| {
            let time = format::exact(&self.c, at);
            self.c.f("push-order-created-more", &[("title", &self.order.voucher_title), ("time", &time)])
        })
    }

    fn may_buy_again(&self) -> bool {
        matches!(self.order.status, Status::Cancelled)
            || matches!(self.order.close_reason, Some(CloseReason::Lost | CloseReason::Discarded))
    }

    fn refund_due(&self) -> bool {
        self.order.refund == Some(Refund::Due)
    }

    fn is_duplicate(&self) -> bool {
        self.order.close_reason == Some(CloseReason::Duplicate)
    }

    fn money_back(&self) -> Option<String> {
        let moving = matches!(self.order.status, Status::Refunding | Status::Refunded) || self.order.refund.is_some();
        moving.then(|| self.amount())
    }
}
is_response!(OrderPage);

/// The chip's key; also the list's.
pub(super) fn chip_key(order: &Order) -> &'static str {
    match (order.status, order.refund) {
        (Status::Cancelled, Some(Refund::Due)) | (Status::Refunding, _) => "status-refunding",
        (Status::Cancelled, Some(Refund::Done)) | (Status::Refunded, _) => "status-refunded",
        (Status::Queued, _) => "status-queued",
        (Status::Pending, _) => "status-pending",
        (Status::Paid, _) => "status-paid",
        (Status::Cancelled, None) if order.close_reason == Some(CloseReason::Timeout) => "status-timeout",
        (Status::Cancelled, None) => "status-cancelled",
        (Status::Failed, _) => "status-failed",
    }
}

fn title_key(order: &Order) -> &'static str {
    match (order.status, order.refund, order.close_reason) {
        (Status::Queued, _, _) => "title-queued",
        (Status::Pending, _, _) => "title-pending",
        (Status::Paid, _, _) => "title-paid",
        (Status::Cancelled, Some(Refund::Due), _) => "title-late-due",
        (Status::Cancelled, Some(Refund::Done), _) => "title-late-done",
        (Status::Cancelled, None, Some(CloseReason::Timeout)) => "title-timeout",
        (Status::Cancelled, None, _) => "title-cancelled",
        (Status::Refunding, _, _) => "title-refunding",
        (Status::Refunded, _, _) => "title-refunded",
        (Status::Failed, _, Some(CloseReason::Lost)) => "title-lost",
        (Status::Failed, _, _) => "title-failed",
    }
}

fn lead(c: &Chrome, order: &Order) -> String {
    let amount = format::yuan(order.pay_amount);
    let deadline = order.pay_before.map(|at| format::exact(c, at)).unwrap_or_default();
    match (order.status, order.refund, order.close_reason) {
        (Status::Queued, _, _) => c.t("lead-queued"),
        (Status::Pending, _, _) => c.f("lead-pending", &[("time", &deadline)]),
        (Status::Paid, _, _) => c.t("lead-paid"),
        (Status::Cancelled, Some(Refund::Due), _) => c.f("lead-late-due", &[("amount", &amount)]),
        (Status::Cancelled, Some(Refund::Done), _) => c.f("lead-late-done", &[("amount", &amount)]),
        (Status::Cancelled, None, Some(CloseReason::Timeout)) => c.f("lead-timeout", &[("time", &deadline)]),
        (Status::Cancelled, None, _) => c.t("lead-cancelled"),
        (Status::Refunding, _, _) => c.f("lead-refunding", &[("amount", &amount)]),
        (Status::Refunded, _, _) => c.f("lead-refunded", &[("amount", &amount)]),
        (Status::Failed, _, Some(CloseReason::Lost)) => c.t("lead-lost"),
        (Status::Failed, _, Some(CloseReason::Duplicate)) => c.t("lead-duplicate"),
        (Status::Failed, _, Some(CloseReason::Discarded)) => c.t("lead-discarded"),
        (Status::Failed, _, _) => c.t("lead-sold-out"),
    }
}

fn facts(c: &Chrome, order: &Order) -> Vec<Fact> {
    let text = |key: &str, value: String| Fact { label: c.t(key), value, datetime: String::new(), code: false };
    let time = |key: &str, at: Option<_>| {
        at.map(|at| Fact { label: c.t(key), value: format::full(c, at), datetime: at.rfc3339(), code: false })
    };
    let mut facts = vec![Fact { code: true, ..text("fact-order", order.id.to_string()) }];
    facts.extend(time("fact-pay-before", order.pay_before.filter(|_| order.status == Status::Pending)));
    facts.extend(time("fact-paid-at", order.paid_at));
    if order.status == Status::Paid && order.pay_amount >= Fen(100) {
        facts.push(text("fact-credits", format!("+{}", order.pay_amount.whole_yuan())));
    }
    facts.extend(time("fact-closed-at", order.closed_at));
    facts.extend(time("fact-refunded-at", order.refunded_at));
    if order.status == Status::Failed {
        facts.push(text(
            "fact-reason",
            c.t(match order.close_reason {
                Some(CloseReason::Lost) => "reason-lost",
                Some(CloseReason::Duplicate) => "reason-duplicate",
                Some(CloseReason::Discarded) => "reason-discarded",
                _ => "reason-sold-out",
            }),
        ));
        facts.push(text("fact-charged", c.t("fact-charged-none")));
    }
    facts
}

/// A code in groups of four, as people read it out.
fn grouped(code: &str) -> String {
    code.as_bytes().chunks(4).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
}

/// The dark modules of a QR code as one path, with the side of the square in modules; none for an empty code.
fn qr_path(code: &str) -> Option<(usize, String)> {
    use std::fmt::Write as _;
    if code.is_empty() {
        return None;
    }
    let qr = QRBuilder::new(code.as_bytes()).build().ok()?;
    let mut path = String::new();
    for y in 0..qr.size {
        for x in 0..qr.size {
            if qr[y][x].value() {
                let _ = write!(path, "M{x} {y}h1v1h-1z");
            }
        }
    }
    Some((qr.size, path))
}
