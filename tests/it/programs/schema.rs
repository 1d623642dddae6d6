//! A reader of JSON Schema as far as our own description uses it: what does not fit is told with its place.

use serde_json::Value;

fn size(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}

/// What is wrong with `value` under `schema`; `document` is where references lead.
pub fn problems(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut wrong = |why: String| found.push(format!("{at}: {why}: {value}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference} leads nowhere"));
        return problems(document, target, value, at);
    }
    if let Some(kind) = schema["type"].as_str() {
        let fits = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            other => panic!("{other} is no type that is read here"),
        };
        if !fits {
            wrong(format!("is no {kind}"));
        }
    }
    if let Some(expected) = schema.get("const").filter(|expected| *expected != value) {
        wrong(format!("is not {expected}"));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        wrong(format!("is none of {}", schema["enum"]));
    }
    let outside = |limit: &str, n: f64, below: bool| schema[limit].as_f64().is_some_and(|l| if below { n < l } else { n > l });
    if let Some(n) = value.as_f64().filter(|n| outside("minimum", *n, true) || outside("maximum", *n, false)) {
        wrong(format!("{n} is out of range"));
    }
    if let Some(text) = value.as_str() {
        let length = size(text.chars().count());
        if outside("minLength", length, true) || outside("maxLength", length, false) {
            wrong(String::from("has the wrong length"));
        }
        if schema["format"] == "date-time" && !(text.ends_with('Z') && text.len() == 24 && text.as_bytes()[10] == b'T') {
            wrong(String::from("is no time"));
        }
    }
    if let Some(items) = value.as_array() {
        if outside("maxItems", size(items.len()), false) {
            wrong(String::from("has too many"));
        }
        if let Some(schema) = schema.get("items") {
            found.extend(items.iter().enumerate().flat_map(|(i, item)| problems(document, schema, item, &format!("{at}[{i}]"))));
        }
    } else if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                found.push(format!("{at}: {name} is missing: {value}"));
            }
        }
        for (name, value) in object {
            match schema["properties"].get(name) {
                Some(schema) => found.extend(problems(document, schema, value, &format!("{at}.{name}"))),
                None if schema["additionalProperties"] == false => found.push(format!("{at}: nobody knows {name}")),
                None => {}
            }
        }
    }
    for schema in schema["allOf"].as_array().into_iter().flatten() {
        found.extend(problems(document, schema, value, at));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|schema| problems(document, schema, value, at).is_empty()).count();
        if fitting != 1 {
            let why: Vec<_> = choices.iter().flat_map(|schema| problems(document, schema, value, at)).collect();
            found.push(format!("{at}: fits {fitting} of the choices: {value}: {why:?}"));
        }
    }
    found
}

#[test]
fn the_reader_finds_what_does_not_fit() {
    use serde_json::json;
    let document = json!({ "a": { "type": "integer", "minimum": 1 } });
    let schema = json!({
        "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "$ref": "#/a" }, "t": { "format": "date-time" }, "e": { "enum": ["x"] }, "l": { "type": "array", "maxItems": 1 } },
    });
    let wrong = |value| problems(&document, &schema, &value, "it").len();
    assert_eq!(wrong(json!({ "n": 1, "t": "2026-07-04T10:00:00.000Z", "e": "x", "l": [1] })), 0);
    let bad =
        [json!([]), json!({}), json!({ "n": 0 }), json!({ "n": "1" }), json!({ "n": 1, "m": 1 }), json!({ "n": 1, "t": "now" })];
    for value in bad.into_iter().chain([json!({ "n": 1, "e": "y" }), json!({ "n": 1, "l": [1, 2] })]) {
        assert!(wrong(value.clone()) > 0, "{value}");
    }
    let one = json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] });
    assert_eq!((problems(&document, &one, &json!(1), "it").len(), problems(&document, &one, &json!(1.5), "it").len()), (1, 0));
}
