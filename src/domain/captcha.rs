//! The captcha of a sale: what is asked, how hard it is, and what counts as an answer. Pure; where challenges are kept is
//! the session store's business.
//!
//! It only slows: a script may solve it too. What it buys is that each attempt costs a computer's time, more the larger
//! the crowd, and cannot be stocked up before the sale begins.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::ids::{UserId, VoucherId};
use super::time::Millis;

/// Zero bits that are asked while nothing presses: about 4,000 hashes, a tenth of a second of a browser.
pub const EASIEST: u8 = 12;
/// Zero bits at the highest pressure: about 130,000 hashes, a few seconds of a slow phone.
pub const HARDEST: u8 = 17;
/// Challenges a second of one sale that are no pressure.
const CALM: u32 = 50;
/// How long a challenge can be answered.
const LIFE: Duration = Duration::from_mins(2);
/// How much longer a person needs for the sum with each bit above [`EASIEST`]; the script's part of it is nothing.
const PATIENCE_A_BIT: Duration = Duration::from_millis(500);

/// The zero bits to ask for when a sale's challenges are made at this rate: one more at 50, 150, 350, 750 and 1,550 a second.
#[must_use]
pub fn difficulty(per_second: u32) -> u8 {
    let bits = u8::try_from((per_second / CALM).saturating_add(1).ilog2()).unwrap_or(u8::MAX);
    EASIEST.saturating_add(bits).min(HARDEST)
}

/// How much longer an answer has to wait with each further challenge that its address asks for within two seconds, and at
/// most. A proof of work does not tell the accounts of a script from the people of an office: what would take a phone
/// seconds is nothing for a program. Time passes for both alike: the office waits with its fifth buyer for less than a
/// second, the script with its hundredth account for so long that a crowd is served first.
const SPACING: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// From when on after its making a challenge can be answered: the `nth` of its address (from 1) within two seconds.
#[must_use]
pub fn wait(nth: u32) -> Duration {
    SPACING.saturating_mul(nth.saturating_sub(1)).min(LONGEST_WAIT)
}

/// One challenge: for one user, one sale, one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// Names it; unguessable.
    pub id: String,
    /// Who may answer.
    pub user: UserId,
    /// For which sale.
    pub voucher: VoucherId,
    /// What is hashed before the colon; random.
    pub text: String,
    /// Zero bits that the hash must begin with.
    pub difficulty: u8,
    /// The two numbers of the sum.
    pub sum: (u32, u32),
    /// When it was made.
    pub made_at: Millis,
    /// From when on an answer counts; as a rule at once.
    pub not_before: Millis,
    /// From when on no answer counts.
    pub expires_at: Millis,
}

/// Why an answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Another user's, or another sale's.
    Foreign,
    /// Too late.
    Expired,
    /// The sum was answered faster than a person could, while the crowd presses; or anything before its time.
    TooFast,
    /// Neither the sum nor a good nonce.
    Answer,
}

impl Challenge {
    /// A challenge made `now` of 256 random bits and two random numbers from 10 to 89. One that is made before `begin`
    /// counts until then at most: a script must not solve a thousand of them ahead and come in with the first second.
    #[must_use]
    pub fn new(
        user: UserId,
        voucher: VoucherId,
        begin: Millis,
        difficulty: u8,
        random: (u128, u128),
        sum: (u32, u32),
        now: Millis,
    ) -> Self {
        let expires_at = if now < begin { begin.min(now + LIFE) } else { now + LIFE };
        let (id, text) = (format!("{:032x}", random.0), format!("{:032x}", random.1));
        Self { id, user, voucher, text, difficulty, sum, made_at: now, not_before: now, expires_at }
    }

    /// The same, to be answered no sooner than `wait` after it was made.
    #[must_use]
    pub fn no_sooner_than(self, wait: Duration) -> Self {
        Self { not_before: self.made_at + wait, ..self }
    }

    /// The question for whoever has no script.
    #[must_use]
    pub fn question(&self) -> String {
        format!("{} + {} = ?", self.sum.0, self.sum.1)
    }

    /// Whether `answer` opens the sale `voucher` to `user`.
    pub fn check(&self, user: UserId, voucher: VoucherId, answer: &str, now: Millis) -> Result<(), Wrong> {
        if (self.user, self.voucher) != (user, voucher) {
            return Err(Wrong::Foreign);
        }
        if now >= self.expires_at {
            return Err(Wrong::Expired);
        }
        if now < self.not_before {
            return Err(Wrong::TooFast);
        }
        if answer == (self.sum.0 + self.sum.1).to_string() {
            let patience = PATIENCE_A_BIT * u32::from(self.difficulty.saturating_sub(EASIEST));
            return if now >= self.made_at + patience { Ok(()) } else { Err(Wrong::TooFast) };
        }
        if is_nonce(answer) && zero_bits(&self.text, answer) >= u32::from(self.difficulty) { Ok(()) } else { Err(Wrong::Answer) }
    }
}

