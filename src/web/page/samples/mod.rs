//! Every page in every state, for the tests that read them all.

mod lists;

use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use jiff::tz::TimeZone;

use super::{
    AccountPage, Alert, Chrome, ControlRoomPage, DocsPage, EndPage, ErrorPage, FormText, FrontPage, Held, LoginPage, OrderPage,
    OrderView, OrdersPage, RegisterPage, ReportPage, Room, Said, SaleView, SandboxPage, Series, ShopHead, ShopPage, Theme, Typed,
    UsersPage, Visitor, VoucherFormPage, VoucherPage,
};
use crate::domain::ids::{Lane, OrderId, ShopId, UserId, VoucherId};
use crate::domain::ledger::{Agreed, Tally};
use crate::domain::money::Fen;
use crate::domain::order::{CloseReason, Order, Refund, Status};
use crate::domain::sale::{Sale, SaleState};
use crate::domain::time::{Millis, parse_instant};
use crate::domain::user::{BadField, User};
use crate::domain::voucher::{FieldError, FieldErrors, NewVoucher, Voucher};
use crate::i18n::Lang;
use crate::service::figures::{Books, SaleFigures};
use crate::service::reports::Report;
use crate::service::rings::Sample;
use crate::service::sales::Listed;

pub(super) const EVIL: &str = "<script>alert(1)</script>";

fn at(text: &str) -> Millis {
    parse_instant(&format!("2026-07-04T{text}"), &TimeZone::get("Asia/Shanghai").unwrap()).unwrap()
}

pub(super) fn chrome(lang: Lang, user: Option<bool>, path: &str) -> Chrome {
    Chrome {
        lang,
        theme: Theme::Auto,
        user: user.map(|admin| Visitor { name: EVIL.to_owned(), admin }),
        path: path.to_owned(),
        zone: TimeZone::get("Asia/Shanghai").unwrap(),
        now: at("10:08:21"),
        pay_window: Duration::from_mins(15),
        sessions_away: false,
    }
}

fn listed(id: i64, title: &str, price: (i64, i64), state: Option<SaleState>, stock: (i64, i64)) -> Listed {
    let (begin, end) = match state {
        Some(SaleState::Soon) => (at("12:00:00"), at("20:00:00")),
        Some(SaleState::Ended) => (at("00:00:00") - Duration::from_hours(12), at("00:00:00")),
        _ => (at("10:00:00"), at("00:00:00") + Duration::from_hours(24)),
    };
    let voucher = VoucherId(id);
    let sale = Sale {
        voucher,
        stock_total: stock.1,
        stock_left: stock.0,
        epoch: 1,
        epoch_claimed: 1,
        paused: state == Some(SaleState::Paused),
        begin,
        end,
        captcha: false,
        version: 1,
    };
    let fields = NewVoucher {
        shop: ShopId(1),
        title: title.to_owned(),
        sub_title: "周一至周日 14:00–17:30".to_owned(),
        rules: "堂食可用，一桌一张，不找零。\n售出后 90 天内有效。".to_owned(),
        pay_value: Fen(price.0),
        actual_value: Fen(price.1),
    };
    let voucher = Voucher { id: voucher, fields, version: 1, sale: state.map(|_| sale) };
    Listed { voucher, left: stock.0, measured_at: at("10:08:19"), state }
}

fn vouchers() -> Vec<Listed> {
    vec![
        listed(10, EVIL, (4900, 10000), Some(SaleState::Open), (36, 100)),
        listed(16, "手冲咖啡任选券", (1200, 3600), Some(SaleState::Open), (128, 300)),
        listed(12, "招牌炖汤券", (990, 3800), Some(SaleState::Open), (7, 200)),
        listed(11, "工作日午市代金券", (2990, 6000), Some(SaleState::Soon), (500, 500)),
        listed(13, "四人套餐代金券", (16800, 32000), Some(SaleState::Paused), (21, 50)),
        listed(14, "早鸟早餐券", (500, 1800), Some(SaleState::SoldOut), (0, 100)),
        listed(15, "夜宵小食券", (1500, 3000), Some(SaleState::Ended), (12, 80)),
        listed(9, "甜品通用券", (2000, 2500), None, (0, 0)),
    ]
}

