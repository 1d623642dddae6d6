//! The checker's own tests: a good history passes, and each bad one is seen.

use super::checker::{Judged, Money, Row, SaleAtRest, judge};
use super::history::{Answer, Asked, Call, Fired, Push, Shown};

fn call(client: usize, asked: Asked, began: u64, ended: u64, answer: Answer) -> Call {
    Call { client, asked, began, ended: Some(ended), answer }
}

fn buy(client: usize, began: u64, answer: Answer) -> Call {
    call(client, Asked::Buy { voucher: 1 }, began, began + 5, answer)
}

fn shown(order: i64, status: &str, version: i64, reason: &str) -> Shown {
    Shown { order, status: status.to_owned(), version, reason: reason.to_owned() }
}

fn read(client: usize, began: u64, of: Shown) -> Call {
    call(client, Asked::Read { order: of.order, ticket: true }, began, began + 5, Answer::Order(of))
}

fn no(code: &str, id: Option<i64>) -> Answer {
    Answer::No(code.to_owned(), id)
}

fn row(client: usize, live: bool, of: Shown) -> Row {
    Row { client, voucher: 1, live, shown: of }
}

/// Two units: client 1 paid for order 11, client 2 cancelled 12 and client 3 has 13; client 4 heard that they are gone.
fn good() -> Judged {
    let mut judged = Judged {
        calls: vec![
            buy(1, 0, Answer::Told(11)),
            buy(2, 10, Answer::Told(12)),
            buy(4, 20, no("SOLD_OUT", None)),
            read(1, 30, shown(11, "QUEUED", 0, "")),
            read(1, 40, shown(11, "PENDING", 1, "")),
            read(1, 50, shown(11, "PAID", 2, "")),
            buy(1, 60, no("DUPLICATE", Some(11))),
            read(1, 70, shown(11, "PAID", 2, "")),
            read(2, 80, shown(12, "CANCELLED", 2, "USER")),
            buy(3, 90, Answer::Unknown(String::from("reset"))),
            buy(3, 100, no("DUPLICATE", Some(13))),
        ],
        pushes: vec![Push { client: 1, at: 45, shown: shown(11, "PENDING", 1, "") }],
        open_within: 10_000,
        ..Judged::default()
    };
    let rest = &mut judged.rest;
    rest.rows.insert(11, row(1, true, shown(11, "PAID", 2, "")));
    rest.rows.insert(12, row(2, false, shown(12, "CANCELLED", 2, "USER")));
    rest.rows.insert(13, row(3, true, shown(13, "PENDING", 1, "")));
    let sale = SaleAtRest { total: 2, left: 0, gate_stock: Some(0), holders: [(1, 11), (3, 13)].into() };
    rest.sales.insert(1, sale);
    rest.open_after = Some(100);
    rest.provider = vec![paid("t1", 11, "paid")];
    rest.payments = vec![paid("t1", 11, "APPLIED")];
    judged
}

fn paid(transaction: &str, order: i64, word: &str) -> Money {
    Money { transaction: transaction.to_owned(), order, amount: 4900, word: word.to_owned() }
}

fn fault(loses: bool, to: u64) -> Fired {
    Fired { row: "F15", what: String::from("FLUSHALL"), from: to, to, loses }
}

#[test]
fn a_history_that_keeps_every_promise_passes() {
    assert_eq!(judge(&good()), Vec::<String>::new());
}

