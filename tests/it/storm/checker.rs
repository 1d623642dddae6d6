//! Judges a history and the state at rest. Pure: it says what is wrong and why, and nothing when all promises were kept.
//!
//! Every rule is conservative: of two calls that overlap nothing is said; a time-out may or may not have happened.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::history::{Answer, Asked, Call, Fired, Push, Shown};

/// A row of the books, its user told as the client's number.
#[derive(Debug, Clone)]
pub struct Row {
    pub client: usize,
    pub voucher: i64,
    pub live: bool,
    pub shown: Shown,
}

/// A sale at rest.
#[derive(Debug, Clone, Default)]
pub struct SaleAtRest {
    pub total: i64,
    pub left: i64,
    pub gate_stock: Option<i64>,
    /// Client → order.
    pub holders: BTreeMap<usize, i64>,
}

/// A line of the shop's or the provider's books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Money {
    pub transaction: String,
    pub order: i64,
    pub amount: i64,
    /// State of a payment; `paid` or `refunded` with the provider.
    pub word: String,
}

/// Everything at rest.
#[derive(Debug, Clone, Default)]
pub struct AtRest {
    /// When the books began to be read; none: after everything else.
    pub read_at: Option<u64>,
    pub rows: BTreeMap<i64, Row>,
    pub sales: BTreeMap<i64, SaleAtRest>,
    /// What its ticket says of each told id.
    pub verdicts: BTreeMap<i64, Shown>,
    /// Entries, open outbox rows, unsent notices and so on that should be gone, by name.
    pub left_over: BTreeMap<&'static str, i64>,
    pub payments: Vec<Money>,
    pub provider: Vec<Money>,
    /// From the end of the last fault until everything sold again, in ms; none: never.
    pub open_after: Option<u64>,
}

/// What is judged.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    pub calls: Vec<Call>,
    pub pushes: Vec<Push>,
    pub faults: Vec<Fired>,
    pub rest: AtRest,
    /// Found by looks at the running shop.
    pub wrongs: Vec<String>,
    /// When stock and holders of a gate did not make its total.
    pub sums: Vec<(u64, String)>,
    /// The gates have to be open again this many ms after the last fault.
    pub open_within: u64,
}

/// A gate whose key was deleted fits again within this, in microseconds: another fault may stand in its way.
const MENDED_WITHIN: u64 = 30_000_000;

/// What is wrong; empty: every promise was kept.
pub fn judge(judged: &Judged) -> Vec<String> {
    let mut wrong = judged.wrongs.clone();
    let facts = Facts::of(judged);
    owners(judged, &mut wrong);
    endings(judged, &facts, &mut wrong);
    explained(judged, &facts, &mut wrong);
    books(judged, &mut wrong);
    verdicts(judged, &mut wrong);
    refusals(judged, &facts, &mut wrong);
    seconds(judged, &facts, &mut wrong);
    money(judged, &mut wrong);
    sums(judged, &mut wrong);
    rest(judged, &mut wrong);
    wrong
}

const LIVE: [&str; 3] = ["PENDING", "PAID", "REFUNDING"];

/// An id as its buyer was first told it.
struct FirstTold {
    client: usize,
    voucher: i64,
    /// When the buyer knew it.
    known: u64,
    /// When the call that told it began.
    began: u64,
    /// Whether by an admission, not only by DUPLICATE.
    admitted: bool,
}

struct Facts {
    told: BTreeMap<i64, FirstTold>,
    /// Client and sale → the ids that he was told.
    of: HashMap<(usize, i64), Vec<i64>>,
    /// Up to when an order is known to have held its unit.
    live_until: HashMap<i64, u64>,
}

