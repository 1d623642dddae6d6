//! Times, money and figures as people read them, in the reader's language and the shop's zone.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::domain::money::{Fen, discount};
use crate::domain::time::Millis;
use crate::i18n::Lang;
use crate::web::page::Chrome;

/// A clock time with its day, and the year when it is another one.
fn dated(c: &Chrome, day: DateTime, clock: &str) -> String {
    let month = c.t(&format!("month-{}", day.month()));
    let key = if day.year() == c.now.in_zone(&c.zone).year() { "date-time" } else { "date-time-year" };
    c.f(key, &[("year", &day.year()), ("month", &month), ("day", &day.day()), ("clock", &clock)])
}

fn with_date(c: &Chrome, at: Millis, clock: impl Fn(DateTime) -> String) -> String {
    let (local, today) = (at.in_zone(&c.zone), c.now.in_zone(&c.zone));
    let time = clock(local);
    if local.date() == today.date() { time } else { dated(c, local, &time) }
}

/// To the second, with the date when it is not today: `10:20:29`, `7月4日 10:20:29`.
pub(super) fn exact(c: &Chrome, at: Millis) -> String {
    with_date(c, at, |t| format!("{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second()))
}

/// To the minute where the second is 0, with the date when it is not today: `12:00`, `7月6日 10:00`, `12:00:30`.
pub(super) fn short(c: &Chrome, at: Millis) -> String {
    with_date(c, at, short_clock)
}

/// The minute of an instant, without its day: `10:08`.
pub(super) fn minute(c: &Chrome, at: Millis) -> String {
    let t = at.in_zone(&c.zone);
    format!("{:02}:{:02}", t.hour(), t.minute())
}

fn short_clock(t: DateTime) -> String {
    match t.second() {
        0 => format!("{:02}:{:02}", t.hour(), t.minute()),
        s => format!("{:02}:{:02}:{s:02}", t.hour(), t.minute()),
    }
}

/// The end of something, to the minute: midnight is 24:00 of the day that it ends.
pub(super) fn end(c: &Chrome, at: Millis) -> String {
    let (day, clock) = end_clock(c, at);
    if day.date() == c.now.in_zone(&c.zone).date() { clock } else { dated(c, day, &clock) }
}

fn end_clock(c: &Chrome, at: Millis) -> (DateTime, String) {
    let local = at.in_zone(&c.zone);
    if (local.hour(), local.minute(), local.second()) == (0, 0, 0) {
        (Millis(at.0 - 1).in_zone(&c.zone), "24:00".to_owned())
    } else {
        (local, short_clock(local))
    }
}

/// Begin and end of something. Both carry their date unless they are of one day: "1 Dec, 10:00 to 09:00" would read wrong
/// when only the second day is today.
pub(super) fn window(c: &Chrome, begin: Millis, until: Millis) -> (String, String) {
    let (first, (last, clock)) = (begin.in_zone(&c.zone), end_clock(c, until));
    if first.date() == last.date() {
        (short(c, begin), clock)
    } else {
        (dated(c, first, &short_clock(first)), dated(c, last, &clock))
    }
}

/// The date and the second, also today: for facts that are read later.
pub(super) fn full(c: &Chrome, at: Millis) -> String {
    let t = at.in_zone(&c.zone);
    dated(c, t, &format!("{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second()))
}

/// Time left as a countdown shows it: `12:08`, `01:51:39`, `1 天 23:51:39`; zero when it is over.
pub(super) fn left(lang: Lang, now: Millis, until: Millis) -> String {
    // Rounded up: a countdown that shows 00:00 is over.
    let total = now.until(until).as_millis().div_ceil(1000);
    let (days, hours, minutes, seconds) = (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => lang.f("days-clock", &[("days", &days), ("clock", &format!("{hours:02}:{minutes:02}:{seconds:02}"))]),
    }
}

/// How old a measured number is.
pub(super) fn age(c: &Chrome, measured: Millis) -> String {
    let seconds = measured.until(c.now).as_secs();
    if seconds < 120 { c.f("age-seconds", &[("n", &seconds)]) } else { c.f("age-minutes", &[("n", &(seconds / 60))]) }
}

/// Yuan with two decimals, where an amount is paid or was paid: `12.00`, `1,311.00`.
pub(super) fn yuan(amount: Fen) -> String {
    format!("{}.{:02}", figure(amount.0 / 100), (amount.0 % 100).abs())
}

/// A figure with its thousands apart: `1,311`.
pub(super) fn figure(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = String::from(if n < 0 { "-" } else { "" });
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// The discount in the reader's way; none where there is none to speak of.
pub(super) fn discount_words(lang: Lang, pay: Fen, value: Fen) -> Option<String> {
    let d = discount(pay, value)?;
    let n = match lang {
        Lang::ZhCn if d.tenths_of_zhe % 10 == 0 => (d.tenths_of_zhe / 10).to_string(),
        Lang::ZhCn => format!("{}.{}", d.tenths_of_zhe / 10, d.tenths_of_zhe % 10),
        Lang::En if d.percent_off == 0 => return None,
        Lang::En => d.percent_off.to_string(),
    };
    // A price so low that the figure would read "0": better none than a wrong one.
    (n != "0").then(|| lang.f("discount", &[("n", &n)]))
}

/// The name of a zone in words where we have them, its identifier otherwise.
pub(super) fn zone_name(lang: Lang, zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some("Asia/Shanghai") => lang.t("zone-china"),
        Some(name) => name.to_owned(),
        None => "UTC".to_owned(),
    }
}

/// The zone's distance from UTC at an instant: `UTC+8`, `UTC-3:30`.
pub(super) fn offset(zone: &TimeZone, at: Millis) -> String {
    let seconds = zone.to_offset(Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH)).seconds();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
    match minutes % 60 {
        0 => format!("UTC{sign}{}", minutes / 60),
        rest => format!("UTC{sign}{}:{rest:02}", minutes / 60),
    }
}
