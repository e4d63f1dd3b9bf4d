//! A JSON object read field by field: strict about types, with the field's path in every refusal.
//!
//! `null` counts as absent, as the OpenAI clients mean it. Fields that nobody asks for are tolerated (clients send
//! extras), except in our own `lanekeeper` object.

use super::failure::clip;
use super::json::Unambiguous;
use crate::control::{ErrorKind, Fault};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Parses a request body: UTF-8, JSON, an object.
pub(super) fn parse(bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    let bad = |message: String| Fault::new(ErrorKind::InvalidRequest, message).code("invalid_json");
    let text = std::str::from_utf8(bytes).map_err(|e| {
        bad(format!("the body is not UTF-8: byte {} is not part of a character", e.valid_up_to()))
            .hint("encode the JSON body as UTF-8")
    })?;
    // Some clients begin with a mark of the byte order, which RFC 8259 lets a parser ignore.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(bad("the body is empty, a JSON object is needed".to_string()));
    }
    match serde_json::from_str::<Unambiguous>(text) {
        Ok(Unambiguous(Value::Object(map))) => Ok(map),
        Ok(Unambiguous(other)) => Err(bad(format!("the body is {}, a JSON object is needed", kind(&other)))),
        Err(e) if e.is_data() => {
            // The parser's error is text alone: the name stands in it as we wrote it.
            let said = e.to_string();
            let fault =
                bad(format!("the body is ambiguous: {said}")).code("duplicate_field").hint("send each field once");
            Err(match said.split('`').nth(1) {
                Some(name) => fault.param(name),
                None => fault,
            })
        }
        // The parser's messages for syntax name places and token kinds, never content.
        Err(e) => Err(bad(format!("the body is not valid JSON: {e}"))),
    }
}