impl Facts {
    fn of(judged: &Judged) -> Self {
        let mut told: BTreeMap<i64, FirstTold> = BTreeMap::new();
        let mut live_until: HashMap<i64, u64> = HashMap::new();
        for call in &judged.calls {
            if let (Asked::Buy { voucher }, Some(known), Some(id)) = (&call.asked, call.ended, named(&call.answer)) {
                let admitted = matches!(call.answer, Answer::Told(_));
                let new = FirstTold { client: call.client, voucher: *voucher, known, began: call.began, admitted };
                match told.get_mut(&id) {
                    Some(old) if old.known <= known => old.admitted |= admitted,
                    Some(old) => *old = FirstTold { admitted: admitted || old.admitted, ..new },
                    None => drop(told.insert(id, new)),
                }
            }
            if let (Asked::Read { .. }, Answer::Order(shown)) = (&call.asked, &call.answer)
                && LIVE.contains(&shown.status.as_str())
            {
                let until = live_until.entry(shown.order).or_default();
                *until = call.began.max(*until);
            }
        }
        for (id, row) in &judged.rest.rows {
            if row.live {
                live_until.insert(*id, u64::MAX);
            }
        }
        let mut of: HashMap<(usize, i64), Vec<i64>> = HashMap::new();
        for (id, first) in &told {
            of.entry((first.client, first.voucher)).or_default().push(*id);
        }
        Self { told, of, live_until }
    }

    /// The order of `client` that held a unit of `voucher` from before `from` until after `to`.
    fn held(&self, client: usize, voucher: i64, from: u64, to: u64) -> Option<i64> {
        let ids = self.of.get(&(client, voucher))?.iter().copied().filter(|id| self.told[id].known < from);
        ids.into_iter().find(|id| self.live_until.get(id).is_some_and(|until| *until > to))
    }
}

fn named(answer: &Answer) -> Option<i64> {
    match answer {
        Answer::Told(id) | Answer::No(_, Some(id)) => Some(*id),
        _ => None,
    }
}

/// An id belongs to one buyer and one sale.
fn owners(judged: &Judged, wrong: &mut Vec<String>) {
    let mut owner: BTreeMap<i64, (usize, i64)> = BTreeMap::new();
    for call in &judged.calls {
        if let (Asked::Buy { voucher }, Some(id)) = (&call.asked, named(&call.answer)) {
            let mine = (call.client, *voucher);
            let first = *owner.entry(id).or_insert(mine);
            if first != mine {
                wrong.push(format!(
                    "id {id} was told to client {} of sale {} and to client {} of sale {}",
                    first.0, first.1, mine.0, mine.1
                ));
            }
        }
    }
}

/// Every id that was told is one row of that buyer, or LOST, and LOST only where Redis lost something.
fn endings(judged: &Judged, facts: &Facts, wrong: &mut Vec<String>) {
    for (id, told) in &facts.told {
        let end = match judged.rest.rows.get(id) {
            Some(row) => {
                if (row.client, row.voucher) != (told.client, told.voucher) {
                    wrong.push(format!("id {id} of client {} is a row of client {}", told.client, row.client));
                }
                Some(&row.shown)
            }
            None => judged.rest.verdicts.get(id).filter(|shown| shown.status == "FAILED"),
        };
        let Some(end) = end else {
            let reads = judged.rest.verdicts.get(id).map_or("nothing", |shown| shown.status.as_str());
            wrong.push(format!("id {id} was told to client {} and ends as {reads}, without a row", told.client));
            continue;
        };
        if end.status == "FAILED" {
            let lost_by_a_fault = judged.faults.iter().any(|fault| fault.loses && fault.to >= told.began);
            if end.reason != "LOST" {
                wrong.push(format!("id {id} was admitted and ends FAILED({})", end.reason));
            } else if !lost_by_a_fault {
                wrong.push(format!("id {id} is LOST, and Redis had lost nothing since it was asked for"));
            }
        }
    }
}

