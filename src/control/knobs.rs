//! The table of settings: one row per knob, with its value in every layer. `lanekeeper.knobs/1`.
//!
//! The rows are made from the key tables of profiles (`profile::knobs`), so nothing is declared twice; the running engine
//! adds what its boot allocation permits. Values are text, as they would stand in a profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every document carries.
pub const SCHEMA: &str = "lanekeeper.knobs/1";

/// All knobs of an engine at one revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knobs {
    /// [`SCHEMA`].
    pub schema: String,
    /// The engine's name.
    pub node: String,
    /// Revision of the settings that these are.
    pub revision: u64,
    /// Whether the engine refuses changes.
    pub read_only: bool,
    pub knobs: Vec<Knob>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knob {
    /// Dotted, as in profiles: `models.minilm-l6.wait_ms`.
    pub name: String,
    /// What a value is: `count`, `number`, `time`, `size`, `bool`, `choice`, `text`, …
    pub kind: String,
    /// What a bare number counts: `ms`, `s`, `bytes`, …; absent where it counts things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The value that holds; absent = none is set, and the engine chooses as the doc says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The layer that it comes from.
    pub layer: Layer,
    /// Every layer that says something, the strongest (which binds) first.
    pub layers: Vec<LayerValue>,
    /// A live setting that waits for the next start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    pub envelope: Envelope,
    pub takes: TakesEffect,
    pub doc: String,
}

/// Where a value comes from; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    BuiltIn,
    Profile,
    Environment,
    CommandLine,
    Live,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Layer::BuiltIn => "built-in",
            Layer::Profile => "profile",
            Layer::Environment => "environment",
            Layer::CommandLine => "command line",
            Layer::Live => "live",
        }
    }
}

/// What one layer says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerValue {
    pub layer: Layer,
    /// Absent: the layer leaves it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The file with line and column, the variable, the flag, or who set it live.
    pub origin: String,
}

/// What a value may be in this engine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The words that it may be; beside a range, words that stand for no number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Why the range ends where it does, when it is this engine and not the setting that ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Envelope {
    /// For people: `1 to 4`, `off|pi`.
    pub fn text(&self) -> String {
        let range = match (self.min, self.max) {
            (Some(min), Some(max)) => Some(format!("{} to {}", number(min), number(max))),
            (Some(min), None) => Some(format!("at least {}", number(min))),
            (None, Some(max)) => Some(format!("at most {}", number(max))),
            (None, None) => None,
        };
        range.into_iter().chain((!self.words.is_empty()).then(|| self.words.join("|"))).collect::<Vec<_>>().join(" or ")
    }

    /// Narrows the range from above, and says why.
    pub fn at_most(mut self, max: f64, reason: impl Into<String>) -> Envelope {
        if self.max.is_none_or(|own| max < own) {
            self.max = Some(max);
            self.reason = Some(reason.into());
        }
        self
    }
}

/// A figure without a useless fraction.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { value.to_string() }
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakesEffect {
    /// From the next batch, iteration or request on.
    Live,
    /// When the engine is started again: such a change has to be persistent.
    Restart,
}

impl TakesEffect {
    pub fn name(self) -> &'static str {
        match self {
            TakesEffect::Live => "live",
            TakesEffect::Restart => "restart",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_reads_as_people_say_it() {
        let range = Envelope { min: Some(1.0), max: Some(1024.0), ..Envelope::default() };
        assert_eq!(range.text(), "1 to 1024");
        let narrowed = range.clone().at_most(4.0, "allocated");
        assert_eq!((narrowed.text(), narrowed.reason.as_deref()), ("1 to 4".to_string(), Some("allocated")));
        assert_eq!(range.clone().at_most(5000.0, "x"), range, "a wider bound binds nothing");
        assert_eq!(Envelope { words: vec!["off".into(), "pi".into()], ..Envelope::default() }.text(), "off|pi");
        assert_eq!(
            Envelope { min: Some(0.01), words: vec!["whole".into()], ..Envelope::default() }.text(),
            "at least 0.01 or whole"
        );
    }

    #[test]
    fn layers_are_in_the_order_in_which_they_win() {
        assert!(Layer::BuiltIn < Layer::Profile && Layer::Profile < Layer::Environment);
        assert!(Layer::Environment < Layer::CommandLine && Layer::CommandLine < Layer::Live);
    }
}