/// What a value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(n) if n.is_f64() => "a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Below this, whole numbers written as fractions are exact.
const MAX_EXACT: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// A field that is not supported, and whether a value of it changes nothing.
pub(super) type Unsupported = (&'static str, fn(&Value) -> bool);

/// An object and its path from the body's root.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub(super) fn root(map: &'a Map<String, Value>) -> Fields<'a> {
        Fields { map, path: String::new() }
    }

    pub(super) fn at(map: &'a Map<String, Value>, path: impl Into<String>) -> Fields<'a> {
        Fields { map, path: path.into() }
    }

    /// The path of a field, as `param` names it.
    pub(super) fn name(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_string() } else { format!("{}.{field}", self.path) }
    }

    /// The value of a field unless it is absent or null.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    /// Refuses what would change the answer and is not done: fields by name, each with a test of the values that change
    /// nothing.
    pub(super) fn unsupported(&self, fields: &[Unsupported]) -> Result<(), Fault> {
        match fields.iter().find(|(name, neutral)| self.get(name).is_some_and(|value| !neutral(value))) {
            Some((name, _)) => Err(self.refuse(name, "is not supported by this engine").code("unsupported_field")),
            None => Ok(()),
        }
    }

    /// A refusal of a field.
    pub(super) fn refuse(&self, field: &str, why: impl std::fmt::Display) -> Fault {
        let name = self.name(field);
        Fault::invalid(name.clone(), format!("`{name}` {why}"))
    }

    fn mistyped(&self, field: &str, wanted: &str, found: &Value) -> Fault {
        self.refuse(field, format_args!("must be {wanted}, it is {}", kind(found))).code("invalid_type")
    }

    fn missing(&self, field: &str) -> Fault {
        self.refuse(field, "is missing").code("missing_field")
    }

    pub(super) fn value(&self, field: &str) -> Result<&'a Value, Fault> {
        self.get(field).ok_or_else(|| self.missing(field))
    }

    /// The names of its fields.
    pub(super) fn names(&self) -> Vec<&'a str> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str()).collect()
    }

    pub(super) fn opt_str(&self, field: &str) -> Result<Option<&'a str>, Fault> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(self.mistyped(field, "a string", other)),
        }
    }

    pub(super) fn str(&self, field: &str) -> Result<&'a str, Fault> {
        self.opt_str(field)?.ok_or_else(|| self.missing(field))
    }

    pub(super) fn opt_bool(&self, field: &str) -> Result<Option<bool>, Fault> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(self.mistyped(field, "a boolean", other)),
        }
    }

    pub(super) fn flag(&self, field: &str) -> Result<bool, Fault> {
        Ok(self.opt_bool(field)?.unwrap_or(false))
    }

    pub(super) fn opt_int(&self, field: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Fault> {
        let Some(value) = self.get(field) else { return Ok(None) };
        // 2.0 is an integer too (JSON knows one kind of number), and one beyond 64 bits is out of range, not a fraction.
        let Some(number) = value.as_number().filter(|n| n.as_f64().is_some_and(|f| f.fract() == 0.0)) else {
            return Err(self.mistyped(field, "an integer", value));
        };
        let whole = match number.as_f64() {
            Some(f) if number.is_f64() && f.abs() < MAX_EXACT => Some(f as i64),
            _ => number.as_i64(),
        };
        match whole.filter(|n| range.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => Err(self.refuse(field, format_args!("is {number}, {}", span(&range, i64::MIN, i64::MAX)))),
        }
    }

    pub(super) fn opt_num(&self, field: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, Fault> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let Some(number) = value.as_f64() else { return Err(self.mistyped(field, "a number", value)) };
        if range.contains(&number) {
            return Ok(Some(number));
        }
        // The number as it was sent: 1e300 stays that, instead of three hundred digits.
        Err(self.refuse(field, format_args!("is {value}, {}", span(&range, f64::NEG_INFINITY, f64::INFINITY))))
    }

    pub(super) fn opt_array(&self, field: &str) -> Result<Option<&'a [Value]>, Fault> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Array(a)) => Ok(Some(a)),
            Some(other) => Err(self.mistyped(field, "an array", other)),
        }
    }

    pub(super) fn opt_object(&self, field: &str) -> Result<Option<Fields<'a>>, Fault> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields { map, path: self.name(field) })),
            Some(other) => Err(self.mistyped(field, "an object", other)),
        }
    }

    /// One of `choices`, by name.
    pub(super) fn opt_choice<T: Copy>(&self, field: &str, choices: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let Some(text) = self.opt_str(field)? else { return Ok(None) };
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.refuse(
                field,
                format_args!("is `{}`, not one of {}", clip(text, 24), list(choices.iter().map(|(n, _)| *n))),
            )),
        }
    }

    /// Refuses any field but `known`, naming the nearest known one: for objects that are ours alone.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let Some(stranger) = self.map.keys().find(|k| !known.contains(&k.as_str())) else { return Ok(()) };
        let nearest =
            known.iter().max_by(|a, b| strsim::jaro_winkler(a, stranger).total_cmp(&strsim::jaro_winkler(b, stranger)));
        let shown = clip(stranger, 40);
        let fault = self.refuse(&shown, "is not a field that this engine knows").code("unknown_field");
        Err(match nearest {
            Some(name) => fault.hint(format!("the nearest known one is `{name}`")),
            None => fault,
        })
    }
}

/// Names in backquotes, separated by commas.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

