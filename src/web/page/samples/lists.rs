//! The lists of the control room in every state.

use std::time::Duration;

use axum::http::StatusCode;

use super::{EVIL, Pages, admin, at, orders, put, series, vouchers};
use crate::domain::ids::{Lane, OrderId, UserId, VoucherId};
use crate::domain::voucher::Voucher;
use crate::i18n::Lang;
use crate::push::hub::{Listener, Roll};
use crate::service::dead_letters::Prospect;
use crate::service::desk::{Entry, Given, StreamId, Unreadable, WaitingEntry, WaitingList};
use crate::service::figures::SaleFigures;
use crate::store::{AuditLine, BuriedLetter, DeadLetter, LetterState, OutboxLine};
use crate::web::page::{DiscardPage, LettersPage, ListPage, Said, SecondsPage, Series, Titles};

pub(super) fn owed() -> Vec<OutboxLine> {
    let line = |id, kind: &str, attempts, done_at| OutboxLine {
        id,
        kind: kind.to_owned(),
        dedupe_key: format!("{kind}:610467444359694349"),
        voucher_id: Some(10),
        payload: String::from("{}"),
        attempts,
        next_at: at("10:09:10").0,
        done_at,
    };
    vec![line(3, "release", 0, None), line(2, "refund", 4, None), line(1, "new_kind", 1, Some(at("10:09:00").0))]
}

/// One line of each kind that the shop writes: who, action, subject, before, after.
const LOG: &[(&str, &str, &str, &str, &str)] = &[
    ("2", "sale.stock", "voucher 10", "{\"stockTotal\":1000,\"stockLeft\":40}", "{\"stockTotal\":2000,\"stockLeft\":1040}"),
    (
        "system",
        "gate.rebuild",
        "voucher 10",
        "sum: epoch 3, I 100, D 60, gate: stock none, holders 40",
        "epoch 4, I 100, D 60, A 40",
    ),
    ("system", "gate.rebuild", "voucher 10", DRIFT, "epoch 5, I 100, D 60, A 40"),
    ("system", "books.mend", "voucher 10", "D 61; closed", "D 60"),
    ("2", "sale.rebuild", "voucher 10", "{\"epoch\":2}", "{\"epoch\":3}"),
    ("2", "sale.pause", "voucher 10", "{\"paused\":false}", "{\"paused\":true}"),
    ("2", "sale.end", "voucher 10", "{\"endTime\":\"2026-07-05T10:00:00.000Z\"}", "{\"endTime\":\"2026-07-04T02:00:00.000Z\"}"),
    (
        "2",
        "voucher.edit",
        "voucher 10",
        "{\"title\":\"a\",\"subTitle\":\"\",\"rules\":\"1\"}",
        "{\"title\":\"b\",\"subTitle\":\"2\",\"rules\":\"1\"}",
    ),
    ("2", "sale.create", "voucher 10", "", EVIL),
    ("2", "shop.create", "shop 3", "", EVIL),
    ("2", "user.disable", "user 7", "{\"disabled\":false}", "{\"disabled\":true}"),
    ("2", "user.logout", "user 7", "", ""),
    (
        "2",
        "dead_letter.retry",
        "dead letter 4",
        "{\"state\":\"OPEN\",\"entry\":\"{}\"}",
        "{\"state\":\"RETRIED\",\"outcome\":\"saved\"}",
    ),
    ("user 2", "order.refund", "610467444359694349", "PAID", "REFUNDING, restock true"),
    ("sandbox", "payment.other_order", "610467444359694349", "610467444359694350", ""),
    ("sandbox", "payment.wrong_amount", "610467444359694349", "1200", "1300 CNY"),
    ("sandbox", "payment.wrong_amount", "610467444359694349", "", "1300 fen paid for an order of 1200 fen; it goes back"),
];

const DRIFT: &str = "drift: epoch 4, I 100, D 60, A 40, gate: stock 59, holders 40; D + A is not I; a holder cannot be read; \
                     user 7 holds a unit by order 99, which has none; order 98 of user 8 does not hold its unit; and 3 more";

