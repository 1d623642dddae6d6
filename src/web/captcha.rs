//! The captcha in front of the gate: asks whoever comes without an answer, checks whoever brings one.
//!
//! A sale without a captcha is let through on one look into memory. A wrong, used or foreign answer never gets further
//! than here, whatever it costs the gate nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::domain::captcha::{Challenge, difficulty};
use crate::domain::ids::{UserId, VoucherId};
use crate::domain::sale::Sale;
use crate::domain::time::Millis;
use crate::service::purchase::Answer;
use crate::web::error::Problem;
use crate::web::fields::Fields;
use crate::web::state::AppState;

/// Sales whose pressure is remembered; more than are ever on at once.
const MOST_SALES: usize = 1024;

/// What one sale was asked lately: challenges of this second and of the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    second: i64,
    now: u32,
    before: u32,
}

/// How many challenges each sale makes a second, in this process.
#[derive(Debug, Default)]
pub struct Pressure(Mutex<HashMap<VoucherId, Asked>>);

impl Pressure {
    /// Counts one challenge and answers the rate with it: the higher of the last whole second and the one that runs.
    pub fn count(&self, voucher: VoucherId, now: Millis) -> u32 {
        let second = now.0.div_euclid(1000);
        let mut sales = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sales.len() >= MOST_SALES && !sales.contains_key(&voucher) {
            sales.retain(|_, asked| asked.second + 1 >= second);
            if sales.len() >= MOST_SALES {
                sales.clear();
            }
        }
        let asked = sales.entry(voucher).or_default();
        if asked.second != second {
            let before = if asked.second + 1 == second { asked.now } else { 0 };
            *asked = Asked { second, now: 0, before };
        }
        asked.now = asked.now.saturating_add(1);
        asked.now.max(asked.before)
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

/// Makes and keeps a new challenge.
pub async fn ask(state: &AppState, user: UserId, sale: &Sale) -> Result<Challenge, Problem> {
    let now = state.clock.now();
    let bits = difficulty(state.pressure.count(sale.voucher, now));
    let number = || rand::random_range(10..90);
    let sum = (number(), number());
    let asked = Challenge::new(user, sale.voucher, sale.begin, bits, (rand::random(), rand::random()), sum, now);
    state.captchas.keep(&asked).await?;
    metrics::counter!("seckill_captchas_total", "outcome" => "asked").increment(1);
    Ok(asked)
}

/// Lets a click through to the gate, or says what stands before it. Nothing is asked of anybody where the sale has no
/// captcha. Whoever holds a unit hears of it without solving anything: it is read beside the write of the challenge.
pub async fn pass(state: &AppState, user: UserId, voucher: VoucherId, shown: Option<&Shown>) -> Result<Option<Answer>, Problem> {
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
    let (held, asked) = tokio::join!(state.purchase.held(user, voucher), ask(state, user, &sale));
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
        let pressure = Pressure::default();
        let count = |ms| pressure.count(VoucherId(1), Millis(ms));
        assert_eq!((0..60).map(|_| count(10_000)).max(), Some(60));
        assert_eq!(pressure.count(VoucherId(2), Millis(10_000)), 1, "each sale has its own");
        assert_eq!((count(11_000), count(12_000), count(20_000)), (60, 1, 1));
        for id in 0..5_000 {
            pressure.count(VoucherId(id), Millis(30_000));
        }
        assert!(pressure.0.lock().unwrap().len() <= MOST_SALES);
    }

    #[test]
    fn wide_digits_in_a_form_are_the_same_number() {
        assert_eq!(ascii_digits("８5"), "85");
    }
}
