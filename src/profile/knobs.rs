//! Knobs from the key tables: the same row that a profile is read by says what an operator may set.

use super::keys::{Key, Kind, Takes};
use super::origin::{Origin, Row};
use super::value;
use crate::control::knobs::{Envelope, Knob, Layer, LayerValue, TakesEffect};

/// A knob of a resolved profile.
pub fn knob(key: &Key, row: &Row) -> Knob {
    let layers =
        std::iter::once((&row.value, &row.origin)).chain(row.beneath.iter().map(|(value, origin)| (value, origin)));
    Knob {
        name: row.path.clone(),
        kind: kind_name(key.kind).to_string(),
        unit: unit(key).map(str::to_string),
        value: row.value.clone(),
        layer: layer(&row.origin),
        layers: layers
            .map(|(value, origin)| LayerValue {
                layer: layer(origin),
                value: value.clone(),
                origin: origin.to_string(),
            })
            .collect(),
        pending: None,
        envelope: envelope(key.kind),
        takes: match key.takes {
            Takes::Live => TakesEffect::Live,
            Takes::Restart => TakesEffect::Restart,
        },
        doc: key.doc.to_string(),
    }
}

fn layer(origin: &Origin) -> Layer {
    match origin {
        Origin::BuiltIn => Layer::BuiltIn,
        Origin::File(_) => Layer::Profile,
        Origin::Env { .. } => Layer::Environment,
        Origin::CommandLine { .. } => Layer::CommandLine,
        Origin::Live => Layer::Live,
    }
}

/// The name of a kind of value.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Name | Kind::Reference => "name",
        Kind::OneOf(_) => "choice",
        Kind::Bool => "bool",
        Kind::Count { .. } | Kind::CountOr { .. } => "count",
        Kind::Number { .. } => "number",
        Kind::Bytes { .. } => "size",
        Kind::Millis { .. } | Kind::Seconds { .. } => "time",
        Kind::Address => "address",
        Kind::Path => "path",
        Kind::Device => "device",
        Kind::Sha256 => "sha256",
        Kind::Ops | Kind::Sources | Kind::Models | Kind::Entries => "list",
        Kind::Spread => "spread",
    }
}

/// What a bare number counts, where its name or kind says so.
fn unit(key: &Key) -> Option<&'static str> {
    match key.kind {
        Kind::Millis { .. } => Some("ms"),
        Kind::Seconds { .. } => Some("s"),
        Kind::Bytes { .. } => Some("bytes"),
        Kind::Count { .. } if key.path.ends_with("_tokens") && key.path != "max_batch_tokens" => Some("tokens"),
        Kind::Count { .. } if key.path == "max_batch_tokens" || key.path.ends_with("_cost") => Some("cost"),
        _ => None,
    }
}

/// The number that a sound value of `key` means, in the key's unit; `None` for words and texts.
pub fn figure(key: &Key, text: &str) -> Option<f64> {
    match key.kind {
        Kind::Count { min, max } => value::count(text, min, max).ok().map(|n| n as f64),
        Kind::CountOr { word, min, max } => value::count_or(text, word, min, max).ok().flatten().map(|n| n as f64),
        Kind::Bytes { min, max } => value::bytes(text, min, max).ok().map(|n| n as f64),
        Kind::Number { min, max } => value::number(text, min, max).ok(),
        Kind::Millis { min, max } => value::time(text, 1.0, min, max).ok(),
        Kind::Seconds { min, max } => value::time(text, 1_000.0, min, max).ok(),
        _ => None,
    }
}

/// What a value may be by its kind alone.
fn envelope(kind: Kind) -> Envelope {
    let range = |min: f64, max: f64| Envelope { min: Some(min), max: Some(max), ..Envelope::default() };
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    match kind {
        Kind::OneOf(choices) => Envelope { words: words(choices), ..Envelope::default() },
        Kind::Bool => Envelope { words: words(&["true", "false"]), ..Envelope::default() },
        Kind::Count { min, max } | Kind::Bytes { min, max } => range(min as f64, max as f64),
        Kind::CountOr { word, min, max } => Envelope { words: words(&[word]), ..range(min as f64, max as f64) },
        Kind::Number { min, max } | Kind::Millis { min, max } | Kind::Seconds { min, max } => range(min, max),
        _ => Envelope::default(),
    }
}