fn span<T: PartialEq + std::fmt::Display>(range: &RangeInclusive<T>, min: T, max: T) -> String {
    match (*range.start() == min, *range.end() == max) {
        (false, true) => format!("it must be at least {}", range.start()),
        (true, false) => format!("it must be at most {}", range.end()),
        _ => format!("it must be from {} to {}", range.start(), range.end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn broken_bodies_are_refused_in_words() {
        let deep = [b"{\"a\":".as_slice(), &[b'['; 10_000], &[b']'; 10_000], b"}"].concat();
        let cases: [(&[u8], &str); 9] = [
            (b"", "empty"),
            (b"[1]", "an array"),
            (b"{\"a\":", "EOF"),
            // "你" in GBK: not UTF-8.
            (b"{\"a\":\"\xc4\xe3\"}", "not UTF-8: byte 6"),
            (br#"{"a":"\ud800"}"#, "not valid JSON"),
            (b"{\"a\":\"x\0y\"}", "control character"),
            (&deep, "recursion limit"),
            (br#"{"a":1} trailing"#, "trailing"),
            (br#"{"a":1,"b":{"c":1,"c":2}}"#, "ambiguous: `c` is given twice"),
        ];
        for (bytes, says) in cases {
            let fault = parse(bytes).unwrap_err();
            assert_eq!(fault.kind.status(), 400);
            assert!(fault.message.contains(says), "{says}: {}", fault.message);
        }
        assert_eq!(parse(br#"{"a":1,"b":2,"b":3}"#).unwrap_err().param.as_deref(), Some("b"));
        assert_eq!(parse("\u{feff}{\"a\":1}".as_bytes()).unwrap()["a"], 1, "a mark of the byte order");
        assert_eq!(parse(br#"{"a":"x\u0000y"}"#).unwrap()["a"], "x\0y", "an escaped NUL is text");
    }

    #[test]
    fn null_is_absent_and_types_are_strict() {
        let map = object(json!({"a": null, "s": "x", "n": 3, "f": 1.5, "w": 2.0, "b": true, "o": {"k": []}}));
        let fields = Fields::root(&map);
        assert_eq!(fields.opt_int("a", 0..=9).unwrap(), None);
        assert_eq!(fields.opt_int("n", 0..=9).unwrap(), Some(3));
        assert_eq!(fields.opt_num("n", 0.0..=9.0).unwrap(), Some(3.0));
        assert_eq!(fields.opt_int("w", 0..=9).unwrap(), Some(2), "2.0 is whole");
        for fault in [
            fields.opt_int("f", 0..=9).unwrap_err(),
            fields.opt_int("s", 0..=9).unwrap_err(),
            fields.opt_bool("n").unwrap_err(),
            fields.str("b").unwrap_err(),
        ] {
            assert_eq!(fault.code, Some("invalid_type"));
        }
        let inner = fields.opt_object("o").unwrap().unwrap();
        let fault = inner.str("k").unwrap_err();
        assert_eq!(fault.param.as_deref(), Some("o.k"));
        assert_eq!(inner.str("gone").unwrap_err().code, Some("missing_field"));
    }

    #[test]
    fn ranges_are_said() {
        let map = object(json!({"n": 0, "big": 18446744073709551615u64, "t": 2.5, "vast": 1e300}));
        let fields = Fields::root(&map);
        assert_eq!(fields.opt_int("n", 1..=i64::MAX).unwrap_err().message, "`n` is 0, it must be at least 1");
        assert!(fields.opt_int("big", 1..=9).unwrap_err().message.contains("18446744073709551615"));
        let fault = fields.opt_int("vast", 1..=9).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), (None, "`vast` is 1e+300, it must be from 1 to 9"));
        assert_eq!(fields.opt_num("vast", 0.0..=2.0).unwrap_err().message, "`vast` is 1e+300, it must be from 0 to 2");
        assert_eq!(fields.opt_num("t", 0.0..=2.0).unwrap_err().message, "`t` is 2.5, it must be from 0 to 2");
    }

    #[test]
    fn our_own_object_is_closed() {
        let map = object(json!({"trunkate": true}));
        let fault = Fields::at(&map, "lanekeeper").only(&["deadline_s", "truncate"]).unwrap_err();
        assert_eq!(fault.param.as_deref(), Some("lanekeeper.trunkate"));
        assert!(fault.hint.unwrap().contains("`truncate`"));
    }

    proptest! {
        #[test]
        fn no_bytes_crash_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_string_never_shows_in_a_refusal(text in "[a-z]{12,20}") {
            let map = object(json!({"max_tokens": text, "stop": {"x": text}}));
            let fields = Fields::root(&map);
            prop_assert!(!fields.opt_int("max_tokens", 0..=1).unwrap_err().message.contains(&text));
            prop_assert!(!fields.opt_str("stop").unwrap_err().message.contains(&text));
        }
    }
}