/// A decimal number of up to 20 digits, as a counter of any language writes it.
fn is_nonce(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// The zero bits that SHA-256 of `challenge:nonce` begins with.
fn zero_bits(challenge: &str, nonce: &str) -> u32 {
    let hash = Sha256::new().chain_update(challenge).chain_update(":").chain_update(nonce).finalize();
    let mut bits = 0;
    for byte in hash {
        bits += byte.leading_zeros();
        if byte != 0 {
            break;
        }
    }
    bits
}

/// The first nonce that solves a challenge, found by trying: what a script or a browser does.
#[must_use]
pub fn solve(challenge: &str, difficulty: u8) -> Option<u64> {
    (0..u64::MAX).find(|nonce| zero_bits(challenge, &nonce.to_string()) >= u32::from(difficulty))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn challenge(begin: Millis, difficulty: u8) -> Challenge {
        Challenge::new(UserId(1), VoucherId(2), begin, difficulty, (7, 9), (37, 48), NOW)
    }

    #[test]
    fn a_nonce_or_the_sum_opens_it_for_its_user_its_sale_and_its_time() {
        let asked = challenge(Millis(0), EASIEST);
        let nonce = solve(&asked.text, asked.difficulty).unwrap().to_string();
        let check = |user, voucher, answer: &str, now| asked.check(UserId(user), VoucherId(voucher), answer, now);
        assert_eq!(check(1, 2, &nonce, NOW), Ok(()));
        assert_eq!(check(1, 2, "85", NOW), Ok(()));
        assert_eq!((check(3, 2, "85", NOW), check(1, 3, "85", NOW)), (Err(Wrong::Foreign), Err(Wrong::Foreign)));
        assert_eq!(check(1, 2, "85", NOW + LIFE), Err(Wrong::Expired));
        for wrong in ["", "84", "085", " 85", "+85", "85.0", "８５", "-1", &format!("+{nonce}"), &"0".repeat(21)] {
            assert_eq!(check(1, 2, wrong, NOW), Err(Wrong::Answer), "{wrong:?}");
        }
        // One bit short of a good one.
        let short = (0..u64::MAX).find(|n| zero_bits(&asked.text, &n.to_string()) == u32::from(EASIEST) - 1).unwrap();
        assert_eq!(check(1, 2, &short.to_string(), NOW), Err(Wrong::Answer));
    }

    #[test]
    fn nothing_solved_before_the_begin_counts_after_it() {
        let begin = NOW + Duration::from_secs(5);
        let asked = challenge(begin, EASIEST);
        assert_eq!(asked.check(UserId(1), VoucherId(2), "85", begin - Duration::from_millis(1)), Ok(()));
        assert_eq!(asked.check(UserId(1), VoucherId(2), "85", begin), Err(Wrong::Expired));
        assert_eq!(challenge(NOW, EASIEST).expires_at, NOW + LIFE);
    }

    #[test]
    fn the_crowd_makes_it_harder_up_to_a_bound_and_the_sum_slower() {
        let steps = [(0, 12), (49, 12), (50, 13), (149, 13), (150, 14), (350, 15), (750, 16), (1550, 17), (u32::MAX, 17)];
        for (rate, bits) in steps {
            assert_eq!(difficulty(rate), bits, "{rate} a second");
        }
        let asked = challenge(Millis(0), HARDEST);
        let answered = |ms| asked.check(UserId(1), VoucherId(2), "85", NOW + Duration::from_millis(ms));
        assert_eq!((answered(2_499), answered(2_500)), (Err(Wrong::TooFast), Ok(())));
    }

    #[test]
    fn an_address_that_asks_for_many_waits_longer_with_each_whatever_the_answer() {
        let waits = [0, 1, 2, 5, 26, 27, u32::MAX].map(|nth| wait(nth).as_millis());
        assert_eq!(waits, [0, 0, 200, 800, 5_000, 5_000, 5_000]);
        let asked = challenge(Millis(0), EASIEST).no_sooner_than(wait(5));
        let nonce = solve(&asked.text, asked.difficulty).unwrap().to_string();
        let answered = |answer: &str, ms| asked.check(UserId(1), VoucherId(2), answer, NOW + Duration::from_millis(ms));
        for answer in [nonce.as_str(), "85"] {
            assert_eq!((answered(answer, 799), answered(answer, 800)), (Err(Wrong::TooFast), Ok(())));
        }
    }
}
