//! What a client sent, field by field: a query, a form or a JSON object, read alike and strictly.
//!
//! A wrong value is an error at its field; a wrong shape is MALFORMED.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::domain::money::Fen;
use crate::domain::time::{Millis, parse_instant};
use crate::domain::voucher::{FieldError, FieldErrors};
use crate::web::error::Problem;

/// The most bytes that a body may have.
pub const MAX_BODY: usize = 16 * 1024;

/// Named values; `errors` gathers what is wrong with them.
#[derive(Debug, Default)]
pub struct Fields {
    values: BTreeMap<String, Value>,
    is_form: bool,
    /// What is wrong, by field.
    pub errors: FieldErrors,
}

impl Fields {
    fn from_pairs(text: &str) -> Self {
        let mut values = BTreeMap::new();
        // Empty pairs are skipped, so that a query may begin with `&`. The first of a repeated name counts.
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            values.entry(name.into_owned()).or_insert_with(|| Value::String(value.into_owned()));
        }
        Self { values, is_form: true, errors: FieldErrors::new() }
    }

    fn from_json(bytes: &[u8]) -> Result<Self, Problem> {
        let values = serde_json::from_slice(bytes).map_err(|_| Problem::Malformed)?;
        Ok(Self { values, is_form: false, errors: FieldErrors::new() })
    }

    /// Refuses a JSON object with fields that nobody reads: a misspelt one would be ignored without a word. `type` may
    /// always be carried. A form may have what it likes.
    pub fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let unknown = |name: &String| name != "type" && !known.contains(&name.as_str());
        if !self.is_form && self.values.keys().any(unknown) { Err(Problem::Malformed) } else { Ok(()) }
    }

    /// A text; none when absent or null.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Problem::Malformed),
        }
    }

    /// A text as typed, empty when there is none or when it is no text: to put it back into a form.
    #[must_use]
    pub fn typed(&self, name: &str) -> &str {
        self.values.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn wrong<T>(&mut self, name: &'static str, error: FieldError) -> Option<T> {
        self.errors.entry(name).or_insert(error);
        None
    }

    /// A whole number; absent: none without an error.
    pub fn integer(&mut self, name: &'static str) -> Option<i64> {
        let value = match self.values.get(name)? {
            Value::Null => return None,
            Value::String(text) if self.is_form && text.trim().is_empty() => return None,
            Value::String(text) if self.is_form => parse_whole(text.trim()),
            Value::Number(number) => number.as_i64(),
            _ => None,
        };
        value.or_else(|| self.wrong(name, FieldError::NotANumber))
    }

    /// An amount: whole fen in JSON, yuan with at most two decimals in a form; absent: none without an error.
    pub fn amount(&mut self, name: &'static str) -> Option<Fen> {
        if !self.is_form {
            return self.integer(name).map(Fen);
        }
        let text = self.typed(name).trim();
        if text.is_empty() {
            return None;
        }
        Fen::parse_yuan(text).ok().or_else(|| self.wrong(name, FieldError::NotAnAmount))
    }

    /// An instant, read in `zone` when it has no offset; absent: none without an error.
    pub fn instant(&mut self, name: &'static str, zone: &TimeZone) -> Option<Millis> {
        let at = match self.values.get(name)? {
            Value::Null => return None,
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => parse_instant(text, zone).ok(),
            _ => None,
        };
        at.or_else(|| self.wrong(name, FieldError::NotATime))
    }

    /// The value under a name as it came.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// An object inside a JSON object; none when absent or null.
    pub fn object(&self, name: &str) -> Result<Option<Self>, Problem> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => {
                let values = map.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                Ok(Some(Self { values, is_form: false, errors: FieldErrors::new() }))
            }
            Some(_) => Err(Problem::Malformed),
        }
    }

    /// A switch: true or false in JSON, a ticked box in a form; absent: off.
    pub fn switch(&self, name: &str) -> Result<bool, Problem> {
        match self.values.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(Value::String(text)) if self.is_form => match text.as_str() {
                "true" | "on" => Ok(true),
                "" | "false" => Ok(false),
                _ => Err(Problem::Malformed),
            },
            Some(_) => Err(Problem::Malformed),
        }
    }

    /// A number as text, with its decimals; absent: none, no number: a text that cannot be read as one.
    #[must_use]
    pub fn number_text(&self, name: &str) -> Option<String> {
        match self.values.get(name)? {
            Value::Null => None,
            Value::Number(number) => Some(number.to_string()),
            Value::String(text) if self.is_form => Some(text.clone()).filter(|t| !t.is_empty()),
            _ => Some(String::new()),
        }
    }
}