fn order(status: Status, reason: Option<CloseReason>, refund: Option<Refund>) -> Order {
    let paid = matches!(status, Status::Paid | Status::Refunding | Status::Refunded) || refund.is_some();
    Order {
        id: OrderId::new(at("10:05:28"), 77),
        user: UserId(1),
        voucher: VoucherId(16),
        voucher_title: EVIL.to_owned(),
        status,
        version: i64::from(status != Status::Queued),
        ahead: (status == Status::Queued).then_some(128),
        pay_amount: Fen(1200),
        epoch: 1,
        created_at: at("10:05:29"),
        pay_before: (!matches!(status, Status::Queued | Status::Failed)).then(|| at("10:20:29")),
        paid_at: paid.then(|| at("10:07:52")),
        closed_at: matches!(status, Status::Cancelled | Status::Failed).then(|| at("10:05:41")),
        refunded_at: (status == Status::Refunded || refund == Some(Refund::Done)).then(|| at("10:08:00")),
        close_reason: reason,
        coupon_code: paid.then(|| "K7QM4XRP9TWD".to_owned()),
        refund,
    }
}

fn orders() -> Vec<(&'static str, Order)> {
    use CloseReason::{Discarded, Duplicate, Lost, SoldOut, Timeout, User};
    use Status::{Cancelled, Failed, Paid, Pending, Queued, Refunded, Refunding};
    vec![
        ("queued", order(Queued, None, None)),
        ("pending", order(Pending, None, None)),
        ("paid", order(Paid, None, None)),
        ("cancelled", order(Cancelled, Some(User), None)),
        ("timeout", order(Cancelled, Some(Timeout), None)),
        ("late-due", order(Cancelled, Some(Timeout), Some(Refund::Due))),
        ("late-done", order(Cancelled, Some(Timeout), Some(Refund::Done))),
        ("refunding", order(Refunding, None, None)),
        ("refunded", order(Refunded, None, None)),
        ("lost", order(Failed, Some(Lost), None)),
        ("failed-sold-out", order(Failed, Some(SoldOut), None)),
        ("failed-duplicate", order(Failed, Some(Duplicate), None)),
        ("failed-discarded", order(Failed, Some(Discarded), None)),
    ]
}

/// The figures of a sale whose gate holds `redis` units.
fn figures(listed: &Listed, redis: i64, gate_known: bool) -> SaleFigures {
    let sale = listed.voucher.sale.unwrap();
    let live = sale.stock_total - sale.stock_left;
    let books = Tally {
        total: sale.stock_total,
        left: sale.stock_left,
        live,
        unapplied: 1,
        epoch: 2,
        version: 23,
        begin: sale.begin,
        end: sale.end,
        rows: live + 4,
        pending: live,
        cancelled: 1,
        timed_out: 2,
        failed: 1,
        refunded: 3,
        paused: sale.paused,
        ..Tally::default()
    };
    let terms = Agreed { r: redis, f: 2, u: 1 };
    let gate = match (gate_known, terms.r + terms.f + terms.u == sale.stock_left) {
        (false, _) => Books::Unknown,
        (true, true) => Books::Balanced(terms),
        (true, false) => Books::Broken(Some(terms)),
    };
    let refused = Some(vec![(String::from("SOLD_OUT"), 1906), (String::from("NEW_CODE"), 3)]).filter(|_| gate_known);
    let state = listed.state.unwrap();
    SaleFigures { voucher: listed.voucher.id, state, books, gate, refused, waiting: Some(9), as_of: at("10:08:21") }
}

/// What people typed that is in Chinese whatever the reader's language.
pub(super) fn typed() -> Vec<String> {
    let of = |listed: &Listed| {
        let fields = &listed.voucher.fields;
        let rules: Vec<String> = fields.rules.lines().map(str::to_owned).collect();
        [vec![fields.title.clone(), fields.sub_title.clone()], rules].concat()
    };
    vouchers().iter().flat_map(of).chain(["演示小馆", "示例区样板路 1 号"].map(str::to_owned)).collect()
}