/// A row that nobody was told of belongs to somebody who got no answer; nobody has two live ones.
fn explained(judged: &Judged, facts: &Facts, wrong: &mut Vec<String>) {
    let mut unsure: BTreeSet<(usize, i64)> = BTreeSet::new();
    for call in &judged.calls {
        if let (Asked::Buy { voucher }, Answer::Unknown(_)) = (&call.asked, &call.answer) {
            unsure.insert((call.client, *voucher));
        }
    }
    let mut live: BTreeMap<(usize, i64), Vec<i64>> = BTreeMap::new();
    for (id, row) in &judged.rest.rows {
        if !facts.told.contains_key(id) && !unsure.contains(&(row.client, row.voucher)) {
            wrong.push(format!("order {id} of client {}: every answer that he got says that he has none", row.client));
        }
        if row.live {
            live.entry((row.client, row.voucher)).or_default().push(*id);
        }
    }
    for ((client, voucher), ids) in live {
        if ids.len() > 1 {
            wrong.push(format!("client {client} holds {ids:?} of sale {voucher}"));
        }
    }
}

/// D + A = I, R = D, and the holders are the live orders.
fn books(judged: &Judged, wrong: &mut Vec<String>) {
    for (voucher, sale) in &judged.rest.sales {
        let live: BTreeSet<(usize, i64)> = judged
            .rest
            .rows
            .iter()
            .filter(|(_, row)| row.voucher == *voucher && row.live)
            .map(|(id, row)| (row.client, *id))
            .collect();
        let sold = i64::try_from(live.len()).unwrap();
        if sale.left + sold != sale.total || sale.left < 0 {
            wrong.push(format!("sale {voucher}: {} left and {sold} live orders of {}", sale.left, sale.total));
        }
        if sale.gate_stock != Some(sale.left) {
            wrong.push(format!("sale {voucher}: the gate has {:?}, the books {}", sale.gate_stock, sale.left));
        }
        let holders: BTreeSet<(usize, i64)> = sale.holders.iter().map(|(client, id)| (*client, *id)).collect();
        if let Some((client, id)) = holders.symmetric_difference(&live).next() {
            wrong.push(format!("sale {voucher}: order {id} of client {client} is live or a holder, and not both"));
        }
    }
}

fn may_follow(before: &str, after: &str) -> bool {
    before == after
        || match before {
            "QUEUED" => true,
            "PENDING" => after != "QUEUED" && after != "FAILED",
            "PAID" => after == "REFUNDING" || after == "REFUNDED",
            "REFUNDING" => after == "REFUNDED",
            _ => false,
        }
}

/// What was seen of an order: when it was asked for (none: it came by itself), when it was seen, what, by its ticket.
type Look<'a> = (Option<u64>, u64, Option<&'a Shown>, bool);

/// People log in again this long after a loss, in microseconds.
const LOG_IN_AGAIN: u64 = 500_000;

