//! People: register, log in with a password, change it, and who somebody is.
//!
//! Sessions are the front door's business; this file says who may have one.

use crate::clock::Clock;
use crate::domain::ids::UserId;
use crate::domain::password::check_password;
use crate::domain::user::{BadField, NickName, Phone, User};
use crate::domain::voucher::{FieldError, FieldErrors};
use crate::service::change::WRITER_WITHIN;
use crate::service::passwords::{PasswordError, Passwords};
use crate::store::{Store, StoreError};

/// Why a use case about a person did not work.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// Phone or password is wrong, or the user is disabled.
    #[error("phone or password is wrong")]
    BadCredentials,
    /// The phone has an account.
    #[error("the phone is taken")]
    PhoneTaken,
    /// Fields are wrong.
    #[error("fields are wrong")]
    Invalid(FieldErrors),
    /// Too many passwords are being checked.
    #[error("too many passwords are being checked")]
    Crowded,
    /// The store could not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Must not happen.
    #[error("{0}")]
    Hash(String),
}

impl From<PasswordError> for UserError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Crowded => Self::Crowded,
            PasswordError::Broken(truth) => Self::Hash(truth),
        }
    }
}

/// What somebody typed to become a user.
#[derive(Debug, Clone)]
pub struct Registration {
    /// As typed.
    pub phone: String,
    /// As typed; never logged, never sent back.
    pub password: secrecy::SecretString,
    /// As typed; none or empty: a name is made up.
    pub nick_name: Option<String>,
    /// May use the control room.
    pub admin: bool,
}

/// A user who has just shown who he is, and the hash that his password fitted; none: he came by another way.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Who.
    pub user: User,
    hash: Option<String>,
}

impl From<User> for Entry {
    fn from(user: User) -> Self {
        Self { user, hash: None }
    }
}

/// Everything about people; cheap to clone.
#[derive(Clone)]
pub struct Users {
    store: Store,
    clock: Clock,
    passwords: Passwords,
}

const NAME_LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// `user_` and ten random letters or digits.
fn made_up_name() -> String {
    let letter = || char::from(NAME_LETTERS[rand::random_range(0..NAME_LETTERS.len())]);
    std::iter::once(String::from("user_")).chain((0..10).map(|_| letter().to_string())).collect()
}

fn check<T>(errors: &mut FieldErrors, field: &'static str, read: Result<T, BadField>) -> Option<T> {
    read.map_err(|bad| errors.insert(field, FieldError::Person(bad))).ok()
}

impl Users {
    /// Takes the time of one password hash.
    pub fn new(store: Store, clock: Clock) -> Result<Self, UserError> {
        Ok(Self { store, clock, passwords: Passwords::new()? })
    }

    /// Makes a user.
    ///
    /// # Errors
    /// `Invalid` by field, `PhoneTaken`; also when two register the same phone at once, one of them.
    pub async fn register(&self, typed: Registration) -> Result<User, UserError> {
        use secrecy::ExposeSecret;
        let mut errors = FieldErrors::new();
        let name = typed.nick_name.filter(|n| !n.is_empty()).unwrap_or_else(made_up_name);
        let phone = check(&mut errors, "phone", Phone::parse(&typed.phone));
        let name = check(&mut errors, "nickName", NickName::parse(&name));
        check(&mut errors, "password", check_password(typed.password.expose_secret()));
        let (Some(phone), Some(name), true) = (phone, name, errors.is_empty()) else {
            return Err(UserError::Invalid(errors));
        };
        if self.store.user_by_phone(&phone).await?.is_some() {
            return Err(UserError::PhoneTaken); // before the costly hash; the unique index decides the race
        }
        let hash = self.passwords.hash(typed.password.expose_secret().to_owned()).await?;
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        let id = match tx.insert_user(&phone, &name, Some(&hash), typed.admin, self.clock.now()).await {
            Ok(id) => id,
            Err(StoreError::Conflict) => return Err(UserError::PhoneTaken),
            Err(error) => return Err(error.into()),
        };
        tx.commit().await?;
        Ok(User { id, nick_name: name.as_str().to_owned(), admin: typed.admin, disabled: false, credits: 0 })
    }

    /// The user with this phone and password. An unknown phone takes as long as a wrong password.
    ///
    /// # Errors
    /// `BadCredentials`, also for a disabled user and one without a password.
    pub async fn login(&self, phone: &Phone, password: &str) -> Result<Entry, UserError> {
        // Before the books are asked: whether the phone is known or not, a crowd hears it as early as it can.
        if self.passwords.is_crowded() {
            return Err(PasswordError::Crowded.into());
        }
        let (user, hash) = self.store.user_by_phone(phone).await?.map_or((None, None), |c| (Some(c.user), c.password_hash));
        // Longer than any password of ours: not worth the work, and no secret.
        let possible = password.len() <= 512;
        let worth_it = possible && (hash.is_some() || !crate::fault::mutant("no-hash-for-unknown-phones"));
        let fits = worth_it && self.passwords.fits(password.to_owned(), hash.clone()).await?;
        let user = user.filter(|u| fits && !u.disabled).ok_or(UserError::BadCredentials)?;
        Ok(Entry { user, hash })
    }