/// How long a body may take to arrive: one that trickles in would hold its place for ever.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// A whole number as people write it: what a machine would read besides (`+5`, `007`, `-0`) is more likely a slip.
fn parse_whole(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// The body's bytes; over the limit: `TOO_LARGE`.
async fn read_body(body: Body) -> Result<bytes::Bytes, Problem> {
    let read = tokio::time::timeout(BODY_WITHIN, axum::body::to_bytes(body, MAX_BODY)).await;
    read.map_err(|_| Problem::Malformed)?.map_err(|error| {
        // A broken upload and a long one end alike here; only the long one says so.
        let first = std::error::Error::source(&error);
        let long =
            std::iter::successors(first, |e| e.source()).any(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
        if long { Problem::TooLarge } else { Problem::Malformed }
    })
}

/// Whether the body's type is `wanted`; none: no type is given.
fn has_type(headers: &HeaderMap, wanted: &str) -> Option<bool> {
    let text = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(text.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted))
}

/// A JSON object in the body. A body without a type is read as JSON, another type is refused.
#[derive(Debug)]
pub struct JsonFields(pub Fields);

impl<S: Sync> FromRequest<S> for JsonFields {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if has_type(request.headers(), "application/json") == Some(false) {
            return Err(Problem::UnsupportedMedia);
        }
        Fields::from_json(&read_body(request.into_body()).await?).map(Self)
    }
}

/// A JSON object in the body, or no body at all; then any type or none.
#[derive(Debug)]
pub struct OptionalJson(pub Option<Fields>);

impl<S: Sync> FromRequest<S> for OptionalJson {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if HttpBody::is_end_stream(request.body()) {
            return Ok(Self(None));
        }
        let is_json = has_type(request.headers(), "application/json") != Some(false);
        let bytes = read_body(request.into_body()).await?;
        match (bytes.is_empty(), is_json) {
            (true, _) => Ok(Self(None)),
            (false, true) => Fields::from_json(&bytes).map(|f| Self(Some(f))),
            (false, false) => Err(Problem::UnsupportedMedia),
        }
    }
}

/// A posted form. A post without body and type is an empty form.
#[derive(Debug)]
pub struct FormFields(pub Fields);

impl<S: Sync> FromRequest<S> for FormFields {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if has_type(request.headers(), "application/x-www-form-urlencoded") == Some(false) {
            return Err(Problem::UnsupportedMedia);
        }
        let bytes = read_body(request.into_body()).await?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Problem::Malformed)?;
        Ok(Self(Fields::from_pairs(text)))
    }
}

/// The query. Never refused as a whole.
#[derive(Debug)]
pub struct QueryFields(pub Fields);

impl QueryFields {
    /// The fields of a query string, without the `?`.
    #[must_use]
    pub fn of(query: Option<&str>) -> Self {
        Self(Fields::from_pairs(query.unwrap_or_default()))
    }
}

impl<S: Sync> FromRequestParts<S> for QueryFields {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(parts.uri.query()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_begin_with_an_ampersand_and_the_first_of_two_counts() {
        let QueryFields(mut fields) = QueryFields::of(Some("&typeId=1&current=2&current=3&name=%E8%8C%B6+x"));
        assert_eq!(fields.integer("typeId"), Some(1));
        assert_eq!(fields.integer("current"), Some(2));
        assert_eq!(fields.typed("name"), "茶 x");
        assert!(fields.errors.is_empty());
    }

    #[test]
    fn a_misspelt_field_is_refused_and_type_may_be_carried() {
        let fields = Fields::from_json(br#"{"type":1,"title":"x","stok":3}"#).unwrap();
        assert!(fields.only(&["title", "stock"]).is_err());
        assert!(fields.only(&["title", "stok"]).is_ok());
        for bad in ["", "[]", "1", "{", "null", "{\"a\":1,}"] {
            assert!(Fields::from_json(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn wrong_values_are_errors_at_their_field_and_money_follows_the_form() {
        let mut json = Fields::from_json(br#"{"payValue":4900,"stock":1.5,"endTime":"soon","actualValue":"49"}"#).unwrap();
        assert_eq!(json.amount("payValue"), Some(Fen(4900)));
        assert_eq!(json.integer("stock"), None);
        assert_eq!(json.amount("actualValue"), None);
        assert_eq!(json.instant("endTime", &TimeZone::UTC), None);
        assert_eq!(json.errors.keys().copied().collect::<Vec<_>>(), ["actualValue", "endTime", "stock"]);
        let mut form = Fields::from_pairs("payValue=49.9&stock=&actualValue=1e3");
        assert_eq!(form.amount("payValue"), Some(Fen(4990)));
        assert_eq!((form.integer("stock"), form.amount("actualValue")), (None, None));
        assert_eq!(form.errors.keys().copied().collect::<Vec<_>>(), ["actualValue"]);
    }
}