/// What was shown once is never taken back, and versions only grow; a push shows nothing that is not committed.
fn verdicts(judged: &Judged, wrong: &mut Vec<String>) {
    let mut seen: BTreeMap<i64, Vec<Look>> = BTreeMap::new();
    // People's sessions go with Redis, and a stranger's order is not found: not even his own is, before he logs in again.
    let logged_out = |from: u64, to: u64| judged.faults.iter().any(|f| f.loses && f.from <= to && from <= f.to + LOG_IN_AGAIN);
    for call in &judged.calls {
        let (Asked::Read { order, ticket }, Some(ended)) = (&call.asked, call.ended) else { continue };
        match &call.answer {
            Answer::Order(shown) => seen.entry(*order).or_default().push((Some(call.began), ended, Some(shown), *ticket)),
            Answer::No(_, _) if !*ticket && logged_out(call.began, ended) => {}
            Answer::No(_, _) => seen.entry(*order).or_default().push((Some(call.began), ended, None, *ticket)),
            _ => {}
        }
    }
    for push in &judged.pushes {
        if let Some(row) = judged.rest.rows.get(&push.shown.order).filter(|row| row.client != push.client) {
            wrong.push(format!("order {} of client {} was pushed to client {}", push.shown.order, row.client, push.client));
        }
        seen.entry(push.shown.order).or_default().push((None, push.at, Some(&push.shown), false));
    }
    let at = judged.rest.read_at.unwrap_or(u64::MAX);
    for (id, row) in &judged.rest.rows {
        seen.entry(*id).or_default().push((Some(at), at, Some(&row.shown), false));
    }
    for (id, mut looks) in seen {
        looks.sort_by_key(|look| look.1);
        let mut asked: Vec<_> = looks.iter().filter_map(|look| look.0.map(|began| (began, look))).collect();
        asked.sort_by_key(|look| look.0);
        let (mut newest, mut next): (Option<&Shown>, usize) = (None, 0);
        for (began, (_, _, shown, ticket)) in asked {
            while next < looks.len() && looks[next].1 < began {
                if let Some(before) = looks[next].2
                    && newest.is_none_or(|n| before.version > n.version || (n.status == "QUEUED" && before.status != "QUEUED"))
                {
                    newest = Some(before);
                }
                next += 1;
            }
            match (newest, shown) {
                (Some(before), Some(now)) if before.version > now.version || !may_follow(&before.status, &now.status) => {
                    wrong.push(format!(
                        "order {id} was shown {} version {} and later {} version {}",
                        before.status, before.version, now.status, now.version
                    ));
                    break;
                }
                (_, None) if *ticket => {
                    wrong.push(format!("order {id} was told, and its ticket finds nothing"));
                    break;
                }
                (Some(before), None) if before.status != "QUEUED" && before.status != "FAILED" => {
                    wrong.push(format!("order {id} was shown {} and later nothing", before.status));
                    break;
                }
                _ => {}
            }
        }
        let mut by_version: BTreeMap<i64, &str> = BTreeMap::new();
        for shown in looks.iter().filter_map(|look| look.2).filter(|shown| shown.status != "QUEUED") {
            let first = *by_version.entry(shown.version).or_insert(&shown.status);
            if first != shown.status {
                wrong.push(format!("order {id} version {}: {first} and {}", shown.version, shown.status));
                break;
            }
        }
    }
}

/// "Sold out" only when it can have been; never to a holder; a DUPLICATE names the order that he has.
fn refusals(judged: &Judged, facts: &Facts, wrong: &mut Vec<String>) {
    // Sale → who may hold a unit, and since when at the earliest.
    let mut may_hold: BTreeMap<i64, BTreeMap<usize, u64>> = BTreeMap::new();
    for call in &judged.calls {
        if let Asked::Buy { voucher } = call.asked
            && (named(&call.answer).is_some() || matches!(call.answer, Answer::Unknown(_)))
        {
            let since = may_hold.entry(voucher).or_default().entry(call.client).or_insert(u64::MAX);
            *since = call.began.min(*since);
        }
    }
    for call in &judged.calls {
        let (Asked::Buy { voucher }, Some(ended), Answer::No(code, named)) = (&call.asked, call.ended, &call.answer) else {
            continue;
        };
        if code == "NOT_FOUND" {
            wrong.push(format!("client {}: sale {voucher} was not found", call.client));
        }
        let held = facts.held(call.client, *voucher, call.began, ended);
        if let (Some(held), true) = (held, matches!(code.as_str(), "SOLD_OUT" | "PAUSED" | "ENDED" | "NOT_BEGUN")) {
            wrong.push(format!("client {} holds order {held} of sale {voucher} and heard {code}", call.client));
        }
        if code == "SOLD_OUT"
            && let Some(sale) = judged.rest.sales.get(voucher)
        {
            let most = may_hold.get(voucher).map_or(0, |who| who.values().filter(|since| **since <= ended).count());
            if i64::try_from(most).unwrap() < sale.total {
                wrong.push(format!(
                    "sale {voucher}: {most} clients at most hold one of {} units, and client {} heard SOLD_OUT",
                    sale.total, call.client
                ));
            }
        }
        if code == "DUPLICATE" {
            let Some(id) = named else {
                wrong.push(format!("client {} heard DUPLICATE without an id", call.client));
                continue;
            };
            if let Some(held) = held.filter(|held| held != id) {
                wrong.push(format!("client {} holds order {held} and heard DUPLICATE of {id}", call.client));
            }
            let explained = facts.told.get(id).is_some_and(|told| told.admitted)
                || judged.calls.iter().any(|other| {
                    other.client == call.client
                        && other.asked == call.asked
                        && other.began <= ended
                        && matches!(other.answer, Answer::Unknown(_))
                });
            if !explained {
                wrong.push(format!("client {} heard DUPLICATE of {id}, which nobody was ever told", call.client));
            }
        }
    }
}