    /// Whether what let `entry` in still does: the user is not disabled, and the password is the same. Asked once more when
    /// the session is there: who disables a user, or changes his password, ends the sessions that he sees, and a login on
    /// its way in that moment is not among them.
    pub async fn still_welcome(&self, entry: &Entry) -> Result<bool, UserError> {
        let now = self.store.user_by_id(entry.user.id).await?;
        Ok(now.is_some_and(|c| !c.user.disabled && (entry.hash.is_none() || c.password_hash == entry.hash)))
    }

    /// The user with this phone, who has just shown that it is his; a new one, without a password, where there is none.
    ///
    /// # Errors
    /// `BadCredentials` for a disabled user.
    pub async fn by_phone_or_new(&self, phone: &Phone) -> Result<User, UserError> {
        // Twice: two logins of a new phone at once, and one of them makes the account.
        for _ in 0..2 {
            if let Some(known) = self.store.user_by_phone(phone).await? {
                return Some(known.user).filter(|u| !u.disabled).ok_or(UserError::BadCredentials);
            }
            let Ok(name) = NickName::parse(&made_up_name()) else { continue };
            let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
            match tx.insert_user(phone, &name, None, false, self.clock.now()).await {
                Ok(id) => {
                    tx.commit().await?;
                    return Ok(User { id, nick_name: name.as_str().to_owned(), admin: false, disabled: false, credits: 0 });
                }
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(UserError::Store(StoreError::Conflict))
    }

    /// Whoever has this id.
    pub async fn by_id(&self, id: UserId) -> Result<Option<User>, UserError> {
        Ok(self.store.user_by_id(id).await?.map(|c| c.user))
    }

    /// Checks that `old` is the user's password and `new` may become it, and answers the hash of `new` to be saved with
    /// [`Users::save_password`]. Two steps, so that the front door can end sessions in between.
    ///
    /// # Errors
    /// `BadCredentials`, `Invalid` (`newPassword`).
    pub async fn check_new_password(&self, id: UserId, old: &str, new: &str) -> Result<String, UserError> {
        let mut errors = FieldErrors::new();
        check(&mut errors, "newPassword", check_password(new));
        if !errors.is_empty() {
            return Err(UserError::Invalid(errors));
        }
        let hash = self.store.user_by_id(id).await?.and_then(|c| c.password_hash);
        if old.len() > 512 || !self.passwords.fits(old.to_owned(), hash).await? {
            return Err(UserError::BadCredentials);
        }
        Ok(self.passwords.hash(new.to_owned()).await?)
    }

    /// Saves a hash that [`Users::check_new_password`] answered.
    pub async fn save_password(&self, id: UserId, hash: &str) -> Result<(), UserError> {
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        tx.set_password_hash(id, hash).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Shuts a user out, or lets him in again; false: no such user. His sessions are the front door's to end, after this.
    pub async fn set_disabled(&self, id: UserId, disabled: bool, by: UserId) -> Result<bool, UserError> {
        let action = if disabled { "user.disable" } else { "user.enable" };
        let Some(before) = self.by_id(id).await? else { return Ok(false) };
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        if !tx.set_disabled(id, disabled).await? {
            return Ok(false);
        }
        let told = |disabled: bool| serde_json::json!({ "disabled": disabled }).to_string();
        let (before, after) = (told(before.disabled), told(disabled));
        tx.audit(&by.to_string(), action, &format!("user {id}"), Some(&before), Some(&after), self.clock.now()).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Writes down that an admin ended every session of a user.
    pub async fn log_sessions_ended(&self, id: UserId, by: UserId) -> Result<(), UserError> {
        let mut tx = self.store.begin_within(WRITER_WITHIN).await?;
        tx.audit(&by.to_string(), "user.logout", &format!("user {id}"), None, None, self.clock.now()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Gives a user a new password without asking for the old one (operator and demo).
    ///
    /// # Errors
    /// `Invalid` (`password`).
    pub async fn reset_password(&self, id: UserId, new: &str) -> Result<(), UserError> {
        let mut errors = FieldErrors::new();
        check(&mut errors, "password", check_password(new));
        if !errors.is_empty() {
            return Err(UserError::Invalid(errors));
        }
        let hash = self.passwords.hash(new.to_owned()).await?;
        self.save_password(id, &hash).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_name_is_a_good_name_and_not_the_same_twice() {
        let (a, b) = (made_up_name(), made_up_name());
        assert!(NickName::parse(&a).is_ok() && a.len() == 15 && a.starts_with("user_"));
        assert_ne!(a, b);
    }
}
