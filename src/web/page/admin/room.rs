//! `/admin`: what is wrong, how the system is, ten minutes of it, a panel a sale, what waits, what was done.

use askama::Template;
use axum::http::StatusCode;

use crate::store::{AuditLine, OutboxLine};
use crate::web::page::admin::audit::audit_line;
use crate::web::page::admin::lists::{Line, kind_words};
use crate::web::page::admin::plot::{PlotPart, Series};
use crate::web::page::admin::sale::{SalePart, SaleView, ToolsPart, verdict};
use crate::web::page::admin::{Number, Part, Said};
use crate::web::page::{Chrome, format, is_response};

/// What the control room shows.
#[derive(Debug, Clone)]
pub struct Room<'a> {
    /// Sales that are on, that come, and the latest that are over, in the order to show.
    pub sales: Vec<SaleView<'a>>,
    /// The last minutes of those that are on.
    pub series: Vec<Series>,
    /// Orders saved in a second, lately.
    pub rate: i64,
    /// Entries that wait to be saved, over all lanes; none: Redis cannot be asked.
    pub waiting: Option<i64>,
    /// Sockets that are open in this process.
    pub sockets: usize,
    /// What waits in the outbox, as many as one page shows.
    pub owed: &'a [OutboxLine],
    /// There are more.
    pub owed_more: bool,
    /// Dead letters that wait for a person.
    pub letters: i64,
    /// The latest lines of the audit log.
    pub log: &'a [AuditLine],
}

/// The part `wrong`: empty when nothing is.
#[derive(Template)]
#[template(path = "admin/part_wrong.html")]
struct WrongPart {
    c: Chrome,
    lines: Vec<(String, String, String)>,
}

/// The part `system`.
#[derive(Template)]
#[template(path = "admin/part_system.html")]
struct SystemPart {
    numbers: Vec<Number>,
}

/// The part `as-of`.
#[derive(Template)]
#[template(path = "admin/part_as_of.html")]
struct AsOfPart {
    words: String,
}

/// Things that wait, of one kind.
struct Owed {
    label: String,
    count: usize,
    tone: &'static str,
    words: String,
}

/// The part `below`: what waits, and what was done.
#[derive(Template)]
#[template(path = "admin/part_below.html")]
struct BelowPart {
    c: Chrome,
    owed: Vec<Owed>,
    log: Vec<Line>,
}

fn wrong(c: &Chrome, room: &Room<'_>) -> WrongPart {
    let bad = room.sales.iter().filter(|view| view.figures.balanced() == Some(false));
    let line = |view: &SaleView<'_>| (view.voucher.id.to_string(), view.voucher.fields.title.clone(), verdict(c, view.figures).0);
    WrongPart { c: c.clone(), lines: bad.map(line).collect() }
}

fn system(c: &Chrome, room: &Room<'_>) -> SystemPart {
    let count = |n: usize| format::figure(i64::try_from(n).unwrap_or(i64::MAX));
    let bad = room.sales.iter().filter(|view| view.figures.balanced() == Some(false)).count();
    let owed = if room.owed_more { format!("{}+", count(room.owed.len())) } else { count(room.owed.len()) };
    let to = |href: &str| href.to_owned();
    let numbers = vec![
        Number::new(c, "rate", "n-rate", format::figure(room.rate), to("/admin/seconds")),
        Number::new(c, "lag", "n-lag", room.waiting.map_or_else(|| to("–"), format::figure), to("/admin/waiting")),
        Number::new(c, "sockets", "n-sockets", count(room.sockets), to("/admin/sockets")),
        Number::new(c, "owed", "n-owed", owed, to("/admin/outbox")),
        Number::new(c, "letters", "n-letters", format::figure(room.letters), to("/admin/dead-letters")),
        Number::new(c, "unbalanced", "n-unbalanced", count(bad), to("#wrong")),
    ];
    SystemPart { numbers }
}

fn owed(c: &Chrome, lines: &[OutboxLine]) -> Vec<Owed> {
    let mut kinds: Vec<&str> = lines.iter().map(|line| line.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |kind: &str| {
        let mine: Vec<_> = lines.iter().filter(|line| line.kind == kind).collect();
        let tries = mine.iter().map(|line| line.attempts).max().unwrap_or(0);
        Owed {
            label: kind_words(c, kind),
            count: mine.len(),
            tone: if tries > 2 { "warn" } else { "mute" },
            words: c.f("owed-tries", &[("n", &tries)]),
        }
    };
    kinds.into_iter().map(of).collect()
}

fn below(c: &Chrome, room: &Room<'_>) -> BelowPart {
    let log = room.log.iter().map(|line| audit_line(c, line)).collect();
    BelowPart { c: c.clone(), owed: owed(c, room.owed), log }
}

/// A sale's panel.
struct Panel {
    id: String,
    sale: SalePart,
    tools: ToolsPart,
}

/// The control room.
#[derive(Template)]
#[template(path = "admin/control.html")]
pub struct ControlRoomPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    as_of: AsOfPart,
    letters: i64,
    said: Said,
    wrong: WrongPart,
    system: SystemPart,
    plot: PlotPart,
    panels: Vec<Panel>,
    below: BelowPart,
}

impl ControlRoomPage {
    /// The page; `said`: what was just done.
    #[must_use]
    pub fn new(c: Chrome, room: &Room<'_>, said: Said) -> Self {
        let panel = |view: &SaleView<'_>| Panel {
            id: view.voucher.id.to_string(),
            sale: SalePart::new(&c, *view),
            tools: ToolsPart::new(&c, *view),
        };
        Self {
            status: StatusCode::OK,
            as_of: AsOfPart { words: c.f("admin-as-of", &[("time", &format::exact(&c, c.now))]) },
            letters: room.letters,
            said,
            wrong: wrong(&c, room),
            system: system(&c, room),
            plot: PlotPart::new(&c, None, &room.series),
            panels: room.sales.iter().map(panel).collect(),
            below: below(&c, room),
            c,
        }
    }

    /// Every part of it that changes by itself.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let named = |name: &str, part: askama::Result<String>| (name.to_owned(), part.unwrap_or_default());
        let mut parts = vec![
            named("as-of", self.as_of.render()),
            named("wrong", self.wrong.render()),
            named("system", self.system.render()),
            self.plot.part(),
            named("below", self.below.render()),
        ];
        parts.extend(self.panels.iter().flat_map(|panel| [panel.sale.part(), panel.tools.part()]));
        parts
    }
}
is_response!(ControlRoomPage);
