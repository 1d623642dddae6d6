//! What a person may type about himself: phone and nickname (a password: `password.rs`). Shapes only; whether a phone is
//! taken is SQL's to say.

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
}
