//! The captcha in front of the gate: asks whoever comes without an answer, checks whoever brings one.
//!
//! A sale without a captcha is let through on one look into memory. A wrong, used or foreign answer never gets further
//! than here, whatever it costs the gate nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::domain::captcha::{Challenge, difficulty, wait};
use crate::domain::ids::{UserId, VoucherId};
use crate::domain::sale::Sale;
use crate::domain::time::Millis;
use crate::service::purchase::Answer;
use crate::web::error::Problem;
use crate::web::fields::Fields;
use crate::web::limits::Client;
use crate::web::state::AppState;

/// Sales whose pressure is remembered; more than are ever on at once.
const MOST_SALES: usize = 1024;
/// Addresses whose pressure is remembered: whoever has more of them than this is not to be found out by counting them.
const MOST_ADDRESSES: usize = 65_536;

/// What was asked lately: challenges of this second and of the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    second: i64,
    now: u32,
    before: u32,
}

/// Challenges by whatever they are counted by.
#[derive(Debug)]
struct Counts<K>(Mutex<HashMap<K, Asked>>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Counts<K> {
    /// Counts one challenge and answers the rate with it: the higher of the last whole second and the one that runs.
    fn count(&self, key: K, most: usize, now: Millis) -> u32 {
        let second = now.0.div_euclid(1000);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= most && !counts.contains_key(&key) {
            counts.retain(|_, asked| asked.second + 1 >= second);
            // Still more than half: or the next one would look through them all again.
            if counts.len() > most / 2 {
                counts.clear();
            }
        }
        let asked = counts.entry(key).or_default();
        if asked.second != second {
            let before = if asked.second + 1 == second { asked.now } else { 0 };
            *asked = Asked { second, now: 0, before };
        }
        asked.now = asked.now.saturating_add(1);
        asked.now.max(asked.before)
    }
}

/// How many challenges a second each sale makes, and each address asks for, in this process.
#[derive(Debug, Default)]
pub struct Pressure {
    sales: Counts<VoucherId>,
    addresses: Counts<Client>,
}

impl Pressure {
    /// Counts one challenge of `voucher` for somebody at `from`: its zero bits, and how long its answer has to wait.
    pub fn count(&self, voucher: VoucherId, from: IpAddr, now: Millis) -> (u8, Duration) {
        let of_sale = self.sales.count(voucher, MOST_SALES, now);
        // What comes from this very machine comes from everybody: a proxy that `--trusted-proxies` does not name.
        let own = from == IpAddr::V4(Ipv4Addr::LOCALHOST) || from == IpAddr::V6(Ipv6Addr::LOCALHOST);
        let of_address = if own { 1 } else { self.addresses.count(Client::at(from), MOST_ADDRESSES, now) };
        (difficulty(of_sale), wait(of_address))
    }
}

/// A challenge as the API tells it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChallengeJson {
    id: String,
    kind: &'static str,
    challenge: String,
    difficulty: u8,
    question: String,
    /// Milliseconds from now on in which no answer counts; by the asker's own clock, which need not be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<i64>,
    expires_at: Millis,
}

impl From<&Challenge> for ChallengeJson {
    fn from(asked: &Challenge) -> Self {
        Self {
            id: asked.id.clone(),
            kind: "pow",
            challenge: asked.text.clone(),
            difficulty: asked.difficulty,
            question: asked.question(),
            wait: Some(asked.not_before.0 - asked.made_at.0).filter(|ms| *ms > 0),
            expires_at: asked.expires_at,
        }
    }
}

/// What a buyer shows: the id of a challenge and his answer to it.
#[derive(Debug, Clone)]
pub struct Shown {
    id: String,
    answer: String,
}

impl Shown {
    /// Out of a JSON body, `{captcha:{id,answer}}`; the answer may be written as a number.
    pub fn in_json(fields: &Fields) -> Result<Option<Self>, Problem> {
        let Some(captcha) = fields.object("captcha")? else { return Ok(None) };
        captcha.only(&["id", "answer"])?;
        let id = captcha.text("id")?.ok_or(Problem::Malformed)?.to_owned();
        let answer = match captcha.value("answer") {
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(Problem::Malformed),
        };
        Ok(Some(Self { id, answer }))
    }

