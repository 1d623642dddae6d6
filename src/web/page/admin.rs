//! `/admin`, the control room in its first form, and `/admin/vouchers/{id}`.

use askama::Template;
use axum::http::StatusCode;

use crate::domain::ledger::Figures;
use crate::domain::sale::SaleState;
use crate::service::sales::Listed;
use crate::web::page::card::{Action, Card};
use crate::web::page::{Chrome, format, is_response};

/// A sale with its figures.
#[derive(Debug, Clone)]
pub struct SaleBooks {
    /// The sale.
    pub listed: Listed,
    /// The stock equation's figures; `r` and `f` mean nothing when `gate_known` is false.
    pub figures: Figures,
    /// Whether Redis could be asked.
    pub gate_known: bool,
    /// What a look at both stores said; the caller looks twice before he says false, because the two are read one after
    /// the other while orders are on their way.
    pub balanced: bool,
}

/// The books of one sale, worded.
struct Books {
    id: String,
    title: String,
    chip: String,
    state: &'static str,
    window: String,
    i: String,
    d: String,
    a: String,
    r: String,
    f: String,
    u: String,
    gate_known: bool,
    balanced: bool,
    /// The sign between both sides, in SQL and between the stores: = or ≠.
    sql_sign: &'static str,
    gate_sign: &'static str,
    verdict: String,
    tone: &'static str,
}

fn books(c: &Chrome, sale: &SaleBooks) -> Books {
    let (listed, n) = (&sale.listed, &sale.figures);
    let state = listed.state.unwrap_or(SaleState::Ended);
    let chip = c.t(match state {
        SaleState::Soon => "chip-soon",
        SaleState::Open => "chip-open",
        SaleState::Paused => "chip-paused",
        SaleState::SoldOut => "chip-sold-out",
        SaleState::Ended => "chip-ended",
    });
    let window = listed.voucher.sale.map(|s| window(c, s.begin, s.end)).unwrap_or_default();
    let more = n.r + n.f + n.u - n.d;
    let (verdict, tone) = match (sale.gate_known, sale.balanced) {
        (_, false) if !n.books_balance() => (c.t("books-bad-sql"), "bad"),
        (false, _) => (c.t("books-unknown"), "warn"),
        (true, true) => (c.t("books-good"), "good"),
        (true, false) if more > 0 => (c.f("books-bad", &[("n", &format::figure(more))]), "bad"),
        (true, false) => (c.f("books-bad-less", &[("n", &format::figure(-more))]), "bad"),
    };
    Books {
        id: listed.voucher.id.to_string(),
        title: listed.voucher.fields.title.clone(),
        chip,
        state: state.as_str(),
        window,
        i: format::figure(n.i),
        d: format::figure(n.d),
        a: format::figure(n.a),
        r: format::figure(n.r),
        f: format::figure(n.f),
        u: format::figure(n.u),
        gate_known: sale.gate_known,
        balanced: sale.balanced,
        sql_sign: sign(n.books_balance()),
        gate_sign: sign(sale.balanced || n.stores_agree()),
        verdict,
        tone,
    }
}

fn sign(equal: bool) -> &'static str {
    if equal { "=" } else { "≠" }
}

fn window(c: &Chrome, begin: crate::domain::time::Millis, end: crate::domain::time::Millis) -> String {
    let (begin, end) = format::window(c, begin, end);
    c.f("voucher-range", &[("begin", &begin), ("end", &end)])
}

/// All sales with their figures.
#[derive(Template)]
#[template(path = "admin/control.html")]
pub struct ControlRoomPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    as_of: String,
    sales: Vec<Books>,
}

impl ControlRoomPage {
    /// `sales` in the order to show, their figures read just now.
    #[must_use]
    pub fn new(c: Chrome, sales: &[SaleBooks]) -> Self {
        let sales = sales.iter().map(|s| books(&c, s)).collect();
        let as_of = c.f("admin-as-of", &[("time", &format::exact(&c, c.now))]);
        Self { status: StatusCode::OK, c, as_of, sales }
    }
}
is_response!(ControlRoomPage);

/// One voucher as its merchant sees it.
#[derive(Template)]
#[template(path = "admin/voucher.html")]
pub struct VoucherPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    id: String,
    title: String,
    created: bool,
    window: String,
    shop_link: String,
    card: Card,
    books: Option<Books>,
}

impl VoucherPage {
    /// The voucher; `books`: its figures when it has a sale; `created`: it was saved just now.
    #[must_use]
    pub fn new(c: Chrome, listed: &Listed, books_of: Option<&SaleBooks>, created: bool) -> Self {
        let v = &listed.voucher;
        Self {
            status: StatusCode::OK,
            id: v.id.to_string(),
            title: v.fields.title.clone(),
            created,
            window: v.sale.map(|s| window(&c, s.begin, s.end)).unwrap_or_default(),
            shop_link: format!("/shop/{}", v.fields.shop),
            card: Card { preview: true, ..Card::new(&c, listed, None, None) },
            books: books_of.map(|b| books(&c, b)),
            c,
        }
    }
}
is_response!(VoucherPage);
