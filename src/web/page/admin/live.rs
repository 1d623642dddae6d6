//! Two lists of what is there at this instant and in no table: the sockets of this process, and what waits in the stream.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::ids::{Lane, VoucherId};
use crate::domain::time::Millis;
use crate::push::hub::{Listener, Roll};
use crate::service::desk::{WaitingEntry, WaitingList};
use crate::web::page::admin::ListPage;
use crate::web::page::admin::lists::{Choice, Line, timed, user_link};
use crate::web::page::{Chrome, format};

/// Sales that one line names before it says how many more there are.
const NAMED: usize = 3;

/// Titles of vouchers, as many as were asked for.
pub type Titles = HashMap<VoucherId, String>;

fn voucher_link(c: &Chrome, titles: &Titles, id: VoucherId) -> (String, String) {
    let title = titles.get(&id).cloned().unwrap_or_else(|| c.f("subject-voucher", &[("id", &id)]));
    (title, format!("/admin/vouchers/{id}"))
}

fn count(n: usize) -> String {
    format::figure(i64::try_from(n).unwrap_or(i64::MAX))
}

fn waited(c: &Chrome, time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 120 { c.f("waited-seconds", &[("n", &seconds)]) } else { c.f("waited-minutes", &[("n", &(seconds / 60))]) }
}

/// A sentence, and one more.
fn said(first: String, more: Option<String>) -> String {
    more.into_iter().fold(first, |said, more| format!("{said} {more}"))
}

impl ListPage {
    /// The sockets of this process, called `process`: the newest, or (`by_sale`) how many watch each sale.
    #[must_use]
    pub fn sockets(c: Chrome, roll: &Roll, process: &str, titles: &Titles, by_sale: bool) -> Self {
        let lines = if by_sale {
            let line = |(voucher, by): &(VoucherId, usize)| {
                let (title, href) = voucher_link(&c, titles, *voucher);
                Line { title, href, count: count(*by), ..Line::default() }
            };
            roll.watched.iter().map(line).collect()
        } else {
            roll.newest.iter().map(|listener| socket_line(&c, titles, listener)).collect()
        };
        let choice = |key: &str, href: &str, here| Choice { label: c.t(key), href: href.to_owned(), here };
        let choices = vec![
            choice("sockets-newest", "/admin/sockets", !by_sale),
            choice("sockets-by-sale", "/admin/sockets?by=sale", by_sale),
        ];
        let lead = c.f(
            "sockets-lead",
            &[
                ("process", &process),
                ("n", &count(roll.all)),
                ("users", &count(roll.all - roll.visitors)),
                ("visitors", &count(roll.visitors)),
            ],
        );
        let shown = if by_sale { 0 } else { roll.newest.len() };
        let more = (shown > 0 && roll.all > shown).then(|| c.f("sockets-more", &[("n", &shown)]));
        let (lead, empty) = (said(lead, more), c.t("sockets-none"));
        let mut page = Self::new(c, "n-sockets", lines);
        (page.lead, page.empty, page.choices) = (lead, empty, choices);
        page
    }

    /// Admitted orders that are not saved yet, the oldest first.
    #[must_use]
    pub fn waiting(c: Chrome, waiting: &WaitingList, titles: &Titles, name_lanes: bool) -> Self {
        let line = |(lane, entry): &(Lane, WaitingEntry)| {
            let mut line = waiting_line(&c, titles, entry);
            if name_lanes {
                line.words.push(c.f("waiting-lane", &[("n", &lane.0)]));
            }
            line
        };
        let lines: Vec<Line> = waiting.oldest.iter().map(line).collect();
        let more = i64::try_from(lines.len()).is_ok_and(|shown| shown < waiting.all);
        let more = more.then(|| c.f("waiting-more", &[("n", &lines.len())]));
        let lead = c.f("waiting-lead", &[("n", &format::figure(waiting.all))]);
        let (lead, empty) = (said(lead, more), c.t("waiting-none"));
        let mut page = Self::new(c, "n-lag", lines);
        (page.lead, page.empty) = (lead, empty);
        page
    }
}

fn socket_line(c: &Chrome, titles: &Titles, listener: &Listener) -> Line {
    let (title, href) = match listener.user {
        Some(user) => user_link(c, user),
        None => (c.t("sockets-visitor"), String::new()),
    };
    let links = listener.watched.iter().take(NAMED).map(|id| voucher_link(c, titles, *id)).collect();
    let rest = listener.watched.len().saturating_sub(NAMED);
    let mut words = Vec::new();
    if rest > 0 {
        words.push(c.f("sockets-rest", &[("n", &rest)]));
    }
    if listener.desk {
        words.push(c.t("admin-title"));
    } else if listener.watched.is_empty() {
        words.push(c.t("sockets-elsewhere"));
    }
    timed(c, listener.since, Line { title, href, words, links, ..Line::default() })
}

fn waiting_line(c: &Chrome, titles: &Titles, waiting: &WaitingEntry) -> Line {
    let mut words = Vec::new();
    if let Some(given) = &waiting.given {
        words.push(c.f("waiting-with", &[("name", &given.consumer)]));
        if given.deliveries > 1 {
            words.push(c.f("waiting-again", &[("n", &given.deliveries)]));
        }
    }
    let added = Millis(i64::try_from(waiting.stream_id.ms).unwrap_or(i64::MAX));
    words.insert(0, waited(c, added.until(c.now)));
    let line = match &waiting.entry {
        Ok(entry) => Line {
            status: if waiting.given.is_some() { "PENDING" } else { "QUEUED" },
            chip: c.t(if waiting.given.is_some() { "waiting-given" } else { "waiting-not-given" }),
            title: entry.order.to_string(),
            href: format!("/orders/{}", entry.order),
            links: vec![user_link(c, entry.user), voucher_link(c, titles, entry.voucher)],
            ..Line::default()
        },
        Err(_) => {
            Line { status: "FAILED", chip: c.t("waiting-unreadable"), title: waiting.stream_id.to_string(), ..Line::default() }
        }
    };
    timed(c, added, Line { words, ..line })
}
