//! `/admin/dead-letters`: entries that no repeating will save, each with its reason, until a person decides.

use askama::Template;
use axum::http::StatusCode;
use serde_json::Value;

use crate::i18n;
use crate::service::place_orders::buried_entry;
use crate::store::{BuriedLetter, LetterState};
use crate::web::page::admin::Said;
use crate::web::page::{Chrome, format, is_response};

/// One letter.
struct Letter {
    id: i64,
    open: bool,
    /// Whether it names an order; else there is nothing to try again, no buyer to tell and no unit that could return.
    readable: bool,
    chip: String,
    tone: &'static str,
    reason: String,
    at: String,
    datetime: String,
    /// What the entry said: names and values.
    fields: Vec<(String, String)>,
}

fn letter(c: &Chrome, buried: &BuriedLetter) -> Letter {
    let (chip, tone) = match buried.state {
        LetterState::Open => ("letter-open", "bad"),
        LetterState::Retried => ("letter-retried", "good"),
        LetterState::Discarded => ("letter-discarded", "mute"),
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let entry = &buried.letter.entry_json;
    let fields = match serde_json::from_str(entry) {
        Ok(Value::Object(fields)) => fields.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        _ => vec![(c.t("letter-content"), entry.clone())],
    };
    Letter {
        id: buried.id,
        open: buried.state == LetterState::Open,
        readable: buried_entry(entry).is_some(),
        chip: c.t(chip),
        tone,
        reason: buried.letter.reason.clone(),
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
    pub fn new(c: Chrome, letters: &[BuriedLetter], waiting: i64, next: Option<i64>, said: Said) -> Self {
        Self {
            status: StatusCode::OK,
            said,
            waiting,
            lead: c.f("letters-waiting", &[("n", &format::figure(waiting))]),
            letters: letters.iter().map(|buried| letter(&c, buried)).collect(),
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
        self.said.not = self.c.f("letter-stuck", &[("why", &why)]);
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
    pub fn new(c: Chrome, buried: &BuriedLetter) -> Self {
        Self { status: StatusCode::OK, letter: letter(&c, buried), c }
    }
}
is_response!(DiscardPage);