type Pages = Vec<(String, String)>;

fn buyer(lang: Lang, path: &str) -> Chrome {
    chrome(lang, Some(false), path)
}

fn admin(lang: Lang, path: &str) -> Chrome {
    chrome(lang, Some(true), path)
}

fn visitor(lang: Lang, path: &str) -> Chrome {
    chrome(lang, None, path)
}

fn put(pages: &mut Pages, name: &str, page: &impl Template) {
    pages.push((name.to_owned(), page.render().unwrap()));
}

/// Each page's name and HTML, in one language.
pub(super) fn all(lang: Lang) -> Pages {
    let mut pages = Pages::new();
    shop_pages(lang, &mut pages);
    user_pages(lang, &mut pages);
    order_pages(lang, &mut pages);
    admin_pages(lang, &mut pages);
    error_pages(lang, &mut pages);
    put(&mut pages, "docs", &DocsPage::new(visitor(lang, "/docs")));
    pages
}

fn shop_pages(lang: Lang, pages: &mut Pages) {
    let (vouchers, known) = (vouchers(), orders());
    let pending = &known[1].1;
    let held = |v: VoucherId| (v == VoucherId(16)).then_some(Held { order: pending.id, row: Some(pending) });
    let shop = ShopHead {
        id: ShopId(1),
        name: EVIL.to_owned(),
        address: "示例区样板路 1 号".to_owned(),
        score: Some(46),
        avg_price: Some(58),
        open_hours: "7:00–24:00".to_owned(),
    };
    let sales: Vec<_> = vouchers.iter().map(|l| (l.clone(), EVIL.to_owned())).collect();
    put(pages, "front", &FrontPage::new(visitor(lang, "/?x=1&lang=en"), &sales, |_| None));
    put(pages, "front-empty", &FrontPage::new(Chrome { sessions_away: true, ..visitor(lang, "/") }, &[], |_| None));
    put(pages, "shop", &ShopPage::new(buyer(lang, "/shop/1"), &shop, &vouchers, held, None));
    let codes = ["SOLD_OUT", "NOT_BEGUN", "ENDED", "PAUSED", "BUSY", "UNCERTAIN", "TOO_MANY_REQUESTS"];
    for (code, voucher) in codes.into_iter().zip([14, 11, 15, 13, 10, 10, 10]) {
        let alert = Alert { voucher: VoucherId(voucher), code, begin: Some(at("12:00:00")), seconds: 3, asked: None };
        let page = ShopPage::new(buyer(lang, "/shop/1"), &shop, &vouchers, held, Some(&alert));
        put(pages, &format!("shop-{code}"), &page.with_status(StatusCode::SERVICE_UNAVAILABLE));
    }
}

fn user_pages(lang: Lang, pages: &mut Pages) {
    put(pages, "login", &LoginPage::new(visitor(lang, "/login?next=/shop/1"), "/shop/1"));
    let refused = LoginPage::new(visitor(lang, "/login"), "").refused(StatusCode::OK, "BAD_CREDENTIALS", "\"><b>", 0);
    put(pages, "login-refused", &refused);
    put(pages, "login-not-kept", &LoginPage::new(visitor(lang, "/login"), "/shop/1").not_kept("https://shop.example"));
    let codes = || LoginPage::new(visitor(lang, "/login"), "/shop/1").with_codes(true);
    put(pages, "login-codes", &codes());
    put(pages, "login-code-sent", &codes().in_codes("\"><b>", true));
    put(pages, "login-code-refused", &codes().in_codes("1", false).refused(StatusCode::OK, "BAD_CODE", "1", 0));
    let errors = FieldErrors::from([("phone", FieldError::Person(BadField::Phone))]);
    let register = || RegisterPage::new(visitor(lang, "/register"), "/shop/1");
    put(pages, "register", &register());
    put(pages, "register-invalid", &register().invalid("1380000000", EVIL, &errors));
    let taken = register().refused(StatusCode::CONFLICT, "PHONE_TAKEN", "13800000001", "x", 0);
    put(pages, "register-taken", &taken);
    let user = User { id: UserId(1), nick_name: EVIL.to_owned(), admin: true, disabled: false, credits: 1234 };
    let account = |done| AccountPage::new(admin(lang, "/account"), &user, done);
    put(pages, "account", &account(true));
    put(pages, "account-refused", &account(false).refused(StatusCode::OK, "BAD_CREDENTIALS", 0));
    let errors = FieldErrors::from([("newPassword", FieldError::Person(BadField::PasswordCommon))]);
    put(pages, "account-invalid", &account(false).invalid(&errors));
}

