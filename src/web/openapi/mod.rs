//! `/openapi.json`, put together once from the table of operations and the schemas.

pub mod operations;

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::i18n::Lang;
use operations::{Answer, OPERATIONS, Operation, Who};

/// The schemas by name.
pub static SCHEMAS: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("schemas.json")).unwrap_or_default());

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

/// `GET /openapi.json`
pub async fn serve() -> Response {
    let head = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "public, max-age=300")];
    (head, DOCUMENT.as_str()).into_response()
}

/// Status and meaning of the codes that an answer may carry.
#[must_use]
pub fn status_of(code: &str) -> u16 {
    match code {
        "SOLD_OUT" | "DUPLICATE" | "NOT_BEGUN" | "ENDED" | "PAUSED" | "CAPTCHA_REQUIRED" | "BAD_CREDENTIALS" | "BAD_CODE"
        | "BAD_PHONE" => 200,
        "MALFORMED" => 400,
        "LOGIN_REQUIRED" | "BAD_SIGNATURE" => 401,
        "FORBIDDEN" => 403,
        "NOT_FOUND" => 404,
        "TOO_LARGE" => 413,
        "UNSUPPORTED_MEDIA_TYPE" => 415,
        "WRONG_STATE" | "QUEUED" | "PHONE_TAKEN" | "VERSION_CONFLICT" | "OTHER_BODY" | "OTHER_ORDER" => 409,
        "INVALID" | "WRONG_AMOUNT" => 422,
        "TOO_MANY_REQUESTS" => 429,
        "BUSY" | "UNCERTAIN" => 503,
        _ => 500,
    }
}

impl Operation {
    /// Every code that it may be refused with.
    #[must_use]
    pub fn codes(&self) -> Vec<&'static str> {
        let mut codes = self.refusals.to_vec();
        if !self.path.starts_with("/api") {
            return codes;
        }
        codes.push("MALFORMED");
        match self.who {
            Who::User => codes.push("LOGIN_REQUIRED"),
            Who::Admin => codes.extend(["LOGIN_REQUIRED", "FORBIDDEN"]),
            // A token of one user and a cookie of another: only where a login is needed.
            Who::Anyone | Who::Ticket | Who::Provider => {}
        }
        if self.method != "GET" && self.who != Who::Provider && !codes.contains(&"FORBIDDEN") {
            codes.push("FORBIDDEN");
        }
        if self.body.is_some() {
            codes.extend(["TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"]);
        }
        codes.extend(["INTERNAL", "BUSY"]);
        codes
    }

    /// The names in its path, each with its schema.
    pub fn path_parameters(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let order = self.path.starts_with("/api/voucher-order/{id}");
        self.path.split('/').filter_map(move |part| {
            let name = part.strip_prefix('{')?.split('}').next()?;
            Some((name, if order { "OrderId" } else { "Id" }))
        })
    }

    /// Its id in the description.
    #[must_use]
    pub fn id(&self) -> String {
        let words = self.path.split(['/', '-', '.', '_']).filter(|w| !w.is_empty() && *w != "api");
        let named = words.map(|w| w.trim_matches(['{', '}']).to_owned());
        std::iter::once(self.method.to_lowercase()).chain(named).collect::<Vec<_>>().join("_")
    }
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// The schema of a value in the query.
#[must_use]
pub fn query_schema(kind: &str) -> Value {
    match kind {
        "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 20 }),
        "page" => json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 1 }),
        "id" => json!({ "type": "integer" }),
        "degrees" => json!({ "type": "number", "minimum": -180, "maximum": 180 }),
        "sortBy" => json!({ "enum": ["comments", "score"] }),
        "status" => {
            json!({ "enum": ["QUEUED", "PENDING", "PAID", "CANCELLED", "REFUNDING", "REFUNDED", "FAILED"] })
        }
        "closeReason" => json!({ "enum": ["USER", "TIMEOUT", "DUPLICATE", "SOLD_OUT", "LOST", "DISCARDED"] }),
        "live" => json!({ "enum": ["0", "1"] }),
        "outboxState" => json!({ "enum": ["open"] }),
        "phone" => reference("Phone"),
        _ => json!({ "type": "string" }),
    }
}

fn parameters(op: &Operation) -> Vec<Value> {
    let in_path = op
        .path_parameters()
        .map(|(name, schema)| json!({ "name": name, "in": "path", "required": true, "schema": reference(schema) }));
    let in_query = op
        .query
        .iter()
        .map(|(name, kind, required)| json!({ "name": name, "in": "query", "required": required, "schema": query_schema(kind) }));
    let mut all: Vec<Value> = in_path.chain(in_query).collect();
    if op.keyed {
        let schema = json!({ "type": "string", "minLength": 1, "maxLength": 200 });
        all.push(json!({ "name": "Idempotency-Key", "in": "header", "required": false, "schema": schema }));
    }
    if op.who == Who::Provider {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            all.push(json!({ "name": name, "in": "header", "required": true, "schema": { "type": "string" } }));
        }
    }
    if op.path.starts_with("/api") {
        all.push(json!({ "name": "lang", "in": "query", "required": false, "schema": { "enum": ["zh-CN", "en"] } }));
    }
    all
}

