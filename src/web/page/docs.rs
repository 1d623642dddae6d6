//! `/docs`: the description of the API as a page, from the same table as `/openapi.json`, without a script.

use std::fmt::Write;

use askama::Template;
use axum::http::StatusCode;
use serde_json::Value;

use crate::web::openapi::operations::{Answer, OPERATIONS, Operation, Who};
use crate::web::openapi::{SCHEMAS, query_schema};
use crate::web::page::{Chrome, is_response};

/// One field of a body, or one value in the path or query.
struct Field {
    name: String,
    kind: String,
    required: bool,
}

/// One method of one path.
struct Entry {
    anchor: String,
    method: &'static str,
    path: &'static str,
    summary: String,
    who: String,
    fields: Vec<Field>,
    answer: &'static str,
    codes: Vec<&'static str>,
}

/// What belongs together.
struct Group {
    tag: &'static str,
    anchor: String,
    label: String,
    entries: Vec<Entry>,
}

/// One shape of an answer.
struct Shape {
    name: String,
    fields: Vec<Field>,
}

/// What a schema allows, in its own words: type, reference, limits.
fn kind_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
        return name.to_owned();
    }
    let mut kind = String::from(schema["type"].as_str().unwrap_or_default());
    if let Some(values) = schema["enum"].as_array() {
        let words = values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        kind = words.collect::<Vec<_>>().join(" | ");
    }
    if kind == "array" {
        kind = format!("{}[]", kind_of(&schema["items"]));
    }
    let limits = [("minLength", "≥ "), ("maxLength", "≤ "), ("minimum", "≥ "), ("maximum", "≤ ")];
    for (limit, sign) in limits {
        if let Some(n) = schema[limit].as_i64() {
            let _ = write!(kind, " {sign}{n}");
        }
    }
    kind
}

fn fields_of(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, s)| Field { name: name.clone(), kind: kind_of(s), required: required.contains(&name.as_str()) })
        .collect()
}

fn entry(c: &Chrome, op: &Operation) -> Entry {
    let who = match op.who {
        Who::Anyone => c.t("docs-anyone"),
        Who::User => c.t("docs-user"),
        Who::Admin => c.t("docs-admin"),
        Who::Ticket => c.t("docs-ticket"),
        Who::Provider => c.t("docs-provider"),
    };
    let in_path =
        op.path_parameters().map(|(name, schema)| Field { name: name.to_owned(), kind: schema.to_owned(), required: true });
    let in_query = op.query.iter().map(|(name, kind, required)| Field {
        name: format!("?{name}"),
        kind: kind_of(&query_schema(kind)),
        required: *required,
    });
    let body = op.body.map(|name| fields_of(&SCHEMAS[name.trim_start_matches('?')])).unwrap_or_default();
    Entry {
        anchor: format!("{}-{}", op.method, op.path.replace(['/', '{', '}', '.'], "-")),
        method: op.method,
        path: op.path,
        summary: op.summary(c.lang),
        who,
        fields: in_path.chain(in_query).chain(body).collect(),
        answer: match op.answer {
            Answer::Data(name) | Answer::DataAndTicket(name) | Answer::Json(name) | Answer::Other(name) => name,
            Answer::Done | Answer::Upgrade => "",
        },
        codes: op
            .codes()
            .into_iter()
            .filter(|code| !matches!(*code, "MALFORMED" | "INTERNAL" | "BUSY" | "TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE"))
            .collect(),
    }
}

/// The page.
#[derive(Template)]
#[template(path = "docs.html")]
pub struct DocsPage {
    /// 200 unless an answer asks for another.
    pub status: StatusCode,
    c: Chrome,
    groups: Vec<Group>,
    shapes: Vec<Shape>,
}

impl DocsPage {
    /// Everything that programs may call, and the shapes of what they are answered.
    #[must_use]
    pub fn new(c: Chrome) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for op in OPERATIONS {
            let entry = entry(&c, op);
            if let Some(group) = groups.iter_mut().find(|group| group.tag == op.tag) {
                group.entries.push(entry);
            } else {
                let anchor = format!("tag-{}", op.tag.replace(' ', "-"));
                groups.push(Group { tag: op.tag, label: c.t(&anchor), anchor, entries: vec![entry] });
            }
        }
        let answered =
            |name: &str| OPERATIONS.iter().any(|op| matches!(op.answer, Answer::Data(n) | Answer::Json(n) if n == name));
        let schemas = SCHEMAS.as_object().into_iter().flatten();
        let shapes = schemas.filter(|(name, s)| !fields_of(s).is_empty() && (answered(name) || *name == "Order"));
        let shapes = shapes.map(|(name, s)| Shape { name: name.clone(), fields: fields_of(s) }).collect();
        Self { status: StatusCode::OK, c, groups, shapes }
    }
}
is_response!(DocsPage);