fn line((id, (who, action, subject, before, after)): (i64, &(&str, &str, &str, &str, &str))) -> AuditLine {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    AuditLine {
        id,
        who: (*who).to_owned(),
        action: (*action).to_owned(),
        subject: (*subject).to_owned(),
        before: text(before),
        after: text(after),
        created_at: at("10:03:12"),
    }
}

pub(super) fn log() -> Vec<AuditLine> {
    (1..).zip(LOG).map(line).collect()
}

pub(super) fn pages(lang: Lang, pages: &mut Pages, voucher: &Voucher, figures: &SaleFigures) {
    let c = |path: &str| admin(lang, path);
    let orders: Vec<_> = orders().into_iter().map(|(_, order)| order).collect();
    let path = "/admin/vouchers/10/orders";
    let next = Some(String::from("610467444359694349"));
    put(pages, "admin-orders", &ListPage::orders(c(path), voucher, &orders, "?status=PAID", next));
    put(pages, "admin-orders-none", &ListPage::orders(c(path), voucher, &[], "", None));
    put(pages, "admin-refusals", &ListPage::refusals(c("/admin/vouchers/10/refusals"), voucher, figures));
    put(pages, "admin-stock", &ListPage::stock(c("/admin/vouchers/10/stock"), voucher, Some(figures), &log(), Some(3)));
    put(pages, "admin-stock-older", &ListPage::stock(c("/admin/vouchers/10/stock?cursor=3"), voucher, None, &[], None));
    put(pages, "admin-outbox", &ListPage::outbox(c("/admin/outbox"), &owed(), false, None, Some(1)));
    put(pages, "admin-outbox-all", &ListPage::outbox(c("/admin/outbox"), &owed(), true, None, None));
    put(pages, "admin-outbox-sale", &ListPage::outbox(c("/admin/outbox"), &[], false, Some(10), None));
    put(pages, "admin-log", &ListPage::audit_log(c("/admin/audit-log"), &log(), Some(1)));
    let later = [(1, &("2", "new.action", "user x", "{}", "{\"a\":[1]}")), (2, &("2", "order.refund", "thing 4", "[]", EVIL))];
    put(pages, "admin-log-later", &ListPage::audit_log(c("/admin/audit-log"), &later.map(line), None));
    live(lang, pages);
}

fn live(lang: Lang, pages: &mut Pages) {
    let titles = Titles::from([(VoucherId(10), EVIL.to_owned())]);
    let listener = |id, user: Option<i64>, watched: &[i64], desk| Listener {
        id,
        user: user.map(UserId),
        since: at("10:00:00"),
        watched: watched.iter().map(|id| VoucherId(*id)).collect(),
        desk,
    };
    let newest = vec![
        listener(3, Some(2), &[], true),
        listener(2, Some(7), &[10, 11, 12, 13, 14], false),
        listener(1, None, &[10], false),
        listener(0, Some(8), &[], false),
    ];
    let roll = Roll { all: 3412, visitors: 2000, watched: vec![(VoucherId(10), 3000), (VoucherId(11), 2)], newest };
    let sockets = |roll: &Roll, by_sale| ListPage::sockets(admin(lang, "/admin/sockets"), roll, "shop-417", &titles, by_sale);
    put(pages, "admin-sockets", &sockets(&roll, false));
    put(pages, "admin-sockets-by-sale", &sockets(&roll, true));
    put(pages, "admin-sockets-none", &sockets(&Roll::default(), false));
    let entry = |order, voucher| Entry {
        order: OrderId(order),
        user: UserId(7),
        voucher: VoucherId(voucher),
        epoch: 2,
        admitted_at: at("10:05:00"),
    };
    let given = |deliveries| Some(Given { consumer: String::from("shop-417-1f"), ago: Duration::from_secs(3), deliveries });
    let one = |ms: i64, entry, given| {
        let stream_id = StreamId { ms: at("10:08:00").0.unsigned_abs() - ms.unsigned_abs(), seq: 1 };
        (Lane(1), WaitingEntry { stream_id, entry, given })
    };
    let unreadable = Unreadable { reason: String::from("id is missing"), raw: EVIL.to_owned() };
    let oldest = vec![
        one(600_000, Ok(entry(610_467_444_359_694_349, 10)), given(3)),
        one(2_000, Ok(entry(610_467_444_359_694_350, 11)), given(1)),
        one(1_000, Ok(entry(610_467_444_359_694_351, 11)), None),
        one(0, Err(unreadable), None),
    ];
    let waiting = |list: &WaitingList| ListPage::waiting(admin(lang, "/admin/waiting"), list, &titles, true);
    put(pages, "admin-waiting", &waiting(&WaitingList { all: 9, oldest }));
    put(pages, "admin-waiting-none", &waiting(&WaitingList::default()));
    let seconds = |voucher: Option<&Voucher>, series: &[Series]| {
        SecondsPage::new(admin(lang, "/admin/seconds"), voucher, series, "shop-417")
    };
    put(pages, "admin-seconds", &seconds(None, &series()));
    put(pages, "admin-seconds-none", &seconds(Some(&vouchers()[0].voucher), &[]));
}

