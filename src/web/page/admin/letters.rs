//! `/admin/dead-letters`: entries that no repeating will save, each with its reason, until a person decides.

use askama::Template;
use axum::http::StatusCode;
use serde_json::Value;

use crate::i18n;
use crate::service::dead_letters::Prospect;
use crate::service::desk::Entry;
use crate::service::place_orders::buried_entry;
use crate::store::{BuriedLetter, LetterState};
use crate::web::page::admin::Said;
use crate::web::page::admin::audit::reason_words;
use crate::web::page::{Chrome, format, is_response};

/// One letter.
struct Letter {
    id: i64,
    open: bool,
    /// It makes sense to try it again.
    retry: bool,
    /// It makes sense to discard it.
    discard: bool,
    /// What a decision would do; and what the question before a discard says, and its answer.
    why: String,
    question: &'static str,
    discard_why: String,
    discard_yes: &'static str,
    chip: String,
    tone: &'static str,
    reason: String,
    at: String,
    datetime: String,
    /// What the entry said: names and values.
    fields: Vec<(String, String)>,
}

/// What a readable entry says, in words.
fn facts(c: &Chrome, entry: &Entry) -> Vec<(String, String)> {
    let fact = |key: &str, value: String| (c.t(key), value);
    vec![
        fact("fact-order", entry.order.to_string()),
        fact("letter-user", entry.user.to_string()),
        fact("voucher-number", entry.voucher.to_string()),
        fact("log-epoch", entry.epoch.to_string()),
        fact("letter-admitted", format::exact(c, entry.admitted_at)),
    ]
}

/// A letter, and what a decision about it would do.
pub type Decidable = (BuriedLetter, Prospect);

/// The keys of what a decision would do, and of what discarding would.
fn why(prospect: Prospect) -> (&'static str, &'static str) {
    match prospect {
        Prospect::Whole => ("letter-why", "discard-why"),
        Prospect::Lost => ("letter-why-lost", "discard-why-lost"),
        Prospect::Nobody => ("letter-why-nobody", "discard-why-nobody"),
        Prospect::NoSale => ("letter-why-no-sale", "discard-why-no-sale"),
        Prospect::Newer => ("letter-why-newer", "letter-why-newer"),
        Prospect::HasARow => ("letter-why-row", "discard-why-row"),
        Prospect::Unreadable => ("letter-why-unreadable", "discard-why-unreadable"),
    }
}

fn letter(c: &Chrome, (buried, prospect): &Decidable) -> Letter {
    let (chip, tone) = match buried.state {
        LetterState::Open => ("letter-open", "bad"),
        LetterState::Retried => ("letter-retried", "good"),
        LetterState::Discarded => ("letter-discarded", "mute"),
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let entry = &buried.letter.entry_json;
    let fields = match (buried_entry(entry), serde_json::from_str(entry)) {
        (Some(entry), _) => facts(c, &entry),
        (None, Ok(Value::Object(fields))) => fields.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        _ => vec![(c.t("letter-content"), entry.clone())],
    };
    Letter {
        id: buried.id,
        open: buried.state == LetterState::Open,
        retry: matches!(prospect, Prospect::Whole | Prospect::Lost),
        discard: *prospect != Prospect::Newer,
        why: c.t(why(*prospect).0),
        question: match prospect {
            Prospect::NoSale | Prospect::HasARow | Prospect::Unreadable => "discard-title-unreadable",
            _ => "discard-title",
        },
        discard_why: c.t(why(*prospect).1),
        discard_yes: match prospect {
            Prospect::Whole | Prospect::Nobody => "discard-yes",
            _ => "discard-yes-unreadable",
        },
        chip: c.t(chip),
        tone,
        reason: reason_words(c, &buried.letter.reason),
        at: format::exact(c, buried.created_at),
        datetime: buried.created_at.rfc3339(),
        fields,
    }
}

/// The page.
#[derive(Template)]
#[template(path = "admin/dead_letters.html")]
pub struct LettersPage {
    /// 200, or what a refusal asks for.
    pub status: StatusCode,
    c: Chrome,
    said: Said,
    waiting: i64,
    lead: String,
    letters: Vec<Letter>,
    older: Option<String>,
}

impl LettersPage {
    /// A page of letters, newest first; `waiting`: how many wait in all.
    #[must_use]
    pub fn new(c: Chrome, letters: &[Decidable], waiting: i64, next: Option<i64>, said: Said) -> Self {
        Self {
            status: StatusCode::OK,
            said,
            waiting,
            lead: c.f("letters-waiting", &[("n", &format::figure(waiting))]),
            letters: letters.iter().map(|decidable| letter(&c, decidable)).collect(),
            older: next.map(|n| format!("/admin/dead-letters?cursor={n}")),
            c,
        }
    }

    /// The page with the sentence of `code`.
    #[must_use]
    pub fn refused(mut self, status: StatusCode, code: &str, seconds: u64) -> Self {
        self.status = status;
        self.said.not = i18n::page_message(self.c.lang, code, "", seconds, "");
        self
    }

    /// The page after somebody else decided about a letter.
    #[must_use]
    pub fn decided(mut self) -> Self {
        self.status = StatusCode::CONFLICT;
        self.said.not = self.c.t("letter-decided");
        self
    }

    /// The page after a letter that cannot be saved, whoever tries.
    #[must_use]
    pub fn stuck(mut self, why: &str) -> Self {
        self.status = StatusCode::CONFLICT;
        self.said.not = self.c.f("letter-stuck", &[("why", &reason_words(&self.c, why))]);
        self
    }
}
is_response!(LettersPage);

/// Asks once more before a letter is given up.
#[derive(Template)]
#[template(path = "admin/discard.html")]
pub struct DiscardPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    letter: Letter,
}

impl DiscardPage {
    /// The question about this letter.
    #[must_use]
    pub fn new(c: Chrome, decidable: &Decidable) -> Self {
        Self { status: StatusCode::OK, letter: letter(&c, decidable), c }
    }
}
is_response!(DiscardPage);
