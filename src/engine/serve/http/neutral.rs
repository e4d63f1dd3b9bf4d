//! Values of unsupported fields that change nothing, and so may be ignored.

use serde_json::Value;

pub(super) fn empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

pub(super) fn empty_text(value: &Value) -> bool {
    value == ""
}

pub(super) fn no(value: &Value) -> bool {
    *value == Value::Bool(false)
}

pub(super) fn yes(value: &Value) -> bool {
    *value == Value::Bool(true)
}

/// Nothing, however it is written.
pub(super) fn off(value: &Value) -> bool {
    no(value) || zero(value) || empty(value) || empty_text(value)
}

pub(super) fn zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

pub(super) fn one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

/// Texts are cut at their end.
pub(super) fn right(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("right"))
}

/// Vectors are numbers.
pub(super) fn float(value: &Value) -> bool {
    value == "float"
}

/// No value is harmless: the field must be absent.
pub(super) fn never(_: &Value) -> bool {
    false
}
