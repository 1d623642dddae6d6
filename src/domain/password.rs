//! What may become a password: its length, and that it is none of those which a guesser tries first.
//!
//! Shapes only; hashing is `service/passwords.rs`. There is no rule about kinds of letters: it would make passwords worse.

use super::user::{BadField, Phone};

/// What lists of leaks begin with, and what people here like to take: one a line, in lower case, sorted.
const COMMON: &str = include_str!("common_passwords.txt");

/// Checks a new password: 8–128 characters, at most 512 bytes, not a common one. No other rule (NIST SP 800-63B, 5.1.1.2).
///
/// # Errors
/// The first rule that is broken.
pub fn check_password(text: &str) -> Result<(), BadField> {
    let count = text.chars().count();
    if count < 8 {
        return Err(BadField::PasswordShort);
    }
    if count > 128 || text.len() > 512 {
        return Err(BadField::PasswordLong);
    }
    if is_common(text) {
        return Err(BadField::PasswordCommon);
    }
    Ok(())
}

/// On the list in whatever case, a telephone number, or digits as they lie on the keyboard.
fn is_common(text: &str) -> bool {
    let lower = text.to_lowercase();
    COMMON.lines().any(|common| common == lower) || Phone::parse(text).is_ok() || is_row_of_digits(text.as_bytes())
}

/// Nothing but digits, each the one before, or one more, or one less, all the way: `99999999`, `34567890123`, `98765432`.
fn is_row_of_digits(text: &[u8]) -> bool {
    let all = |step: u8| text.windows(2).all(|pair| (pair[0] - b'0' + step) % 10 == pair[1] - b'0');
    text.iter().all(u8::is_ascii_digit) && [0, 1, 9].into_iter().any(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_enough_and_uncommon() {
        for good in ["correct horse", "34567890124", "woaini19870314", "138000000011", &"长".repeat(128), &"x".repeat(64)] {
            assert_eq!(check_password(good), Ok(()), "{good}");
        }
        assert_eq!(check_password("1234567"), Err(BadField::PasswordShort));
        assert_eq!(check_password(&"长".repeat(129)), Err(BadField::PasswordLong));
        for common in [
            "PASSWORD",
            "5201314520",
            "woaini1314",
            "aa123456",
            "Qq123456",
            "seckill123",
            "13800000001",
            "99999999",
            "345678901234",
            "987654321098",
        ] {
            assert_eq!(check_password(common), Err(BadField::PasswordCommon), "{common}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_holds_nothing_that_another_rule_refuses_already() {
        let lines: Vec<&str> = COMMON.lines().collect();
        assert!(lines.len() >= 500, "{}", lines.len());
        assert!(lines.is_sorted_by(|a, b| a < b));
        for line in lines {
            assert!(line.chars().count() >= 8 && line.to_lowercase() == line, "{line}");
            assert!(Phone::parse(line).is_err() && !is_row_of_digits(line.as_bytes()), "{line}");
        }
    }
}
