//! Money: whole fen, never a float.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount in fen (hundredths of a yuan).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fen(pub i64);

/// The largest price of one unit: one million yuan.
pub const MAX_PRICE: Fen = Fen(100_000_000);

/// Why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an amount in yuan has digits and at most two decimals")]
pub struct BadAmount;

impl Fen {
    /// Reads yuan as a form takes them: digits, at most two decimals; no sign, space, exponent or full-width digit.
    ///
    /// # Errors
    /// [`BadAmount`] for anything else and for more than twelve digits before the point.
    pub fn parse_yuan(text: &str) -> Result<Self, BadAmount> {
        let (whole, part) = text.split_once('.').map_or((text, None), |(w, p)| (w, Some(p)));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !digits(whole) || whole.len() > 12 || leading_zero {
            return Err(BadAmount);
        }
        let cents = match part {
            None => 0,
            Some(p) if digits(p) && p.len() == 1 => p.parse::<i64>().map_err(|_| BadAmount)? * 10,
            Some(p) if digits(p) && p.len() == 2 => p.parse::<i64>().map_err(|_| BadAmount)?,
            Some(_) => return Err(BadAmount),
        };
        let yuan: i64 = whole.parse().map_err(|_| BadAmount)?;
        Ok(Self(yuan * 100 + cents))
    }

    /// Whole yuan, the fen dropped; what credits count.
    #[must_use]
    pub fn whole_yuan(self) -> i64 {
        self.0.div_euclid(100)
    }
}

/// Yuan without needless decimals: `49`, `9.90`, `0.05`.
impl fmt::Display for Fen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (yuan, fen) = (self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100);
        if fen == 0 { write!(f, "{sign}{yuan}") } else { write!(f, "{sign}{yuan}.{fen:02}") }
    }
}

/// A discount as the two languages say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discount {
    /// Price ÷ value × 100, rounded half up: 49 means 4.9 折.
    pub tenths_of_zhe: i64,
    /// Per cent off, rounded down: "51% off".
    pub percent_off: i64,
}

/// The discount of paying `pay` for something worth `value`; none when nothing is saved or the figure would say so.
#[must_use]
pub fn discount(pay: Fen, value: Fen) -> Option<Discount> {
    if pay.0 <= 0 || value.0 <= 0 || pay >= value {
        return None;
    }
    let tenths_of_zhe = (pay.0 * 100 + value.0 / 2) / value.0;
    let percent_off = (value.0 - pay.0) * 100 / value.0;
    (tenths_of_zhe < 100).then_some(Discount { tenths_of_zhe, percent_off })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yuan_are_read_exactly_or_not_at_all() {
        assert_eq!(Fen::parse_yuan("49"), Ok(Fen(4900)));
        assert_eq!(Fen::parse_yuan("9.9"), Ok(Fen(990)));
        assert_eq!(Fen::parse_yuan("0.30"), Ok(Fen(30)));
        for bad in ["", ".", "1.", ".5", "1.234", "-1", "+1", " 1", "1e3", "４９", "00.5", "0012", "1,000", "-0", "9999999999999"]
        {
            assert_eq!(Fen::parse_yuan(bad), Err(BadAmount), "{bad:?}");
        }
        assert_eq!([Fen(4900), Fen(990), Fen(5)].map(|m| m.to_string()), ["49", "9.90", "0.05"]);
    }

    #[test]
    fn a_discount_is_named_only_when_there_is_one() {
        assert_eq!(discount(Fen(4900), Fen(10000)), Some(Discount { tenths_of_zhe: 49, percent_off: 51 }));
        assert_eq!(discount(Fen(10000), Fen(10000)), None);
        assert_eq!(discount(Fen(9999), Fen(10000)), None);
    }
}
