//! `/admin/reports/{id}`: what became of a sale.

use askama::Template;
use axum::http::StatusCode;

use crate::service::reports::Report;
use crate::web::page::admin::Number;
use crate::web::page::admin::sale::{chip_key, window};
use crate::web::page::{Chrome, format, is_response};

/// A line of the report: its label and what it reads.
struct Fact {
    label: String,
    value: String,
    why: String,
}

/// The page.
#[derive(Template)]
#[template(path = "admin/report.html")]
pub struct ReportPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    id: String,
    name: String,
    state: &'static str,
    chip: String,
    range: String,
    as_of: String,
    /// The sale is not over: the figures go on.
    running: bool,
    facts: Vec<Fact>,
    numbers: Vec<Number>,
}

/// Thousandths as per cent: `52.4`.
fn percent(permille: i64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

impl ReportPage {
    /// The report as it is now.
    #[must_use]
    pub fn new(c: Chrome, report: &Report) -> Self {
        let (voucher, n) = (&report.voucher, &report.figures.books);
        let none = || c.t("report-none");
        let sold_out = match (report.sold_out_at, voucher.sale) {
            (Some(at), Some(sale)) => {
                let seconds = format::figure(sale.begin.until(at).as_millis().div_ceil(1000).try_into().unwrap_or(i64::MAX));
                c.f("report-sold-out-at", &[("time", &format::exact(&c, at)), ("seconds", &seconds)])
            }
            _ => c.t("report-not-sold-out"),
        };
        let fact = |key: &str, value: String, why: &str| Fact {
            label: c.t(key),
            value,
            why: if why.is_empty() { String::new() } else { c.t(why) },
        };
        let facts = vec![
            fact("report-sold-out", sold_out, ""),
            fact("report-away", report.turned_away.map_or_else(none, format::figure), "report-away-why"),
            fact("report-paid", report.paid_permille().map_or_else(none, |n| format!("{}%", percent(n))), "report-paid-why"),
            fact("report-lost", format::figure(n.timed_out), "report-lost-why"),
            fact("report-money-in", format!("¥{}", format::yuan(report.money_in)), ""),
            fact("report-money-back", format!("¥{}", format::yuan(report.money_back)), ""),
        ];
        let id = voucher.id;
        let number = |key, label, n: i64, query: &str| {
            Number::new(&c, key, label, format::figure(n), format!("/admin/vouchers/{id}/orders{query}"))
        };
        let numbers = vec![
            number("admitted", "n-admitted", report.figures.admitted(), ""),
            number("paid", "n-ever-paid", report.ever_paid(), "?status=PAID"),
            number("cancelled", "n-cancelled", n.cancelled, "?status=CANCELLED&closeReason=USER"),
            number("timedOut", "n-timed-out", n.timed_out, "?status=CANCELLED&closeReason=TIMEOUT"),
            number("failed", "n-failed", n.failed, "?status=FAILED"),
            number("refunded", "n-refunded", n.refunded, "?status=REFUNDED"),
        ];
        Self {
            status: StatusCode::OK,
            id: id.to_string(),
            name: voucher.fields.title.clone(),
            state: report.figures.state.as_str(),
            chip: c.t(chip_key(report.figures.state)),
            range: window(&c, voucher),
            as_of: c.f("admin-as-of", &[("time", &format::exact(&c, report.figures.as_of))]),
            running: voucher.sale.is_some_and(|sale| sale.end > c.now),
            facts,
            numbers,
            c,
        }
    }
}
is_response!(ReportPage);