fn order_pages(lang: Lang, pages: &mut Pages) {
    let sandbox = SandboxPage::new(
        buyer(lang, "/sandbox-pay/pay_1"),
        OrderId(610_467_444_359_694_349),
        Fen(1200),
        "pay_1",
        "/orders/1".into(),
    );
    put(pages, "sandbox", &sandbox);
    let (vouchers, known) = (vouchers(), orders());
    for (name, order) in &known {
        let path = format!("/orders/{}?ticket=abc", order.id);
        let view = OrderView {
            order,
            voucher: Some(&vouchers[1].voucher),
            shop: Some("演示小馆"),
            eta_seconds: (*name == "queued").then_some(3),
            can_pay: true,
            can_cancel: true,
        };
        put(pages, &format!("order-{name}"), &OrderPage::new(buyer(lang, &path), view));
    }
    let bare = Order { ahead: None, coupon_code: None, ..known[2].1.clone() };
    let view = OrderView { order: &bare, voucher: None, shop: None, eta_seconds: None, can_pay: false, can_cancel: false };
    let page = OrderPage::new(visitor(lang, "/orders/1"), view).refused(StatusCode::CONFLICT, "WRONG_STATE", 0);
    put(pages, "order-bare", &page);
    let list: Vec<_> = known.iter().map(|(_, o)| o.clone()).collect();
    put(pages, "orders", &OrdersPage::new(buyer(lang, "/orders"), &list, Some("opaque")));
    put(pages, "orders-empty", &OrdersPage::new(buyer(lang, "/orders"), &[], None));
}

fn series() -> Vec<Series> {
    let sample = |s: i64| Sample {
        at: at("10:00:00") + Duration::from_secs(s.unsigned_abs()),
        admitted: s,
        saved: s / 2,
        paid: 0,
        refused: 0,
        left: 3,
        waiting: s % 7,
    };
    vec![Series { lane: Lane(0), samples: (0..500).map(sample).collect() }]
}

