//! JSON Schemas of each kind of profile, from the key tables: editors complete and check with them.

use super::keys::{BOX, Key, Kind, MODEL, segments};
use super::library::ProfileKind;
use super::workload_keys::{CLIENTS, LOAD, SETTINGS};
use crate::control::Op;
use serde_json::{Map, Value, json};

/// The JSON Schema (2020-12) of a profile file.
pub fn schema(kind: ProfileKind) -> Value {
    let (table, title): (&'static [Key], &str) = match kind {
        ProfileKind::Box => (BOX, "lanekeeper box profile"),
        ProfileKind::Model => (MODEL, "lanekeeper model profile"),
        ProfileKind::Load => (&LOAD, "lanekeeper load"),
    };
    let mut root = object(table, "");
    root.insert("$schema".to_string(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_string(), json!(title));
    if kind == ProfileKind::Box {
        root.insert("$defs".to_string(), json!({ "model": Value::Object(object(MODEL, "")) }));
    }
    if kind == ProfileKind::Load {
        let item = |table| Value::Object(object(table, ""));
        root.insert("$defs".to_string(), json!({ "clients": item(CLIENTS), "settings": item(&SETTINGS) }));
    }
    Value::Object(root)
}

fn object(table: &'static [Key], prefix: &str) -> Map<String, Value> {
    let mut properties = Map::new();
    for segment in segments(table, prefix) {
        let path = format!("{prefix}{segment}");
        let property = match table.iter().find(|key| key.path == path) {
            Some(key) => leaf(key),
            None => Value::Object(object(table, &format!("{path}."))),
        };
        properties.insert(segment.to_string(), property);
    }
    let mut object = Map::new();
    object.insert("type".to_string(), json!("object"));
    object.insert("additionalProperties".to_string(), json!(false));
    object.insert("properties".to_string(), Value::Object(properties));
    object
}

fn leaf(key: &Key) -> Value {
    let mut schema = match key.kind {
        // Its items are the definition of the same name.
        Kind::Entries => json!({ "type": "array", "items": { "$ref": format!("#/$defs/{}", key.path) } }),
        kind => shape(kind),
    };
    schema["description"] = json!(key.doc);
    if let Some(text) = key.default {
        schema["default"] = typed_default(key.kind, text);
    }
    schema
}

fn typed_default(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Bool
        | Kind::Count { .. }
        | Kind::CountOr { .. }
        | Kind::Number { .. }
        | Kind::Millis { .. }
        | Kind::Seconds { .. }
        | Kind::Spread => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        _ => json!(text),
    }
}

fn shape(kind: Kind) -> Value {
    let number = |kind: &str, min: Value, max: Value, suffixes: &str| {
        json!({ "anyOf": [
            { "type": kind, "minimum": min, "maximum": max },
            { "type": "string", "pattern": format!("^[0-9][0-9_.]*({suffixes})?$") },
            { "type": "null" },
        ]})
    };
    match kind {
        Kind::Text | Kind::Reference | Kind::Path => json!({ "type": ["string", "null"] }),
        Kind::Name => json!({ "type": ["string", "null"], "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$" }),
        Kind::OneOf(words) => json!({ "enum": words }),
        Kind::Bool => json!({ "type": ["boolean", "null"] }),
        Kind::Count { min, max } => number("integer", json!(min), json!(max), "k|K|M|G|Ki|Mi|Gi"),
        Kind::CountOr { word, min, max } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, { "enum": [word] }, { "type": "null" }] })
        }
        Kind::Number { min, max } => json!({ "type": ["number", "null"], "minimum": min, "maximum": max }),
        Kind::Bytes { min, max } => {
            number("integer", json!(min), json!(max), "k|K|M|G|Ki|Mi|Gi|B|kB|KB|MB|GB|KiB|MiB|GiB")
        }
        Kind::Millis { min, max } | Kind::Seconds { min, max } => {
            number("number", json!(min), json!(max), "us|ms|s|m|h")
        }
        Kind::Address => json!({ "type": ["string", "null"], "pattern": "^.+:[0-9]{1,5}$" }),
        Kind::Device => json!({ "type": ["string", "null"], "pattern": "^(auto|cpu|cuda(:[0-9]+)?|metal(:[0-9]+)?)$" }),
        Kind::Ops => {
            json!({ "type": ["array", "null"], "items": { "enum": Op::ALL.map(Op::name) }, "uniqueItems": true })
        }
        Kind::Sha256 => json!({ "type": ["string", "null"], "pattern": "^([0-9a-fA-F]{64}|unpinned)$" }),
        Kind::Sources => {
            let source = json!({ "type": "string", "pattern": "^(hf|pip|file):.+" });
            json!({ "type": ["array", "null"], "items": {
                "anyOf": [source, { "type": "array", "items": source, "minItems": 1 }]
            }})
        }
        Kind::Spread => json!({ "type": ["number", "string", "null"], "minimum": 0 }),
        Kind::Entries => json!({ "type": "array" }),
        Kind::Models => json!({ "type": "array", "minItems": 1, "items": {
            "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/model" }]
        }}),
    }
}
