//! A recorded session: JSON lines (`lanekeeper.recording/1`), a header and then what was seen of an engine, each with its
//! time. `record --snapshots` writes it, `replay` plays it. It holds what snapshots hold: never text, audio or keys.

use super::{Knobs, Snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that the header carries.
pub const SCHEMA: &str = "lanekeeper.recording/1";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// The schema name of the snapshots.
    pub snapshots: String,
    /// The engine's name when the recording began.
    pub node: String,
    /// Version of the engine binary.
    pub version: String,
    /// Unix time in milliseconds when the recording began.
    pub at_ms: u64,
    /// Time between two snapshots that was asked for.
    pub interval_ms: u64,
}

/// Every other line: one thing that was seen. A line with nothing that this version knows is passed over.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Milliseconds since the recording began; never less than in the line before.
    pub t_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Box<Snapshot>>,
    /// The table of settings: at the beginning, and whenever the settings' revision has moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knobs: Option<Box<Knobs>>,
    /// The engine could not be reached; why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
}

impl Event {
    pub fn snapshot(t_ms: u64, snapshot: Snapshot) -> Event {
        Event { t_ms, snapshot: Some(Box::new(snapshot)), ..Event::default() }
    }

    pub fn knobs(t_ms: u64, knobs: Knobs) -> Event {
        Event { t_ms, knobs: Some(Box::new(knobs)), ..Event::default() }
    }

    pub fn away(t_ms: u64, why: impl Into<String>) -> Event {
        Event { t_ms, away: Some(why.into()), ..Event::default() }
    }
}
