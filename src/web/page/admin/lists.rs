//! The lists behind the numbers: one page for all of them.

use crate::domain::ids::UserId;
use crate::domain::order::Order;
use crate::domain::time::Millis;
use crate::domain::voucher::Voucher;
use crate::service::figures::SaleFigures;
use crate::store::{AuditLine, OutboxLine};
use crate::web::page::admin::audit::audit_line;
use crate::web::page::admin::sale::refusal;
use crate::web::page::order::chip_key;
use crate::web::page::{Chrome, format, is_response};
use askama::Template;
use axum::http::StatusCode;

/// One line of a list.
#[derive(Default)]
pub(super) struct Line {
    /// A word that decides the colour of the chip: a state of an order; empty for none.
    pub(super) status: &'static str,
    /// The chip; empty for none.
    pub(super) chip: String,
    pub(super) title: String,
    /// Where the title leads; empty for nowhere.
    pub(super) href: String,
    /// Smaller, below.
    pub(super) words: Vec<String>,
    /// Further things that it is about, with their addresses.
    pub(super) links: Vec<(String, String)>,
    /// What changed, from what to what; empty for nothing.
    pub(super) change: String,
    /// What a machine wrote; empty for nothing.
    pub(super) code: String,
    pub(super) at: String,
    pub(super) datetime: String,
    /// A number at the right.
    pub(super) count: String,
}

/// A choice above the list.
pub(super) struct Choice {
    pub(super) label: String,
    pub(super) href: String,
    pub(super) here: bool,
}

/// A list.
#[derive(Template)]
#[template(path = "admin/list.html")]
pub struct ListPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    heading: String,
    pub(super) lead: String,
    /// The voucher that the list is of: its address and title.
    of: Option<(String, String)>,
    pub(super) choices: Vec<Choice>,
    lines: Vec<Line>,
    /// What is said when there are no lines.
    pub(super) empty: String,
    older: Option<String>,
}

/// States that a list of orders can be narrowed to: the query, and the key of its label.
const NARROWED: [(&str, &str); 9] = [
    ("", "list-all"),
    ("?live=1", "list-live"),
    ("?status=QUEUED", "n-waiting"),
    ("?status=PENDING", "n-pending"),
    ("?status=PAID", "n-paid"),
    ("?status=CANCELLED&closeReason=USER", "n-cancelled"),
    ("?status=CANCELLED&closeReason=TIMEOUT", "n-timed-out"),
    ("?status=FAILED", "n-failed"),
    ("?status=REFUNDED", "n-refunded"),
];

pub(super) fn timed(c: &Chrome, at: Millis, line: Line) -> Line {
    Line { at: format::exact(c, at), datetime: at.rfc3339(), ..line }
}

impl ListPage {
    pub(super) fn new(c: Chrome, title: &str, lines: Vec<Line>) -> Self {
        let heading = c.t(title);
        let (lead, empty, choices) = (String::new(), c.t("list-empty"), Vec::new());
        Self { status: StatusCode::OK, heading, lead, of: None, choices, lines, empty, older: None, c }
    }

    fn of(mut self, voucher: &Voucher) -> Self {
        self.of = Some((format!("/admin/vouchers/{}", voucher.id), voucher.fields.title.clone()));
        self
    }

    /// Where the next page begins.
    fn then(mut self, path: &str, query: &str, next: Option<String>) -> Self {
        let sign = if query.is_empty() { '?' } else { '&' };
        self.older = next.map(|cursor| format!("{path}{query}{sign}cursor={cursor}"));
        self
    }

    /// Orders of a voucher; `query`: how they are narrowed, as in the address, without the cursor.
    #[must_use]
    pub fn orders(c: Chrome, voucher: &Voucher, orders: &[Order], query: &str, next: Option<String>) -> Self {
        let line = |order: &Order| {
            let amount = format::yuan(order.pay_amount);
            let line = Line {
                status: order.status.as_str(),
                chip: c.t(chip_key(order)),
                title: order.id.to_string(),
                href: format!("/orders/{}", order.id),
                links: vec![user_link(&c, order.user)],
                words: vec![format!("¥{amount}")],
                ..Line::default()
            };
            timed(&c, order.id.born_at(), line)
        };
        let lines = orders.iter().map(line).collect();
        let path = format!("/admin/vouchers/{}/orders", voucher.id);
        let choice = |(narrowed, key): &(&str, &str)| Choice {
            label: c.t(key),
            href: format!("{path}{narrowed}"),
            here: *narrowed == query,
        };
        let choices = NARROWED.iter().map(choice).collect();
        let mut page = Self::new(c, "list-orders", lines).of(voucher).then(&path, query, next);
        page.choices = choices;
        page
    }

