//! The audit log in the reader's words: who, what, to what, from what to what. What has no words yet stays as the log has it.

use serde_json::{Map, Value};

use crate::domain::money::Fen;
use crate::domain::time::parse_instant;
use crate::store::AuditLine;
use crate::web::page::admin::lists::{Line, timed};
use crate::web::page::{Chrome, format};

/// A line of the audit log.
pub(super) fn audit_line(c: &Chrome, line: &AuditLine) -> Line {
    let (subject, href) = subject(c, &line.subject);
    let shown = Line {
        title: format!("{} · {subject}", action_words(c, &line.action)),
        href,
        words: vec![who(c, &line.who)],
        change: change(c, line),
        ..Line::default()
    };
    timed(c, line.created_at, shown)
}

fn who(c: &Chrome, who: &str) -> String {
    let number = who.strip_prefix("user ").unwrap_or(who);
    match (number.parse::<i64>(), who) {
        (Ok(id), _) => c.f("list-user", &[("id", &id)]),
        (Err(_), "system") => c.t("log-system"),
        (Err(_), provider) => c.f("log-provider", &[("name", &provider)]),
    }
}

/// What it was done to, and where that is shown; an empty address for nowhere.
fn subject(c: &Chrome, subject: &str) -> (String, String) {
    // An order may stand there by its number alone.
    let (kind, id) = subject.rsplit_once(' ').unwrap_or(("order", subject));
    if id.parse::<i64>().is_err() {
        return (subject.to_owned(), String::new());
    }
    match kind {
        "voucher" => (c.f("subject-voucher", &[("id", &id)]), format!("/admin/vouchers/{id}")),
        "user" => (c.f("list-user", &[("id", &id)]), format!("/admin/users?q={id}")),
        "order" => (c.f("subject-order", &[("id", &id)]), format!("/orders/{id}")),
        "shop" => (c.f("subject-shop", &[("id", &id)]), format!("/shop/{id}")),
        "dead letter" => (c.f("subject-letter", &[("id", &id)]), format!("/admin/dead-letters?cursor={}", next(id))),
        _ => (subject.to_owned(), String::new()),
    }
}

/// The cursor that makes a list begin with this line.
fn next(id: &str) -> i64 {
    id.parse::<i64>().unwrap_or(0).saturating_add(1)
}

/// An action in words; one that has none yet as the log has it.
fn action_words(c: &Chrome, action: &str) -> String {
    let key = format!("act-{}", action.replace(['.', '_'], "-"));
    let words = c.t(&key);
    if words == key { action.to_owned() } else { words }
}

