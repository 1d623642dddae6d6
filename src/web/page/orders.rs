//! `/orders`: my orders, newest first.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::order::{CloseReason, Order, Refund, Status};
use crate::web::page::order::chip_key;
use crate::web::page::{Chrome, format, is_response};

/// One line of the list.
struct Line {
    id: String,
    status: &'static str,
    version: i64,
    chip: String,
    title: String,
    amount: String,
    /// Where it stands, in a few words.
    words: String,
    /// A countdown after the words.
    deadline: Option<(String, String)>,
    at: String,
    datetime: String,
    link: String,
    /// The one thing to do now.
    go: bool,
}

/// The list.
#[derive(Template)]
#[template(path = "order/orders.html")]
pub struct OrdersPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    lines: Vec<Line>,
    older: Option<String>,
}

impl OrdersPage {
    /// `orders`, newest first; `next`: the cursor of the page after this one.
    #[must_use]
    pub fn new(c: Chrome, orders: &[Order], next: Option<&str>) -> Self {
        let lines = orders.iter().map(|order| line(&c, order)).collect();
        // A cursor is ours, but a stray character must not change the query around it.
        let clean = |t: &&str| t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'='));
        Self { status: StatusCode::OK, c, lines, older: next.filter(clean).map(|t| format!("/orders?cursor={t}")) }
    }
}
is_response!(OrdersPage);

fn line(c: &Chrome, order: &Order) -> Line {
    let (words, link) = words(c, order);
    let deadline = order.pay_before.filter(|_| order.status == Status::Pending);
    Line {
        id: order.id.to_string(),
        status: order.status.as_str(),
        version: order.version,
        chip: c.t(chip_key(order)),
        title: order.voucher_title.clone(),
        amount: format::yuan(order.pay_amount),
        words,
        deadline: deadline.map(|at| (at.rfc3339(), format::left(c.lang, c.now, at))),
        at: format::exact(c, order.id.born_at()),
        datetime: order.id.born_at().rfc3339(),
        link: c.t(link),
        go: order.status == Status::Pending,
    }
}

fn words(c: &Chrome, order: &Order) -> (String, &'static str) {
    let amount = format::yuan(order.pay_amount);
    match (order.status, order.refund) {
        (Status::Queued, _) => match order.ahead {
            Some(n) => (c.f("list-ahead", &[("n", &format::figure(n))]), "list-progress"),
            None => (c.t("list-queued"), "list-progress"),
        },
        (Status::Pending, _) => (c.t("list-pay-within"), "list-pay"),
        (Status::Paid, _) => (c.t("list-paid"), "list-coupon"),
        (Status::Cancelled, Some(Refund::Due)) | (Status::Refunding, _) => {
            (c.f("line-refunding", &[("amount", &amount)]), "list-refund")
        }
        (Status::Cancelled, Some(Refund::Done)) | (Status::Refunded, _) => {
            (c.f("line-refunded", &[("amount", &amount)]), "list-refund")
        }
        (Status::Cancelled, None) => match order.pay_before.filter(|_| order.close_reason == Some(CloseReason::Timeout)) {
            Some(at) => (c.f("list-timeout", &[("time", &format::exact(c, at))]), "list-order"),
            None => (c.t("list-cancelled"), "list-order"),
        },
        (Status::Failed, _) => (c.t("list-failed"), "list-reason"),
    }
}