fn admin_pages(lang: Lang, pages: &mut Pages) {
    let vouchers = vouchers();
    let rows = [(0, 33, true), (1, 129, true), (3, 0, false), (6, 9, true)];
    let rows: Vec<_> = rows.into_iter().map(|(of, redis, known)| (of, figures(&vouchers[of], redis, known))).collect();
    let view = |row: usize| SaleView { voucher: &vouchers[rows[row].0].voucher, figures: &rows[row].1 };
    let series = series();
    let (owed, log) = (lists::owed(), lists::log());
    let room = Room {
        sales: (0..rows.len()).map(view).collect(),
        series: series.clone(),
        rate: 7,
        waiting: Some(9),
        sockets: 3412,
        owed: &owed,
        owed_more: true,
        letters: 2,
        log: &log,
    };
    let said = |path: &str, word: &str| Said::of(&admin(lang, path), word);
    put(pages, "admin", &ControlRoomPage::new(admin(lang, "/admin"), &room, said("/admin", "pause")));
    let voucher = |of: usize, view, word: &str| {
        let path = "/admin/vouchers/10";
        VoucherPage::new(admin(lang, path), &vouchers[of], view, &series, said(path, word))
    };
    put(pages, "admin-voucher", &voucher(0, Some(view(0)), "stock"));
    put(pages, "admin-voucher-new", &voucher(1, Some(view(1)), "").created(&vouchers[1].voucher));
    put(pages, "admin-voucher-over", &voucher(6, Some(view(3)), "").over());
    put(pages, "admin-voucher-plain", &voucher(7, None, "edit"));
    let typed = Typed { delta: "-500".to_owned(), texts: Some([EVIL.to_owned(), String::new(), EVIL.to_owned()]) };
    let wrong = FieldErrors::from([
        ("delta", FieldError::OutOfRange { min: -36, max: 5 }),
        ("title", FieldError::TooLong { max: 100 }),
        ("rules", FieldError::ControlCharacter),
    ]);
    put(pages, "admin-voucher-invalid", &voucher(0, Some(view(0)), "").invalid(&typed, &wrong));
    let conflict = voucher(0, Some(view(0)), "").refused(StatusCode::CONFLICT, "VERSION_CONFLICT", &typed, 0);
    put(pages, "admin-voucher-conflict", &conflict);
    put(pages, "admin-end", &EndPage::new(admin(lang, "/admin/vouchers/10/end"), &vouchers[0].voucher));
    lists::pages(lang, pages, &vouchers[0].voucher, &rows[0].1);
    lists::letters(lang, pages);
    let report = |money_in, away, row: usize, sold_out_at| Report {
        voucher: vouchers[rows[row].0].voucher.clone(),
        figures: std::sync::Arc::new(rows[row].1.clone()),
        sold_out_at,
        turned_away: away,
        money_in: Fen(money_in),
        money_back: Fen(1200),
    };
    let page = |report: &Report| ReportPage::new(admin(lang, "/admin/reports/10"), report);
    put(pages, "admin-report", &page(&report(123_456, Some(18_402), 0, Some(at("10:00:14")))));
    put(pages, "admin-report-over", &page(&report(0, None, 3, None)));
    let path = "/admin/users?q=1";
    let user = |disabled| User { id: UserId(1), nick_name: EVIL.to_owned(), admin: true, disabled, credits: 1234 };
    let users = |asked: &str, user: Option<&User>| UsersPage::new(admin(lang, path), asked, user, said(path, "disable"));
    put(pages, "admin-users", &users("", None));
    put(pages, "admin-users-lost", &users("\"><b>", None));
    put(pages, "admin-users-found", &users("1", Some(&user(false))));
    put(pages, "admin-users-disabled", &users("1", Some(&user(true))));
    let shops = [(ShopId(1), "演示小馆".to_owned()), (ShopId(2), EVIL.to_owned())];
    let empty = FormText { form_id: "b1946ac9".to_owned(), ..FormText::default() };
    let form = |text: &FormText, errors| VoucherFormPage::new(admin(lang, "/admin/vouchers/new"), &shops, text, errors);
    let none = FieldErrors::new();
    put(pages, "voucher-new", &form(&empty, &none));
    let typed = FormText {
        shop_id: "2".to_owned(),
        title: EVIL.to_owned(),
        rules: format!("</textarea>{EVIL}"),
        pay_value: "88".to_owned(),
        actual_value: "80".to_owned(),
        stock: "-1".to_owned(),
        begin_time: "2026-07-05T20:00".to_owned(),
        end_time: "2026-07-05T18:00".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        ..empty
    };
    let errors = FieldErrors::from([
        ("endTime", FieldError::EndBeforeBegin),
        ("stock", FieldError::OutOfRange { min: 0, max: 1_000_000 }),
    ]);
    put(pages, "voucher-invalid", &form(&typed, &errors));
}

fn error_pages(lang: Lang, pages: &mut Pages) {
    let faults = [
        (400, "MALFORMED"),
        (401, "LOGIN_REQUIRED"),
        (403, "FORBIDDEN"),
        (404, "NOT_FOUND"),
        (405, "METHOD_NOT_ALLOWED"),
        (413, "TOO_LARGE"),
        (429, "TOO_MANY_REQUESTS"),
        (500, "INTERNAL"),
        (503, "BUSY"),
    ];
    for (status, code) in faults {
        let status = StatusCode::from_u16(status).unwrap();
        put(pages, &format!("error-{code}"), &ErrorPage::new(buyer(lang, "/shop/1"), status, code, "7f3c9a21e04b", 3));
    }
}
