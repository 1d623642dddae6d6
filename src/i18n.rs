//! The catalogue: every sentence that a person reads, in Chinese and in English, from `templates/words/`.
//!
//! No other file holds such a sentence. Ids and numbers go in as strings, because the catalogue's own numbers are floats.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;

use fluent_templates::fluent_bundle::FluentValue;
use fluent_templates::{LanguageIdentifier, static_loader};
use unic_langid::langid;

use crate::domain::money::Fen;
use crate::domain::user::BadField;
use crate::domain::voucher::FieldError;

static_loader! {
    static WORDS = {
        locales: "./templates/words",
        fallback_language: "zh-CN",
        // Without this an invisible isolation mark would stand around every argument.
        customise: |bundle| bundle.set_use_isolating(false),
    };
}

/// A language of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lang {
    /// Simplified Chinese, the first language of the shop.
    #[default]
    ZhCn,
    /// English.
    En,
}

impl Lang {
    /// The tag for `lang="…"`, `?lang=` and its cookie.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::ZhCn => "zh-CN",
            Self::En => "en",
        }
    }

    /// The language that `?lang=` or its cookie names; none for anything but the two tags.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        [Self::ZhCn, Self::En].into_iter().find(|lang| lang.tag() == tag)
    }

    /// The language that an `Accept-Language` header asks for: Chinese when the header is absent, empty or takes anything,
    /// English when it names neither of the two.
    #[must_use]
    pub fn from_accept_language(header: Option<&str>) -> Self {
        let mut best: Option<(u16, Self)> = None;
        let mut asked = false;
        for part in header.unwrap_or_default().split(',') {
            let mut pieces = part.split(';').map(str::trim);
            let Some(tag) = pieces.next().filter(|t| !t.is_empty()) else { continue };
            asked = true;
            let weight = pieces.find_map(|p| p.strip_prefix("q=")).map_or(1000, weight_of);
            let lang = match tag.split('-').next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "zh" | "*" => Self::ZhCn,
                "en" => Self::En,
                _ => continue,
            };
            if weight > 0 && best.is_none_or(|(w, _)| weight > w) {
                best = Some((weight, lang));
            }
        }
        best.map_or(if asked { Self::En } else { Self::ZhCn }, |(_, lang)| lang)
    }

    /// The other language, for the switch at the top of a page.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::ZhCn => Self::En,
            Self::En => Self::ZhCn,
        }
    }

    fn id(self) -> LanguageIdentifier {
        match self {
            Self::ZhCn => langid!("zh-CN"),
            Self::En => langid!("en"),
        }
    }

    /// The words under `key`. A key that is missing comes back as itself; a test keeps that from happening.
    #[must_use]
    pub fn t(self, key: &str) -> String {
        self.f(key, &[])
    }

    /// The words under `key` with `{ $name }` filled in.
    #[must_use]
    pub fn f(self, key: &str, args: &[(&'static str, &dyn Display)]) -> String {
        let args: HashMap<Cow<'static, str>, FluentValue<'_>> =
            args.iter().map(|(name, value)| (Cow::Borrowed(*name), FluentValue::from(value.to_string()))).collect();
        WORDS.lookup_single_language(&self.id(), key, Some(&args)).unwrap_or_else(|_| key.to_owned())
    }
}

/// A quality value in thousandths; 0 for nonsense, which then never wins.
fn weight_of(text: &str) -> u16 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    match whole {
        "1" => 1000,
        "0" => format!("{part:0<3}").get(..3).and_then(|p| p.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}

/// The catalogue key of a code of CONTRACT: statuses that HTTP itself names share one sentence.
fn key_of(code: &str) -> String {
    match code {
        "METHOD_NOT_ALLOWED" | "URI_TOO_LONG" | "UNSUPPORTED_MEDIA_TYPE" | "HEADERS_TOO_LARGE" => "too-large".to_owned(),
        _ => code.to_ascii_lowercase().replace('_', "-"),
    }
}

/// `errorMsg` of the API for a code: a fixed sentence without arguments.
#[must_use]
pub fn api_message(lang: Lang, code: &str) -> String {
    let key = format!("msg-{}", key_of(code));
    let words = lang.t(&key);
    if words == key { lang.t("msg-internal") } else { words }
}

/// What a page says for a code: the fixed sentence and the next step. `time`: when a sale begins, `seconds`: how long to
/// wait, `req`: the request's number; each used only where the sentence has a place for it.
#[must_use]
pub fn page_message(lang: Lang, code: &str, time: &str, seconds: u64, req: &str) -> String {
    let key = format!("next-{}", key_of(code));
    let words = lang.f(&key, &[("time", &time), ("seconds", &seconds), ("req", &req)]);
    if words == key { lang.f("next-internal", &[("req", &req)]) } else { words }
}

/// The heading of an error page for a code.
#[must_use]
pub fn error_title(lang: Lang, code: &str) -> String {
    let key = format!("error-title-{}", key_of(code));
    let words = lang.t(&key);
    if words == key { api_message(lang, code) } else { words }
}

/// What is wrong with a field, as the API says it; amounts are in fen there.
#[must_use]
pub fn field_error(lang: Lang, error: &FieldError) -> String {
    match error {
        FieldError::Missing => lang.t("error-missing"),
        FieldError::TooLong { max } => lang.f("error-too-long", &[("max", max)]),
        FieldError::ControlCharacter => lang.t("error-control"),
        FieldError::NotANumber => lang.t("error-number"),
        FieldError::NotAnAmount => lang.t("error-amount"),
        FieldError::OutOfRange { min, max } => lang.f("error-range", &[("min", min), ("max", max)]),
        FieldError::NotATime => lang.t("error-time"),
        FieldError::EndBeforeBegin => lang.t("error-end-before-begin"),
        FieldError::EndInThePast => lang.t("error-end-past"),
        FieldError::TooLongASale => lang.t("error-too-long-sale"),
        FieldError::UnknownShop => lang.t("error-shop"),
        FieldError::UnknownZone => lang.t("error-zone"),
        FieldError::Person(bad) => lang.t(match bad {
            BadField::Phone => "error-phone",
            BadField::NickName => "error-nick-name",
            BadField::PasswordShort => "error-password-short",
            BadField::PasswordLong => "error-password-long",
            BadField::PasswordCommon => "error-password-common",
        }),
    }
}

/// What is wrong with a field, as a form says it: prices in yuan, as they were typed.
#[must_use]
pub fn form_field_error(lang: Lang, field: &str, error: &FieldError) -> String {
    match error {
        FieldError::OutOfRange { min, max } if matches!(field, "payValue" | "actualValue") => {
            lang.f("error-range-yuan", &[("min", &Fen(*min)), ("max", &Fen(*max))])
        }
        _ => field_error(lang, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_follows_the_header() {
        let cases = [
            (None, Lang::ZhCn),
            (Some(""), Lang::ZhCn),
            (Some("*"), Lang::ZhCn),
            (Some("en-US,en;q=0.9"), Lang::En),
            (Some("zh-TW;q=0.5, en;q=0.4"), Lang::ZhCn),
            (Some("zh;q=0.4, EN;q=0.8"), Lang::En),
            (Some("fr, de"), Lang::En),
            (Some("fr, zh;q=0.1"), Lang::ZhCn),
            (Some("en;q=0, zh;q=x"), Lang::En),
        ];
        for (header, expected) in cases {
            assert_eq!(Lang::from_accept_language(header), expected, "{header:?}");
        }
    }

    #[test]
    fn the_fixed_sentences_are_exactly_these() {
        let fixed = [
            ("SOLD_OUT", "库存不足"),
            ("DUPLICATE", "不能重复下单"),
            ("BUSY", "活动太火爆，请稍后再试"),
            ("UNCERTAIN", "不确定是否成功，请再点一次，不会重复下单"),
        ];
        for (code, sentence) in fixed {
            assert_eq!(api_message(Lang::ZhCn, code), sentence);
            assert!(page_message(Lang::ZhCn, code, "", 3, "").starts_with(sentence), "{code}");
        }
        assert_eq!(api_message(Lang::En, "NO_SUCH_CODE"), api_message(Lang::En, "INTERNAL"));
        assert_eq!(api_message(Lang::En, "METHOD_NOT_ALLOWED"), api_message(Lang::En, "TOO_LARGE"));
        assert_eq!(page_message(Lang::ZhCn, "NOT_BEGUN", "12:00", 0, ""), "还没开始，12:00 开抢。早点了没关系，到时再点。");
    }

    #[test]
    fn a_price_is_refused_in_the_unit_that_it_was_typed_in() {
        let wrong = FieldError::OutOfRange { min: 1, max: 100_000_000 };
        assert_eq!(form_field_error(Lang::ZhCn, "payValue", &wrong), "要在 0.01 到 1000000 元之间。");
        assert_eq!(field_error(Lang::ZhCn, &wrong), "要在 1 到 100000000 之间。");
    }
}