/// Whoever holds a unit is not admitted a second time.
fn seconds(judged: &Judged, facts: &Facts, wrong: &mut Vec<String>) {
    for call in &judged.calls {
        if let (Asked::Buy { voucher }, Some(ended), Answer::Told(id)) = (&call.asked, call.ended, &call.answer)
            && let Some(held) = facts.held(call.client, *voucher, call.began, ended).filter(|held| held != id)
        {
            wrong.push(format!("client {} holds order {held} of sale {voucher} and was admitted again as {id}", call.client));
        }
    }
}

/// All money that came in is kept for one paid order, or went back once.
fn money(judged: &Judged, wrong: &mut Vec<String>) {
    let rest = &judged.rest;
    for taken in rest.provider.iter().filter(|line| line.word == "paid") {
        let known: Vec<&Money> = rest.payments.iter().filter(|p| p.transaction == taken.transaction).collect();
        let back: Vec<&Money> =
            rest.provider.iter().filter(|line| line.word == "refunded" && line.transaction == taken.transaction).collect();
        let (states, sum) =
            (known.iter().map(|p| p.word.as_str()).collect::<Vec<_>>(), back.iter().map(|b| b.amount).sum::<i64>());
        let right = match states[..] {
            ["APPLIED"] => back.is_empty(),
            ["REFUNDED"] => back.len() == 1 && sum == taken.amount,
            _ => false,
        };
        if !right {
            wrong.push(format!(
                "money {} for order {}: our books have {states:?}, {sum} of {} went back",
                taken.transaction, taken.order, taken.amount
            ));
        }
    }
    for payment in &rest.payments {
        if !rest.provider.iter().any(|line| line.word == "paid" && line.transaction == payment.transaction) {
            wrong.push(format!("payment {}: the provider never took it", payment.transaction));
        }
        let status = rest.rows.get(&payment.order).map_or("no row", |row| row.shown.status.as_str());
        if payment.word == "APPLIED" && status != "PAID" {
            wrong.push(format!("order {} is {status} and its payment {} is applied", payment.order, payment.transaction));
        }
    }
    for (id, row) in rest.rows.iter().filter(|(_, row)| row.shown.status == "PAID") {
        let applied = rest.payments.iter().filter(|p| p.order == *id && p.word == "APPLIED").count();
        if applied != 1 {
            wrong.push(format!("order {id} of client {} is PAID by {applied} payments", row.client));
        }
    }
}

/// The gate keeps its own books, unless somebody deletes one of its keys.
fn sums(judged: &Judged, wrong: &mut Vec<String>) {
    for (at, what) in &judged.sums {
        let by_hand = |f: &Fired| f.row == "F16" && f.from <= at + 1_000_000 && *at <= f.to + MENDED_WITHIN;
        if !judged.faults.iter().any(by_hand) {
            wrong.push(format!("at {} ms the gate of {what}", at / 1000));
            return;
        }
    }
}

/// Nothing is under way any more, and the gate was open again in time.
fn rest(judged: &Judged, wrong: &mut Vec<String>) {
    for (name, left) in &judged.rest.left_over {
        if *left != 0 {
            wrong.push(format!("at rest: {left} {name}"));
        }
    }
    match judged.rest.open_after {
        None => wrong.push(String::from("the gates never opened again after the last fault")),
        Some(ms) if ms > judged.open_within => wrong.push(format!("the gates were open {ms} ms after the last fault")),
        Some(_) => {}
    }
}