    /// Out of a form: `captchaId` and `captchaAnswer`; none while nothing was typed.
    #[must_use]
    pub fn in_form(fields: &Fields) -> Option<Self> {
        let (id, answer) = (fields.typed("captchaId"), ascii_digits(fields.typed("captchaAnswer").trim()));
        (!id.is_empty() && !answer.is_empty()).then(|| Self { id: id.to_owned(), answer })
    }
}

/// Chinese keyboards write digits as wide as their other signs; a person who answers a sum means the number.
fn ascii_digits(text: &str) -> String {
    let narrow = |c: char| if ('０'..='９').contains(&c) { char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c) } else { c };
    text.chars().map(narrow).collect()
}

/// Makes and keeps a new challenge for somebody at `from`.
pub async fn ask(state: &AppState, user: UserId, from: IpAddr, sale: &Sale) -> Result<Challenge, Problem> {
    let now = state.clock.now();
    let (bits, wait) = state.pressure.count(sale.voucher, from, now);
    let number = || rand::random_range(10..90);
    let sum = (number(), number());
    let asked =
        Challenge::new(user, sale.voucher, sale.begin, bits, (rand::random(), rand::random()), sum, now).no_sooner_than(wait);
    state.captchas.keep(&asked).await?;
    metrics::counter!("seckill_captchas_total", "outcome" => "asked").increment(1);
    Ok(asked)
}

/// Lets a click through to the gate, or says what stands before it. Nothing is asked of anybody where the sale has no
/// captcha. Whoever holds a unit hears of it without solving anything: it is read beside the write of the challenge.
pub async fn pass(
    state: &AppState,
    (user, from): (UserId, IpAddr),
    voucher: VoucherId,
    shown: Option<&Shown>,
) -> Result<Option<Answer>, Problem> {
    let Some(sale) = state.purchase.asks_captcha(voucher) else { return Ok(None) };
    if let Some(shown) = shown {
        let asked = state.captchas.take(&shown.id).await?;
        let checked = asked.map(|asked| asked.check(user, voucher, &shown.answer, state.clock.now()));
        let right = matches!(checked, Some(Ok(())));
        let outcome = if right { "right" } else { "wrong" };
        metrics::counter!("seckill_captchas_total", "outcome" => outcome).increment(1);
        if right {
            return Ok(None);
        }
        tracing::debug!(user = user.0, voucher.id = voucher.0, ?checked, "a captcha's answer does not count");
    }
    let (held, asked) = tokio::join!(state.purchase.held(user, voucher), ask(state, user, from, &sale));
    match held? {
        Some(held) => Ok(Some(held)),
        None => Err(Problem::CaptchaRequired(Box::new(asked?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_the_higher_of_two_seconds_and_falls_by_itself() {
        let counts = Counts::default();
        let count = |ms| counts.count(VoucherId(1), 100, Millis(ms));
        assert_eq!((0..60).map(|_| count(10_000)).max(), Some(60));
        assert_eq!(counts.count(VoucherId(2), 100, Millis(10_000)), 1, "each sale has its own");
        assert_eq!((count(11_000), count(12_000), count(20_000)), (60, 1, 1));
        for id in 0..5_000 {
            counts.count(VoucherId(id), 100, Millis(30_000));
        }
        assert!(counts.0.lock().unwrap().len() <= 100);
    }

    #[test]
    fn an_address_that_asks_for_many_waits_and_its_neighbours_do_not() {
        let pressure = Pressure::default();
        let count = |from: &str| pressure.count(VoucherId(1), from.parse().unwrap(), Millis(10_000));
        let many: Vec<u128> = (0..30).map(|_| count("203.0.113.7").1.as_millis()).collect();
        assert_eq!((many[0], many[1], many[29]), (0, 200, 5_000));
        for other in ["203.0.113.8", "::1", "127.0.0.1", "127.0.0.1"] {
            assert_eq!(count(other), (12, Duration::ZERO), "{other}");
        }
    }

    #[test]
    fn wide_digits_in_a_form_are_the_same_number() {
        assert_eq!(ascii_digits("８5"), "85");
    }
}