/// What a worker may write of an entry that it puts aside.
const REASONS: &[&str] = &[
    "its order id belongs to another buyer",
    "its voucher has no sale",
    "its epoch is newer than the database's: the database went back",
    "its buyer does not exist",
    "userId is not a user's id",
    "voucherId is not a voucher's id",
    "no voucher 99",
    "unknown field \"foo\"",
    "id is missing",
    "id is there twice",
    "epoch is not text",
    "epoch is not a number: \"x\"",
];

pub(super) fn letters(lang: Lang, pages: &mut Pages) {
    use Prospect::{HasARow, Lost, Newer, NoSale, Nobody, Unreadable, Whole};
    let buried = |id, entry: &str, reason: &str, state| BuriedLetter {
        id,
        letter: DeadLetter {
            stream_id: String::from("1-0"),
            lane: Lane(0),
            entry_json: entry.to_owned(),
            reason: reason.to_owned(),
        },
        state,
        created_at: at("10:05:36"),
    };
    let letters = [
        (buried(42, "{\"id\":\"610467457244596251\",\"userId\":\"13x\",\"epoch\":2}", EVIL, LetterState::Open), Whole),
        (buried(41, EVIL, EVIL, LetterState::Retried), Unreadable),
        (buried(40, "[]", EVIL, LetterState::Discarded), Unreadable),
    ];
    let path = "/admin/dead-letters";
    let page = |word: &str| {
        let c = admin(lang, path);
        let said = Said::of(&c, word);
        LettersPage::new(c, &letters, 1, Some(40), said)
    };
    put(pages, "admin-letters", &page("retry"));
    put(pages, "admin-letters-decided", &page("").decided());
    put(pages, "admin-letters-stuck", &page("").stuck("no voucher 9"));
    put(pages, "admin-letters-busy", &page("").refused(StatusCode::SERVICE_UNAVAILABLE, "BUSY", 3));
    put(pages, "admin-letters-none", &LettersPage::new(admin(lang, path), &[], 0, None, Said::default()));
    let prospects = [Whole, Lost, Nobody, NoSale, Newer, HasARow, Unreadable];
    let each = |(i, reason): (usize, &&str)| {
        (buried(i64::try_from(i).unwrap(), "{}", reason, LetterState::Open), prospects[i % prospects.len()])
    };
    let each: Vec<_> = REASONS.iter().enumerate().map(each).collect();
    put(pages, "admin-letters-each", &LettersPage::new(admin(lang, path), &each, 12, None, Said::default()));
    for (letter, prospect) in each.iter().zip(prospects) {
        let page = DiscardPage::new(admin(lang, "/admin/dead-letters/42/discard"), letter);
        put(pages, &format!("admin-discard-{prospect:?}"), &page);
    }
}
