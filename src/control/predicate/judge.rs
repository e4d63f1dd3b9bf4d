//! Whether a condition is so in a document.

use super::syntax::{Comparison, Expression, Literal, Name, Operator, Path};
use super::{MEMBERS, SILENT};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// What a document says of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    pub path: String,
    /// Absent = unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(f, "{} is unknown", self.path),
            Some(Value::String(text)) => write!(f, "{} is {text}", self.path),
            // More digits than anybody measured are noise in a sentence; the data has them all.
            Some(Value::Number(n)) if n.is_f64() => {
                let rounded = (n.as_f64().unwrap_or_default() * 1_000.0).round() / 1_000.0;
                write!(f, "{} is {rounded}", self.path)
            }
            Some(value) => write!(f, "{} is {value}", self.path),
        }
    }
}

pub(super) fn judge(expression: &Expression, document: &Value) -> Option<bool> {
    match expression {
        Expression::All(all) => fold(all, document, false),
        Expression::Any(any) => fold(any, document, true),
        Expression::Not(inner) => judge(inner, document).map(|so| !so),
        Expression::Holds(path) => find(path, document)?.as_bool(),
        Expression::Compare(comparison) => compare(comparison, &*find(&comparison.path, document)?),
    }
}

/// One term that is `decides` decides; else one that is unknown leaves it open.
fn fold(terms: &[Expression], document: &Value, decides: bool) -> Option<bool> {
    let mut open = false;
    for term in terms {
        match judge(term, document) {
            Some(so) if so == decides => return Some(decides),
            Some(_) => {}
            None => open = true,
        }
    }
    (!open).then_some(!decides)
}

fn compare(comparison: &Comparison, found: &Value) -> Option<bool> {
    let order = match (&comparison.value, found) {
        (Literal::Number { .. }, Value::Number(n)) => n.as_f64()?.partial_cmp(&comparison.number()?)?,
        (Literal::Bool(wanted), Value::Bool(is)) => is.cmp(wanted),
        (Literal::Text(wanted), Value::String(is)) => is.as_str().cmp(wanted.as_str()),
        _ => return None,
    };
    Some(match comparison.operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    })
}

pub(super) fn readings(expression: &Expression, document: &Value) -> Vec<Reading> {
    let mut found: Vec<Reading> = Vec::new();
    paths(expression, &mut |path| {
        let reading = Reading { path: path.to_string(), value: find(path, document).map(Cow::into_owned) };
        if !found.contains(&reading) {
            found.push(reading);
        }
    });
    found
}

fn paths<'e>(expression: &'e Expression, visit: &mut impl FnMut(&'e Path)) {
    match expression {
        Expression::All(terms) | Expression::Any(terms) => terms.iter().for_each(|term| paths(term, visit)),
        Expression::Not(inner) => paths(inner, visit),
        Expression::Holds(path) => visit(path),
        Expression::Compare(comparison) => visit(&comparison.path),
    }
}

/// The value that a path leads to; `None` = the document does not say.
fn find<'d>(path: &Path, document: &'d Value) -> Option<Cow<'d, Value>> {
    let found = step(document, &path.names, "")?;
    match &*found {
        // An object in place of a value stands for its field of the same name: `state` is `state.state`.
        Value::Object(object) => object.get(path.field()).map(|value| Cow::Owned(value.clone())),
        Value::Null => None,
        _ => Some(found),
    }
}

/// Follows `names` from a value that stands in the field `of`.
fn step<'d>(value: &'d Value, names: &[Name], of: &str) -> Option<Cow<'d, Value>> {
    let Some((first, rest)) = names.split_first() else { return Some(Cow::Borrowed(value)) };
    match value {
        Value::Object(object) => match object.get(&first.text) {
            Some(inner) => step(inner, rest, &first.text),
            None => silent(object).and_then(|(field, list)| step(list, names, field)),
        },
        Value::Array(list) if first.text == "count" && rest.is_empty() => Some(Cow::Owned(Value::from(list.len()))),
        Value::Array(list) => match member(list, of, names) {
            Some((found, taken)) => step(found, &names[taken..], ""),
            None if SILENT.contains(&of) && list.len() == 1 => step(list.first()?, names, ""),
            None => None,
        },
        _ => None,
    }
}

/// The list of an object whose name may be left out.
pub(super) fn silent(object: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    SILENT.iter().find_map(|name| Some((*name, object.get(*name)?)))
}

/// The member of a list that the next names say, and how many of them that takes: what identifies something may have dots
/// in it.
pub(super) fn member<'d>(list: &'d [Value], of: &str, names: &[Name]) -> Option<(&'d Value, usize)> {
    let key = MEMBERS.iter().find(|(name, ..)| *name == of)?.1;
    let fits = |member: &'d Value| {
        let id = identity(member, key)?;
        let mut said = String::new();
        for (i, name) in names.iter().enumerate() {
            if i > 0 {
                said.push('.');
            }
            said.push_str(&name.text);
            if said == id {
                return Some((member, i + 1));
            }
        }
        None
    };
    list.iter().filter_map(fits).max_by_key(|(_, taken)| *taken)
}

/// What a member of a list is called.
pub(super) fn identity(member: &Value, key: &str) -> Option<String> {
    match member.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}