#[test]
fn each_broken_promise_is_seen() {
    type Change = fn(&mut Judged);
    let bad: [(&str, Change); 29] = [
        ("was told to client 1", |j| j.calls.push(buy(2, 200, no("DUPLICATE", Some(11))))),
        ("ends as nothing", |j| j.calls.push(buy(5, 200, Answer::Told(15)))),
        ("ends as QUEUED", |j| {
            j.calls.push(buy(5, 200, Answer::Told(15)));
            j.rest.verdicts.insert(15, shown(15, "QUEUED", 0, ""));
        }),
        ("Redis had lost nothing", |j| {
            j.faults.push(fault(true, 100));
            j.calls.push(buy(5, 200, Answer::Told(15)));
            j.rest.verdicts.insert(15, shown(15, "FAILED", 1, "LOST"));
        }),
        ("ends FAILED(SOLD_OUT)", |j| {
            j.faults.push(fault(true, 300));
            j.calls.push(buy(5, 200, Answer::Told(15)));
            j.rest.rows.insert(15, row(5, false, shown(15, "FAILED", 1, "SOLD_OUT")));
        }),
        ("is a row of client 3", |j| j.rest.rows.get_mut(&11).unwrap().client = 3),
        ("says that he has none", |j| drop(j.rest.rows.insert(14, row(4, false, shown(14, "CANCELLED", 2, ""))))),
        ("client 1 holds [11, 16]", |j| drop(j.rest.rows.insert(16, row(1, true, shown(16, "PENDING", 1, ""))))),
        ("left and 2 live orders", |j| j.rest.sales.get_mut(&1).unwrap().left = 1),
        ("left and 2 live orders of 1", |j| j.rest.sales.get_mut(&1).unwrap().total = 1),
        ("the gate has Some(1)", |j| j.rest.sales.get_mut(&1).unwrap().gate_stock = Some(1)),
        ("live or a holder, and not both", |j| j.rest.sales.get_mut(&1).unwrap().holders.retain(|client, _| *client != 3)),
        ("live or a holder, and not both", |j| j.rest.sales.get_mut(&1).unwrap().holders.extend([(2, 12)])),
        ("was shown FAILED version 1 and later", |j| j.calls.push(read(1, 20, shown(11, "FAILED", 1, "LOST")))),
        ("later PAID version 2", |j| j.calls.push(read(1, 55, shown(11, "PAID", 7, "")))),
        ("was shown PAID version 2 and later PENDING", |j| j.calls.push(read(1, 300, shown(11, "PENDING", 2, "")))),
        ("was shown REFUNDED", |j| j.pushes.push(Push { client: 1, at: 46, shown: shown(11, "REFUNDED", 9, "") })),
        ("was pushed to client 2", |j| j.pushes.push(Push { client: 2, at: 46, shown: shown(11, "PENDING", 1, "") })),
        ("its ticket finds nothing", |j| {
            j.calls.push(call(1, Asked::Read { order: 11, ticket: true }, 3, 4, no("NOT_FOUND", None)));
        }),
        ("and later nothing", |j| {
            j.calls.push(call(1, Asked::Read { order: 11, ticket: false }, 400, 401, no("NOT_FOUND", None)));
        }),
        ("1 clients at most hold", |j| j.calls.push(buy(5, 1, no("SOLD_OUT", None)))),
        ("holds order 11 of sale 1 and heard SOLD_OUT", |j| j.calls.push(buy(1, 60, no("SOLD_OUT", None)))),
        ("and heard DUPLICATE of 12", |j| j.calls.push(buy(1, 60, no("DUPLICATE", Some(12))))),
        ("which nobody was ever told", |j| drop(j.calls.remove(9))),
        ("was admitted again as 17", |j| j.calls.push(buy(1, 60, Answer::Told(17)))),
        ("our books have []", |j| j.rest.payments.clear()),
        ("9800 of 4900 went back", |j| {
            j.rest.payments.push(paid("t2", 12, "REFUNDED"));
            j.rest.provider.extend([paid("t2", 12, "paid"), paid("t2", 12, "refunded"), paid("t2", 12, "refunded")]);
        }),
        ("the gate of sale 1", |j| j.sums.push((5, String::from("sale 1 has 3 and 1 of 2")))),
        ("the gates were open 10001 ms", |j| j.rest.open_after = Some(10_001)),
    ];
    for (what, change) in bad {
        let mut judged = good();
        change(&mut judged);
        let wrong = judge(&judged);
        assert!(wrong.iter().any(|w| w.contains(what)), "{what} was not seen, but {wrong:?}");
    }
}

#[test]
fn what_overlaps_or_is_unknown_is_no_contradiction() {
    let mut judged = good();
    // Asked before the cancel was shown, answered after it.
    judged.calls.push(call(2, Asked::Read { order: 12, ticket: true }, 70, 95, Answer::Order(shown(12, "PENDING", 1, ""))));
    // A loss after the buyer was told.
    judged.faults.push(fault(true, 250));
    judged.calls.push(buy(5, 200, Answer::Told(15)));
    judged.rest.verdicts.insert(15, shown(15, "FAILED", 1, "LOST"));
    // Somebody without an answer has an order all the same.
    judged.calls.push(buy(6, 300, Answer::Unknown(String::from("reset"))));
    judged.rest.rows.insert(18, row(6, false, shown(18, "CANCELLED", 2, "TIMEOUT")));
    assert_eq!(judge(&judged), Vec::<String>::new());
}
