//! The control room: its pages, and the parts of them that the socket keeps fresh.
//!
//! A part is a template of its own with `data-part` at its root: the page holds it, and the socket sends it again when it
//! reads differently. So the plain page and the live one can never say different things.

mod audit;
mod letters;
mod lists;
mod live;
mod plot;
mod report;
mod room;
mod sale;
mod seconds;
mod users;
mod voucher;

pub use letters::{DiscardPage, LettersPage};
pub use lists::ListPage;
pub use live::Titles;
pub use plot::Series;
pub use report::ReportPage;
pub use room::{ControlRoomPage, Room};
pub use sale::SaleView;
pub use seconds::SecondsPage;
pub use users::UsersPage;
pub use voucher::{EndPage, Typed, VoucherPage};

use crate::web::page::Chrome;

/// A number that leads to the list behind it.
struct Number {
    /// What tests and scripts call it.
    key: &'static str,
    label: String,
    value: String,
    href: String,
}

impl Number {
    fn new(c: &Chrome, key: &'static str, label: &str, value: String, href: String) -> Self {
        Self { key, label: c.t(label), value, href }
    }
}

/// What was just done, or why it was not.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// A sentence about what was done; empty for nothing.
    done: String,
    /// A sentence about what was not; empty for nothing.
    not: String,
}

impl Said {
    /// What the address of a page says was done (`?done=pause`); nothing for a word that we do not know.
    #[must_use]
    pub fn of(c: &Chrome, word: &str) -> Self {
        let key = match word {
            "pause" => "done-pause",
            "resume" => "done-resume",
            "end" => "done-end",
            "rebuild" => "done-rebuild",
            "stock" => "done-stock",
            "edit" => "done-edit",
            "retry" => "done-retry",
            "discard" => "done-discard",
            "disable" => "done-disable",
            "enable" => "done-enable",
            "logout" => "done-logout",
            _ => return Self::default(),
        };
        Self { done: c.t(key), not: String::new() }
    }
}

/// A part of a page: its name, and its HTML.
pub type Part = (String, String);
