//! Documents checked against the committed schemas: as much of JSON Schema as those use, and a panic over anything else.

use serde_json::Value;

/// Says where `value` is not as the committed schema `name` has it.
pub fn faults(name: &str, value: &Value) -> Vec<String> {
    let path = format!("{}/docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let root: Value = serde_json::from_str(&text).unwrap();
    let mut faults = Vec::new();
    check(&root, &root, value, "", &mut faults);
    faults
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Some(rules) = schema.as_object() else {
        assert_eq!(schema, &Value::Bool(true), "a schema is an object or true");
        return;
    };
    let one_of = |several: &Value| {
        let fits = |schema: &&Value| {
            let mut inner = Vec::new();
            check(root, schema, value, at, &mut inner);
            inner.is_empty()
        };
        several.as_array().unwrap().iter().filter(fits).count()
    };
    for (rule, says) in rules {
        let holds = match rule.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            "$ref" => {
                let pointer = says.as_str().unwrap().trim_start_matches('#');
                check(root, root.pointer(pointer).unwrap(), value, at, faults);
                true
            }
            "type" => match says {
                Value::String(kind) => is(value, kind),
                kinds => kinds.as_array().unwrap().iter().any(|kind| is(value, kind.as_str().unwrap())),
            },
            "enum" => says.as_array().unwrap().contains(value),
            "const" => says == value,
            "minimum" => value.as_f64().is_none_or(|n| n >= says.as_f64().unwrap()),
            "anyOf" => one_of(says) > 0,
            "oneOf" => one_of(says) == 1,
            "required" => {
                let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                !value.is_object() || says.as_array().unwrap().iter().all(has)
            }
            "properties" => {
                for (name, schema) in says.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(root, schema, value, &format!("{at}/{name}"), faults);
                    }
                }
                true
            }
            "items" => {
                for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, says, value, &format!("{at}/{i}"), faults);
                }
                true
            }
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= says.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= says.as_u64().unwrap()),
            other => panic!("the checker does not know the rule {other:?}"),
        };
        if !holds {
            faults.push(format!("{at}: {value} against {rule} {says}"));
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

#[test]
fn a_document_that_is_not_as_the_schema_says_is_told() {
    let mut caps = serde_json::json!([{ "model": "m", "op": "embed", "caps": {
        "max_batch_cost_effective": 1, "max_batch_cost": 1, "max_batch_cost_source": "profile", "max_batch_requests": 1,
        "wait_ms": 1.0, "coalesce_ms": 1.0, "depth": 1, "max_queue": 1
    }, "controller": { "mode": "off", "frozen": false, "calibrated": true, "integral": 0.0, "streak": 0, "resets": 0, "moves": [] } }]);
    assert_eq!(faults("view-caps", &caps), Vec::<String>::new());
    caps[0]["op"] = "embedd".into();
    assert!(!faults("view-caps", &caps).is_empty());
    caps[0]["op"] = "embed".into();
    caps[0]["caps"]["depth"] = "1".into();
    assert!(faults("view-caps", &caps)[0].starts_with("/0/caps/depth"));
    caps[0]["caps"].as_object_mut().unwrap().remove("depth");
    assert!(faults("view-caps", &caps)[0].contains("required"));
}
