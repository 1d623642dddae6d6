//! One sale of the control room: its books first, then what became of everybody who was admitted, then who was refused.

use askama::Template;

use crate::domain::sale::SaleState;
use crate::domain::voucher::Voucher;
use crate::service::figures::{Books as Gate, SaleFigures};
use crate::web::page::admin::{Number, Part};
use crate::web::page::{Chrome, format};

/// A sale as the control room shows it.
#[derive(Debug, Clone, Copy)]
pub struct SaleView<'a> {
    /// The voucher.
    pub voucher: &'a Voucher,
    /// Its figures.
    pub figures: &'a SaleFigures,
}

/// The two equations, worded.
pub(super) struct Books {
    i: String,
    d: String,
    a: String,
    r: String,
    f: String,
    u: String,
    /// The gate's half is known.
    known: bool,
    /// The word of `data-balanced`.
    balanced: &'static str,
    sql_sign: &'static str,
    gate_sign: &'static str,
    mark: &'static str,
    verdict: String,
    tone: &'static str,
    /// What it means and what to do; empty when all is well.
    why: String,
}

/// The part `sale-ID`.
#[derive(Template)]
#[template(path = "admin/part_sale.html")]
pub(super) struct SalePart {
    c: Chrome,
    id: String,
    title: String,
    state: &'static str,
    chip: String,
    window: String,
    books: Books,
    numbers: Vec<Number>,
    refused: Vec<Number>,
    refused_known: bool,
}

/// The key of a state's chip.
pub(super) fn chip_key(state: SaleState) -> &'static str {
    match state {
        SaleState::Soon => "chip-soon",
        SaleState::Open => "chip-open",
        SaleState::Paused => "chip-paused",
        SaleState::SoldOut => "chip-sold-out",
        SaleState::Ended => "chip-ended",
    }
}

fn sign(equal: bool) -> &'static str {
    if equal { "=" } else { "≠" }
}

/// Begin and end in words.
pub(super) fn window(c: &Chrome, voucher: &Voucher) -> String {
    let Some(sale) = voucher.sale else { return String::new() };
    let (begin, end) = format::window(c, sale.begin, sale.end);
    c.f("voucher-range", &[("begin", &begin), ("end", &end)])
}

/// Units that the gate holds beyond what the books leave it; none: it is not known, or all is well.
pub(super) fn drift(figures: &SaleFigures) -> Option<i64> {
    let terms = figures.terms()?;
    Some(terms.r + terms.f + terms.u - figures.books.left).filter(|n| *n != 0)
}

/// What the books say, in one sentence, and its tone.
pub(super) fn verdict(c: &Chrome, figures: &SaleFigures) -> (String, &'static str) {
    match (figures.balanced(), drift(figures)) {
        (Some(false), _) if !figures.books.books_balance() => (c.t("books-bad-sql"), "bad"),
        (Some(false), Some(more)) if more > 0 => (c.f("books-bad", &[("n", &format::figure(more))]), "bad"),
        (Some(false), Some(less)) => (c.f("books-bad-less", &[("n", &format::figure(-less))]), "bad"),
        (Some(false), None) => (c.t("books-bad-gate"), "bad"),
        (Some(true), _) => (c.t("books-good"), "good"),
        (None, _) => (c.t("books-unknown"), "warn"),
    }
}

fn books(c: &Chrome, figures: &SaleFigures) -> Books {
    let (n, terms) = (&figures.books, figures.terms());
    let shown = |of: Option<i64>| of.map_or_else(|| String::from("–"), format::figure);
    let balanced = figures.balanced();
    let (verdict, tone) = verdict(c, figures);
    Books {
        i: format::figure(n.total),
        d: format::figure(n.left),
        a: format::figure(n.live),
        r: shown(terms.map(|t| t.r)),
        f: shown(terms.map(|t| t.f)),
        u: shown(terms.map(|t| t.u)),
        known: !matches!(figures.gate, Gate::Unknown),
        balanced: match balanced {
            Some(true) => "true",
            Some(false) => "false",
            None => "unknown",
        },
        sql_sign: sign(n.books_balance()),
        gate_sign: sign(balanced == Some(true)),
        mark: match tone {
            "good" => "✓",
            "bad" => "✕",
            _ => "△",
        },
        verdict,
        tone,
        why: if balanced == Some(false) { c.t("books-bad-why") } else { String::new() },
    }
}

/// The label of a refusal's code.
pub(super) fn refusal(c: &Chrome, code: &str) -> String {
    let key = format!("no-{}", code.to_ascii_lowercase().replace('_', "-"));
    let words = c.t(&key);
    if words == key { code.to_owned() } else { words }
}

impl SalePart {
    pub(super) fn new(c: &Chrome, view: SaleView<'_>) -> Self {
        let (voucher, figures) = (view.voucher, view.figures);
        let (id, n) = (voucher.id, &figures.books);
        let orders = |query: &str| format!("/admin/vouchers/{id}/orders{query}");
        let number = |key, label, n: i64, query: &str| Number::new(c, key, label, format::figure(n), orders(query));
        let mut numbers = vec![
            number("admitted", "n-admitted", figures.admitted(), ""),
            number("waiting", "n-waiting", figures.terms().map_or(0, |t| t.f), "?status=QUEUED"),
            number("pending", "n-pending", n.pending, "?status=PENDING"),
            number("paid", "n-paid", n.paid, "?status=PAID"),
            number("cancelled", "n-cancelled", n.cancelled, "?status=CANCELLED&closeReason=USER"),
            number("timedOut", "n-timed-out", n.timed_out, "?status=CANCELLED&closeReason=TIMEOUT"),
            number("failed", "n-failed", n.failed, "?status=FAILED"),
        ];
        if n.refunding + n.refunded > 0 {
            numbers.push(number("refunding", "n-refunding", n.refunding, "?status=REFUNDING"));
            numbers.push(number("refunded", "n-refunded", n.refunded, "?status=REFUNDED"));
        }
        let refused = figures.refused.iter().flatten().filter(|(_, n)| *n > 0).map(|(code, n)| Number {
            key: "refused",
            label: refusal(c, code),
            value: format::figure(*n),
            href: format!("/admin/vouchers/{id}/refusals"),
        });
        Self {
            id: id.to_string(),
            title: voucher.fields.title.clone(),
            state: figures.state.as_str(),
            chip: c.t(chip_key(figures.state)),
            window: window(c, voucher),
            books: books(c, figures),
            numbers,
            refused: refused.collect(),
            refused_known: figures.refused.is_some(),
            c: c.clone(),
        }
    }

    pub(super) fn part(&self) -> Part {
        (format!("sale-{}", self.id), self.render().unwrap_or_default())
    }
}

/// The part `tools-ID`: what may be done to the sale now.
#[derive(Template)]
#[template(path = "admin/part_tools.html")]
pub(super) struct ToolsPart {
    c: Chrome,
    id: String,
    version: i64,
    version_words: String,
    paused: bool,
    over: bool,
}

impl ToolsPart {
    pub(super) fn new(c: &Chrome, view: SaleView<'_>) -> Self {
        let n = &view.figures.books;
        Self {
            id: view.voucher.id.to_string(),
            version: n.version,
            version_words: c.f("tool-version", &[("epoch", &n.epoch), ("version", &n.version)]),
            paused: n.paused,
            over: view.figures.state == SaleState::Ended,
            c: c.clone(),
        }
    }

    pub(super) fn part(&self) -> Part {
        (format!("tools-{}", self.id), self.render().unwrap_or_default())
    }
}