fn success(answer: Answer) -> Option<Value> {
    let envelope = |data: Option<&str>, ticket: bool| {
        let mut properties = json!({ "success": { "const": true } });
        let mut required = vec!["success"];
        if let Some(schema) = data {
            properties["data"] = reference(schema);
            required.push("data");
        }
        if ticket {
            properties["ticket"] = reference("Ticket");
            required.push("ticket");
        }
        json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
    };
    match answer {
        Answer::Data(schema) => Some(envelope(Some(schema), false)),
        Answer::DataAndTicket(schema) => Some(envelope(Some(schema), true)),
        Answer::Done => Some(envelope(None, false)),
        Answer::Json(schema) => Some(reference(schema)),
        Answer::Other(_) | Answer::Upgrade => None,
    }
}

/// The provider reads codes alone.
fn refusal(who: Who, codes: &[&str]) -> Value {
    let required: &[&str] = if who == Who::Provider { &["success", "code"] } else { &["success", "errorMsg", "code"] };
    json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": {
            "success": { "const": false },
            "errorMsg": { "type": "string", "minLength": 1, "description": "A sentence for people, in the language asked for." },
            "code": { "enum": codes },
            "data": { "description": "DUPLICATE: the order id. NOT_BEGUN: beginTime and serverTime. CAPTCHA_REQUIRED: a challenge. WRONG_STATE: what it is. INVALID: fields. INTERNAL: requestId." },
            "ticket": reference("Ticket"),
        },
    })
}

fn responses(op: &Operation) -> Value {
    let mut responses = Map::new();
    let mut by_status: std::collections::BTreeMap<u16, Vec<&str>> = std::collections::BTreeMap::new();
    for code in op.codes() {
        by_status.entry(status_of(code)).or_default().push(code);
    }
    let answered = by_status.remove(&200).unwrap_or_default();
    let content = match (success(op.answer), op.answer) {
        (Some(good), _) if answered.is_empty() => json!({ "application/json": { "schema": good } }),
        (Some(good), _) => json!({ "application/json": { "schema": { "oneOf": [good, refusal(op.who, &answered)] } } }),
        (None, Answer::Other(media)) => json!({ media: { "schema": { "type": "string" } } }),
        (None, _) => Value::Null,
    };
    if op.answer == Answer::Upgrade {
        responses.insert(String::from("101"), json!({ "description": "The connection is a WebSocket now." }));
        responses.insert(String::from("403"), json!({ "description": "The Origin is another site's." }));
    } else {
        responses.insert(String::from("200"), json!({ "description": "Answered.", "content": content.clone() }));
    }
    if op.who == Who::Provider {
        responses.insert(String::from("202"), json!({ "description": "Kept until its order is saved.", "content": content }));
    }
    if op.path == "/readyz" {
        responses.insert(String::from("503"), json!({ "description": "Not ready, with the reasons.", "content": content }));
    }
    for (status, codes) in by_status {
        let mut response = json!({
            "description": codes.join(", "),
            "content": { "application/json": { "schema": refusal(op.who, &codes) } },
        });
        if matches!(status, 429 | 503) {
            response["headers"] =
                json!({ "Retry-After": { "schema": { "type": "integer", "minimum": 1 }, "description": "Seconds." } });
        }
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

fn described(op: &Operation) -> Value {
    let mut described = json!({
        "operationId": op.id(),
        "tags": [op.tag],
        "summary": op.summary(Lang::En),
        "parameters": parameters(op),
        "responses": responses(op),
    });
    described["security"] = match op.who {
        Who::User | Who::Admin => json!([{ "token": [] }, { "cookie": [] }]),
        Who::Ticket => json!([{ "token": [] }, { "cookie": [] }, {}]),
        Who::Anyone | Who::Provider => json!([]),
    };
    if let Some(body) = op.body {
        let schema = reference(body.trim_start_matches('?'));
        described["requestBody"] =
            json!({ "required": !body.starts_with('?'), "content": { "application/json": { "schema": schema } } });
    }
    described
}

/// The whole description.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for op in OPERATIONS {
        let path = paths.entry(op.path).or_insert_with(|| json!({}));
        path[op.method.to_lowercase()] = described(op);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "seckill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A flash-sale voucher shop. Answers under /api are an envelope: success with data, or errorMsg with a code. A refused question is 200; a failed request is not.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS.clone(),
            "securitySchemes": {
                "token": { "type": "apiKey", "in": "header", "name": "authorization", "description": "The token that a login answered, bare or after Bearer." },
                "cookie": { "type": "apiKey", "in": "cookie", "name": "seckill_session", "description": "The same session, for browsers. __Host- stands before the name where the shop is reached by TLS." },
            },
        },
    })
}