fn object(value: Option<&str>) -> Option<Map<String, Value>> {
    match serde_json::from_str(value?) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

/// What changed: of two objects their differing fields, of two texts both.
fn change(c: &Chrome, line: &AuditLine) -> String {
    let (before, after) = (line.before.as_deref(), line.after.as_deref());
    if let ("gate.rebuild" | "books.mend", Some(before), Some(after)) = (line.action.as_str(), before, after) {
        return books(c, before, after);
    }
    let texts = || {
        let of = |text| told(c, &line.action, text);
        [before.map(of), after.map(of)].into_iter().flatten().collect::<Vec<_>>().join(" → ")
    };
    let (Some(fields), was) = (object(after), object(before)) else { return texts() };
    if was.is_none() && before.is_some() {
        return texts();
    }
    let was = was.unwrap_or_default();
    let one = |(name, now): (&String, &Value)| {
        let (label, now_words) = (label(c, name), value(c, name, now));
        match was.get(name) {
            Some(then) if then == now => None,
            Some(then) => Some(format!("{label} {} → {now_words}", value(c, name, then))),
            None => Some(format!("{label} {now_words}")),
        }
    };
    c.listed(fields.iter().filter_map(one))
}

/// What a field of the log, or a term of the books, is called.
fn label(c: &Chrome, name: &str) -> String {
    let key = match name {
        "stockTotal" | "I" => "books-i",
        "stockLeft" | "D" => "books-d",
        "A" => "books-a",
        "gate: stock" => "books-r",
        "holders" => "log-holders",
        "epoch" => "log-epoch",
        "paused" => "chip-paused",
        "disabled" => "users-disabled",
        "beginTime" => "form-begin",
        "endTime" => "form-end",
        "title" => "form-title-field",
        "subTitle" => "form-sub-title",
        "rules" => "form-rules",
        "state" => "log-state",
        "outcome" => "log-outcome",
        _ => return name.to_owned(),
    };
    c.t(key)
}

fn value(c: &Chrome, name: &str, value: &Value) -> String {
    match value {
        Value::Bool(yes) => c.t(if *yes { "log-yes" } else { "log-no" }),
        Value::Number(n) => n.as_i64().map_or_else(|| n.to_string(), format::figure),
        Value::String(text) if matches!(name, "state" | "outcome") => state(c, text),
        Value::String(text) if matches!(name, "beginTime" | "endTime") => {
            parse_instant(text, &c.zone).map_or_else(|_| text.clone(), |at| format::exact(c, at))
        }
        Value::String(text) if text.is_empty() => c.t("log-empty"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A state of a letter or an order, or how a decision about a letter ended.
fn state(c: &Chrome, word: &str) -> String {
    let key = match word {
        "OPEN" => "letter-open",
        "RETRIED" => "letter-retried",
        "DISCARDED" => "letter-discarded",
        "LOST" => "outcome-lost",
        "SOLD_OUT" => "outcome-sold-out",
        "DUPLICATE" => "outcome-duplicate",
        "saved" => "outcome-saved",
        "closed" => "outcome-closed",
        "PAID" => "status-paid",
        "REFUNDING" => "status-refunding",
        _ => return word.to_owned(),
    };
    c.t(key)
}

/// A text of the log, which the shop wrote for itself.
fn told(c: &Chrome, action: &str, text: &str) -> String {
    match action {
        "payment.wrong_amount" => amount(c, text),
        "payment.other_order" => c.f("log-money-of", &[("id", &text)]),
        "order.refund" => match text.split_once(", restock ") {
            Some((word, restock)) => c.listed([state(c, word), c.t(if restock == "true" { "log-restock" } else { "log-kept" })]),
            None => state(c, text),
        },
        _ => text.to_owned(),
    }
}

/// `1200`, `1200 CNY`, or the sentence about a payment that came before its order.
fn amount(c: &Chrome, text: &str) -> String {
    let mut words = text.split(' ');
    let Some(fen) = words.next().and_then(|n| n.parse().ok()).map(Fen) else { return text.to_owned() };
    match words.collect::<Vec<_>>()[..] {
        [] | ["CNY"] => format!("¥{}", format::yuan(fen)),
        ["fen", "paid", "for", "an", "order", "of", due, ..] => {
            let due = due.parse().map_or_else(|_| due.to_owned(), |due| format::yuan(Fen(due)));
            c.f("log-paid-for", &[("paid", &format::yuan(fen)), ("due", &due)])
        }
        _ => text.to_owned(),
    }
}

/// `epoch 3, I 100, gate: stock none` as names and values.
fn figures(text: &str) -> Vec<(&str, &str)> {
    text.split(", ").filter_map(|pair| pair.rsplit_once(' ')).filter(|(_, n)| *n == "none" || n.parse::<i64>().is_ok()).collect()
}

/// What a rebuild or a repair wrote down: why, what was seen, and of the figures those that changed or did not fit.
fn books(c: &Chrome, before: &str, after: &str) -> String {
    let (mut said, mut was) = (Vec::new(), Vec::new());
    for (i, clause) in before.split("; ").enumerate() {
        let (why, rest) = match clause.split_once(": ") {
            Some((why, rest)) if !why.contains(' ') => (Some(why), rest),
            _ => (None, clause),
        };
        said.extend(why.map(|why| cause(c, why)));
        let found = figures(rest);
        if let Some(words) = suspect(c, rest) {
            said.push(words);
        } else if found.is_empty() {
            said.push(cause(c, rest));
        } else if i == 0 {
            was = found;
        }
    }
    let now = figures(after);
    let of = |figures: &[(&str, &str)], name: &str| figures.iter().find(|(n, _)| *n == name).map(|(_, n)| (*n).to_owned());
    let number = |n: &str| n.parse().map_or_else(|_| c.t("log-none"), format::figure);
    let mut told = Vec::new();
    for (name, n) in &now {
        match of(&was, name) {
            Some(then) if then == *n => {}
            Some(then) => told.push(format!("{} {} → {}", label(c, name), number(&then), number(n))),
            None if *name == "A" => {}
            None => told.push(format!("{} {}", label(c, name), number(n))),
        }
    }
    // The gate's own figures, where they were not the books'.
    for (name, book) in [("gate: stock", "D"), ("holders", "A")] {
        if let Some(n) = of(&was, name)
            && of(&now, book).is_some_and(|book| book != n)
        {
            told.push(format!("{} {}", label(c, name), number(&n)));
        }
    }
    said.extend((!told.is_empty()).then(|| c.listed(told)));
    c.linked(said)
}

/// Why a gate was loaded anew.
fn cause(c: &Chrome, word: &str) -> String {
    let key = match word {
        "hash" | "stock" | "total" => "cause-missing",
        "run_id" => "cause-server",
        "stream" => "cause-stream",
        "epoch" => "cause-epoch",
        "sum" | "drift" => "cause-sum",
        "closed" => "cause-closed",
        "drift_gone" => "cause-gone",
        "asked" => "cause-asked",
        _ => return word.to_owned(),
    };
    c.t(key)
}

/// What a look at the books found.
fn suspect(c: &Chrome, clause: &str) -> Option<String> {
    let key = match clause {
        "D + A is not I" => "drift-books",
        "stock and holders are not the total" => "cause-sum",
        "a holder cannot be read" => "drift-unreadable",
        _ => {
            let words: Vec<&str> = clause.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            return match words[..] {
                ["user", user, "holds", .., "order", order, "which", "has", "none"] => {
                    Some(c.f("drift-stranger", &[("user", &user), ("order", &order)]))
                }
                ["order", order, "of", "user", user, ..] => Some(c.f("drift-missing", &[("user", &user), ("order", &order)])),
                ["and", n, "more"] => Some(c.f("drift-more", &[("n", &n)])),
                _ => None,
            };
        }
    };
    Some(c.t(key))
}

/// Why an entry was put aside, or cannot be saved: what the worker wrote, in words.
pub(super) fn reason_words(c: &Chrome, reason: &str) -> String {
    let key = match reason {
        "its order id belongs to another buyer" => "bury-twice",
        "its voucher has no sale" => "bury-no-sale",
        "its epoch is newer than the database's: the database went back" => "bury-newer",
        "its buyer does not exist" => "bury-no-buyer",
        "userId is not a user's id" => return c.f("bury-bad", &[("name", &"userId")]),
        "voucherId is not a voucher's id" => return c.f("bury-bad", &[("name", &"voucherId")]),
        _ => {
            let rest = |before: &str| reason.strip_prefix(before);
            if let Some(id) = rest("no voucher ") {
                return c.f("bury-no-voucher", &[("id", &id)]);
            }
            if let Some(name) = rest("unknown field ") {
                return c.f("bury-unknown", &[("name", &name)]);
            }
            if let Some(error) = rest("cannot be saved: ") {
                return c.f("bury-database", &[("error", &error)]);
            }
            let Some((name, what)) = reason.split_once(' ') else { return reason.to_owned() };
            return match what.split(':').next().unwrap_or_default() {
                "is missing" => c.f("bury-missing", &[("name", &name)]),
                "is there twice" => c.f("bury-repeated", &[("name", &name)]),
                "is not text" | "is not a number" => c.f("bury-bad", &[("name", &name)]),
                _ => reason.to_owned(),
            };
        }
    };
    c.t(key)
}