    /// How often each answer but "yes" was given. They are counts: nobody's refused click is kept.
    #[must_use]
    pub fn refusals(c: Chrome, voucher: &Voucher, figures: &SaleFigures) -> Self {
        let line = |(code, n): &(String, i64)| Line {
            title: refusal(&c, code),
            code: code.clone(),
            count: format::figure(*n),
            ..Line::default()
        };
        let lines = figures.refused.iter().flatten().map(line).collect();
        let lead = c.t(if figures.refused.is_some() { "list-refusals-lead" } else { "books-unknown" });
        Self { lead, ..Self::new(c, "list-refusals", lines).of(voucher) }
    }

    /// How the units of a sale came together: the figures (none on a later page), and what moved them.
    #[must_use]
    pub fn stock(c: Chrome, voucher: &Voucher, figures: Option<&SaleFigures>, log: &[AuditLine], next: Option<i64>) -> Self {
        let part = |key: &str, n: i64| Line { title: c.t(key), count: format::figure(n), ..Line::default() };
        let mut lines = Vec::new();
        if let Some(figures) = figures {
            let n = &figures.books;
            lines.extend([part("books-i", n.total), part("books-a", n.live), part("books-d", n.left)]);
            if let Some(terms) = figures.terms() {
                lines.extend([part("books-r", terms.r), part("books-f", terms.f), part("books-u", terms.u)]);
            }
        }
        lines.extend(log.iter().map(|line| audit_line(&c, line)));
        let (lead, path) = (c.t("list-stock-lead"), format!("/admin/vouchers/{}/stock", voucher.id));
        Self { lead, ..Self::new(c, "list-stock", lines).of(voucher).then(&path, "", next.map(|n| n.to_string())) }
    }

    /// What waits in the outbox, or (`all`) what ever was there.
    #[must_use]
    pub fn outbox(c: Chrome, rows: &[OutboxLine], all: bool, of: Option<i64>, next: Option<i64>) -> Self {
        let line = |row: &OutboxLine| {
            let when = if row.done_at.is_some() { c.t("owed-done") } else { c.t("owed-next") };
            let line = Line {
                status: if row.done_at.is_some() { "PAID" } else { "REFUNDING" },
                chip: when,
                title: kind_words(&c, &row.kind),
                href: row.voucher_id.map(|id| format!("/admin/vouchers/{id}")).unwrap_or_default(),
                words: (row.attempts > 0).then(|| c.f("owed-tries", &[("n", &row.attempts)])).into_iter().collect(),
                code: row.dedupe_key.clone(),
                ..Line::default()
            };
            timed(&c, Millis(row.done_at.unwrap_or(row.next_at)), line)
        };
        let lines = rows.iter().map(line).collect();
        let choice = |key: &str, href: &str, here| Choice { label: c.t(key), href: href.to_owned(), here };
        let choices =
            vec![choice("owed-waiting", "/admin/outbox", !all && of.is_none()), choice("list-all", "/admin/outbox?all=1", all)];
        let query = match (all, of) {
            (_, Some(id)) => format!("?voucherId={id}"),
            (true, None) => String::from("?all=1"),
            (false, None) => String::new(),
        };
        let lead = c.t("owed-lead");
        let page = Self::new(c, "owed-title", lines).then("/admin/outbox", &query, next.map(|n| n.to_string()));
        Self { lead, choices, ..page }
    }

    /// The audit log.
    #[must_use]
    pub fn audit_log(c: Chrome, log: &[AuditLine], next: Option<i64>) -> Self {
        let lines = log.iter().map(|line| audit_line(&c, line)).collect();
        let lead = c.t("log-lead");
        Self { lead, ..Self::new(c, "log-title", lines).then("/admin/audit-log", "", next.map(|n| n.to_string())) }
    }
}
is_response!(ListPage);

/// A user, and the page that finds him.
pub(super) fn user_link(c: &Chrome, user: UserId) -> (String, String) {
    (c.f("list-user", &[("id", &user)]), format!("/admin/users?q={user}"))
}

/// What has to happen outside the books, in words.
pub(super) fn kind_words(c: &Chrome, kind: &str) -> String {
    let key = format!("kind-{}", kind.replace('_', "-"));
    let words = c.t(&key);
    if words == key { kind.to_owned() } else { words }
}
