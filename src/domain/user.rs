//! What a person may type about himself: phone, nickname, password. Shapes only; whether a phone is taken is SQL's to say.

use std::fmt;

use super::ids::UserId;

/// A mobile number: 11 ASCII digits, `1[3-9]…`. Never logged: its `Debug` hides all but the last two digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Phone(String);

impl Phone {
    /// # Errors
    /// [`BadField`] unless the text is exactly such a number; full-width digits and spaces are refused, not mended.
    pub fn parse(text: &str) -> Result<Self, BadField> {
        let b = text.as_bytes();
        let well_formed = b.len() == 11 && b.iter().all(u8::is_ascii_digit) && b[0] == b'1' && (b'3'..=b'9').contains(&b[1]);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(BadField::Phone) }
    }

    /// The digits, for SQL and for a code sender.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Phone(…{})", &self.0[9..])
    }
}

/// Which field of a person is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadField {
    /// Not 11 digits `1[3-9]…`.
    #[error("a phone number has 11 digits and begins with 13 to 19")]
    Phone,
    /// Not 1–32 characters, or a control character in it.
    #[error("a nickname has 1 to 32 characters and no control characters")]
    NickName,
    /// Under 8 characters.
    #[error("a password has at least 8 characters")]
    PasswordShort,
    /// Over 128 characters or 512 bytes.
    #[error("a password has at most 128 characters")]
    PasswordLong,
    /// On the list of common ones.
    #[error("this password is too common")]
    PasswordCommon,
}

/// A name to show: 1–32 characters, no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NickName(String);

impl NickName {
    /// # Errors
    /// [`BadField::NickName`].
    pub fn parse(text: &str) -> Result<Self, BadField> {
        let count = text.chars().count();
        if (1..=32).contains(&count) && !super::voucher::is_blank(text) && !text.chars().any(super::voucher::is_hidden) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadField::NickName)
        }
    }

    /// The text as typed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The passwords that lists of leaks begin with, longer than seven characters; compared in lower case.
const COMMON_PASSWORDS: &[&str] = &[
    "12345678",
    "123456789",
    "1234567890",
    "12345678910",
    "password",
    "password1",
    "password12",
    "password123",
    "passw0rd",
    "qwertyuiop",
    "qwerty123",
    "qwerty12",
    "1q2w3e4r",
    "1q2w3e4r5t",
    "1qaz2wsx",
    "iloveyou",
    "11111111",
    "00000000",
    "88888888",
    "66666666",
    "12341234",
    "11223344",
    "87654321",
    "987654321",
    "abcd1234",
    "abc12345",
    "a1234567",
    "a12345678",
    "asdfghjkl",
    "asdf1234",
    "zxcvbnm1",
    "sunshine",
    "princess",
    "football",
    "baseball",
    "superman",
    "trustno1",
    "letmein1",
    "welcome1",
    "admin123",
    "administrator",
    "5201314520",
    "woaini520",
    "woaini1314",
    "woaini123",
    "147258369",
    "123123123",
    "123321123",
    "123qweasd",
    "qazwsxedc",
    "computer",
    "internet",
    "starwars",
    "whatever",
    "michelle",
    "jennifer",
    "changeme",
    "changeme1",
];

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
    if COMMON_PASSWORDS.contains(&text.to_lowercase().as_str()) {
        return Err(BadField::PasswordCommon);
    }
    Ok(())
}

/// A user as the rest of the program knows one: never with a phone or a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Who.
    pub id: UserId,
    /// The name to show.
    pub nick_name: String,
    /// May use the control room.
    pub admin: bool,
    /// May not log in any more.
    pub disabled: bool,
    /// One point for each whole yuan paid.
    pub credits: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_is_eleven_ascii_digits() {
        assert!(Phone::parse("13800000001").is_ok());
        for bad in ["", "12800000001", "1380000000", "138000000011", "１3800000001", " 13800000001", "+8613800000001"] {
            assert_eq!(Phone::parse(bad), Err(BadField::Phone), "{bad:?}");
        }
    }

    #[test]
    fn a_nickname_shows_something_and_turns_nothing_round() {
        for good in ["小王", "a", "👩‍🍳", "a b", "é"] {
            assert!(NickName::parse(good).is_ok(), "{good:?}");
        }
        for bad in
            ["", " ", "\u{200b}", "\u{200b}\u{200d}\u{2060}", "\u{3164}", "\u{2800}", "a\u{202e}b", "a\nb", "\u{feff}", "\u{ad}"]
        {
            assert_eq!(NickName::parse(bad), Err(BadField::NickName), "{bad:?}");
        }
        assert!(NickName::parse(&"长".repeat(32)).is_ok() && NickName::parse(&"长".repeat(33)).is_err());
    }

    #[test]
    fn a_password_is_long_enough_and_uncommon() {
        assert_eq!(check_password("correct horse"), Ok(()));
        assert_eq!(check_password("1234567"), Err(BadField::PasswordShort));
        assert_eq!(check_password("PASSWORD"), Err(BadField::PasswordCommon));
        assert_eq!(check_password(&"长".repeat(129)), Err(BadField::PasswordLong));
        assert_eq!(check_password(&"长".repeat(128)), Ok(()));
    }
}
