//! The language of waits, guards and filters: a condition on a document, such as
//! `models.whisper.lanes.clips.p95_ms<2000 && !(state==draining)`.
//!
//! ```text
//! condition  = all { "||" all }
//! all        = one { "&&" one }
//! one        = "!" one | "(" condition ")" | path [ operator value ]
//! operator   = "==" | "!=" | "<" | "<=" | ">" | ">="
//! path       = name { "." name }            a name is a field, or what a member of a list is called
//! value      = number [ unit ] | word | "text" | true | false
//! unit       = us | ms | s | m | h          of fields that count time, whatever unit they are in
//!            | k | M | G | Ki | Mi | Gi     times 1000 or 1024
//! ```
//!
//! A path alone is a field that is true or false. The members of a list are called by what identifies them (see
//! [`MEMBERS`]), and `count` is how many there are. What a document does not say is **unknown**, and so is every comparison with it: `!` of
//! unknown is unknown, `&&` of it is false where the other side is false, `||` is true where the other side is true, and
//! otherwise both are unknown. A wait goes on while its condition is unknown, a guard holds, and a filter leaves out.
//!
//! [`Predicate::parse`] reads the text and [`Predicate::check`] holds its names and types against a type of the contract:
//! both point at the column. Pure; nobody owns state here.

mod check;
mod error;
mod judge;
mod parse;
mod syntax;
#[cfg(test)]
mod tests;

pub use error::PredicateError;
pub use judge::Reading;
pub use syntax::{Comparison, Expression, Literal, Name, Operator, Path, Spot, Unit};

use super::Snapshot;
use super::snapshot::Request;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::Value;

/// Longest text that is read, in characters.
pub const LONGEST: usize = 1_000;

/// The lists whose members have names: the list's field, what names a member, and whether all of them are known from the
/// start, so that an unknown name is a mistake and not something that may come.
pub const MEMBERS: &[(&str, &str, bool)] = &[
    ("models", "id", true),
    ("devices", "id", true),
    ("generation", "model", true),
    ("queues", "op", true),
    ("lanes", "lane", true),
    ("progress", "name", true),
    ("shown", "id", false),
    ("active", "request", false),
    ("owed", "request", false),
    ("inflight", "batch", false),
    ("recent", "batch", false),
    ("waiting", "model", false),
    ("overrides", "knob", false),
    ("journal_tail", "revision", false),
];

/// Lists whose own name may be left out: `models.ID.lanes` is `models.ID.queues.OP.lanes` where there is one queue.
const SILENT: &[&str] = &["queues", "shown"];

/// A condition that can be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    text: String,
    expression: Expression,
}

impl Predicate {
    /// Reads a condition.
    pub fn parse(text: &str) -> Result<Predicate, PredicateError> {
        Ok(Predicate { text: text.to_string(), expression: parse::parse(text)? })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Whether every name and value of it means something in a document of type `T`, of which `document` is one.
    pub fn check<T: JsonSchema>(&self, document: &Value) -> Result<(), PredicateError> {
        check::check(self, &schema_for!(T).to_value(), document)
    }

    /// Whether it is so; `None` = unknown.
    pub fn judge(&self, document: &Value) -> Option<bool> {
        judge::judge(&self.expression, document)
    }

    /// What the document says of each field that it names, in order.
    pub fn readings(&self, document: &Value) -> Vec<Reading> {
        judge::readings(&self.expression, document)
    }

    /// A condition on snapshots, its names held against this one.
    pub fn of_snapshot(text: &str, snapshot: &Snapshot) -> Result<Predicate, PredicateError> {
        let predicate = Predicate::parse(text)?;
        predicate.check::<Snapshot>(&document(snapshot))?;
        Ok(predicate)
    }

    /// A condition on single requests.
    pub fn of_requests(text: &str) -> Result<Predicate, PredicateError> {
        let predicate = Predicate::parse(text)?;
        predicate.check::<Request>(&Value::Null)?;
        Ok(predicate)
    }

    /// Whether a request is one of those meant: what is unknown of it is not.
    pub fn wants(&self, request: &Request) -> bool {
        self.judge(&document(request)) == Some(true)
    }
}

/// A document to judge. What cannot be one says nothing.
pub fn document<T: Serialize>(from: &T) -> Value {
    serde_json::to_value(from).unwrap_or(Value::Null)
}
