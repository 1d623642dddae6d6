//! What a page hands to its script: the server's time and the sentences that the script may show.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::web::page::Chrome;
use crate::web::page::card::why_open;

/// The words that a card needs to change its state by itself, and those of pushes and countdowns.
const KEYS: &[&str] = &[
    "chip-soon",
    "chip-open",
    "chip-held",
    "chip-paused",
    "chip-sold-out",
    "chip-ended",
    "why-soon",
    "why-paused",
    "why-sold-out",
    "why-ended",
    "why-visitor",
    "why-held-plain",
    "buy",
    "buying",
    "captcha-label",
    "captcha-solving",
    "label-starts",
    "label-ends",
    "label-paused",
    "word-paused",
    "label-ended",
    "low-before",
    "stock-before",
    "go-order",
    "live",
    "tell-me",
    "offline-plain",
    "log-in",
    "push-order-created",
    "push-order-paid",
    "push-order-cancelled",
    "push-order-refunding",
    "push-order-refunded",
    "push-order-failed",
    "push-see",
    "status-queued",
    "refused-sold-out",
];

/// The sentences with places that the script fills: `{n}` and so on stand in them.
const TEMPLATES: &[(&str, &[&str])] = &[
    ("buy-soon", &["time"]),
    ("label-sold-out", &["time"]),
    ("stock-after", &["total"]),
    ("age-seconds", &["n"]),
    ("age-minutes", &["n"]),
    ("days-clock", &["days", "clock"]),
    ("offline", &["n"]),
    ("announce-start-10m", &["title"]),
    ("announce-start-1m", &["title"]),
    ("announce-start-10s", &["title"]),
    ("announce-started", &["title"]),
    ("announce-end-10m", &["title"]),
    ("announce-end-1m", &["title"]),
    ("announce-end-10s", &["title"]),
    ("announce-ended", &["title"]),
    ("push-order-queued", &["n"]),
    ("push-order-created-more", &["title", "time"]),
    ("stub-ahead-number", &["n"]),
    ("stub-queued-eta", &["seconds"]),
    ("form-zone-browser", &["zone", "offset"]),
    ("next-duplicate", &[]),
    ("next-not-begun", &["time"]),
    ("next-ended", &[]),
    ("next-paused", &[]),
    ("next-busy", &["seconds"]),
    ("next-uncertain", &[]),
    ("next-too-many-requests", &["seconds"]),
    ("next-captcha-required", &[]),
    ("next-login-required", &[]),
    ("next-forbidden", &[]),
    ("next-not-found", &[]),
    ("next-internal", &["req"]),
];

/// The data block `#words`.
#[derive(Serialize)]
pub(super) struct ScriptWords {
    lang: &'static str,
    zone: String,
    /// The server's time in milliseconds.
    now: i64,
    /// Whether somebody is logged in, so that a socket has a user to speak for.
    user: bool,
    words: BTreeMap<&'static str, String>,
}

impl ScriptWords {
    pub(super) fn new(c: &Chrome) -> Self {
        let mut words: BTreeMap<_, _> = KEYS.iter().map(|key| (*key, c.t(key))).collect();
        for (key, names) in TEMPLATES {
            let places: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
            let args: Vec<(&'static str, &dyn std::fmt::Display)> =
                names.iter().zip(&places).map(|(name, place)| (*name, place as &dyn std::fmt::Display)).collect();
            words.insert(key, c.f(key, &args));
        }
        words.insert("why-open", why_open(c));
        let zone = c.zone.iana_name().unwrap_or("UTC").to_owned();
        Self { lang: c.lang.tag(), zone, now: c.now.0, user: c.user.is_some(), words }
    }
}
