//! JSON in which nothing is said twice.
//!
//! Of a name that an object has twice, parsers take the first, the last or both, and what a proxy or a log saw need not be
//! what was computed. Nobody sends such a body on purpose: it is refused.

use super::failure::clip;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Longest part of a name that a message quotes.
const NAME_CHARS: usize = 64;

/// A value in which no object has a name twice.
pub(super) struct Unambiguous(pub Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Unambiguous)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // JSON has no other numbers than finite ones.
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Unambiguous(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("`{}` is given twice", clip(&name, NAME_CHARS))));
            }
            let Unambiguous(value) = access.next_value()?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Value, String> {
        serde_json::from_str::<Unambiguous>(text).map(|read| read.0).map_err(|e| e.to_string())
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused_however_deep() {
        for (text, name) in [
            (r#"{"model": "a", "model": "b"}"#, "model"),
            (r#"{"a": [{"b": {"c": 1, "d": 2, "c": 1}}]}"#, "c"),
            (r#"{"e": null, "\u0065": 1}"#, "e"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.starts_with(&format!("`{name}` is given twice at line 1 column")), "{said}");
        }
        assert!(read(r#"{"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}"#).is_ok(), "in objects of their own");
        let long = format!("{{\"{0}\": 1, \"{0}\": 2}}", "n".repeat(500));
        assert!(read(&long).expect_err("twice").len() < 200);
        assert!(read(&"[".repeat(10_000)).expect_err("too deep").contains("recursion"));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300f64..1e300).prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{0,3}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn everything_else_is_read_as_it_is(value in values()) {
            let text = value.to_string();
            prop_assert_eq!(read(&text), serde_json::from_str::<Value>(&text).map_err(|e| e.to_string()));
        }
    }
}
