//! Fields of a form: what was typed, and what is wrong with it.

use crate::domain::voucher::FieldErrors;
use crate::i18n;
use crate::web::page::Chrome;

/// One field, worded.
#[derive(Debug, Clone, Default)]
pub(super) struct Field {
    /// The JSON name: also the input's name and id.
    pub(super) name: &'static str,
    /// What was typed; never a password.
    pub(super) value: String,
    /// What is wrong, in a sentence.
    pub(super) error: Option<String>,
}

impl Field {
    pub(super) fn new(c: &Chrome, name: &'static str, value: &str, errors: &FieldErrors) -> Self {
        let error = errors.get(name).map(|e| i18n::form_field_error(c.lang, name, e));
        Self { name, value: value.to_owned(), error }
    }
}

/// "n things to mend; what you typed is kept."; none when nothing is wrong.
pub(super) fn summary(c: &Chrome, errors: &FieldErrors) -> Option<String> {
    let plural = if errors.len() == 1 { "one" } else { "other" };
    (!errors.is_empty()).then(|| c.f("form-some", &[("count", &errors.len()), ("plural", &plural)]))
}
