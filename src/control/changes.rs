//! Changes of settings: what is asked for, what came of it, and the journal's entries.

use super::hands::RequestChange;
use super::knobs::TakesEffect;
use super::predicate::Reading;
use super::snapshot::Pace;
use super::{Lane, Op};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema name of an answer to a change.
pub const SCHEMA: &str = "lanekeeper.change/1";

/// The schema name of a journal.
pub const JOURNAL_SCHEMA: &str = "lanekeeper.journal/1";

/// A change that is asked for: all of it is done, or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeRequest {
    /// Knobs and their new values, as they would stand in a profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Knobs whose live setting is let go: the layer below binds again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Lets every live setting go that is not named in `set`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unset_all: bool,
    /// Undoes the change of this revision instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revert: Option<u64>,
    /// Why, for those who read the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Undone by the engine itself after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<f64>,
    /// A condition on the engine's snapshot: the engine undoes the change as soon as it does not hold. With `ttl_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// Whether it comes back when the engine is started again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub persist: bool,
    /// Done only while the settings have this revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<u64>,
    /// Checked and shown, not done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeAnswer {
    /// [`SCHEMA`].
    pub schema: String,
    /// Revision of the settings after it.
    pub revision: u64,
    /// False for a dry run, and where nothing had to be changed.
    pub applied: bool,
    pub changes: Vec<KnobChange>,
    /// The request that it was about, where it was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestChange>,
    /// Things that are allowed but look wrong.
    pub warnings: Vec<String>,
}

impl ChangeAnswer {
    /// One that tells of nothing yet.
    pub fn new(revision: u64, applied: bool) -> ChangeAnswer {
        ChangeAnswer {
            schema: SCHEMA.to_string(),
            revision,
            applied,
            changes: Vec::new(),
            request: None,
            warnings: Vec::new(),
        }
    }
}

/// One knob before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnobChange {
    pub knob: String,
    /// The values that hold; absent = none is set.
    pub from: Option<String>,
    pub to: Option<String>,
    pub takes: TakesEffect,
    /// The live setting before it; absent = none, and in snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Box<Override>>,
    /// The live setting after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Box<Override>>,
}

/// What an entry of the journal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Somebody changed settings.
    Change,
    /// Somebody undid a change.
    Revert,
    /// A lease ended: of settings, or of a request that was held for a time.
    Expiry,
    /// A guard did not hold any more: the engine undid the change of the revision that the entry `reverts`.
    Breach,
    /// Somebody held a request, let it go, moved it or cancelled it.
    Hand,
    /// What a change did, as measured: a line of its own in the file, part of the change's entry when shown.
    Effect,
    /// The engine was started: live settings that were not persistent are gone.
    Start,
    /// The head of a file: what held when it was begun. Not shown.
    Head,
}

impl EntryKind {
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Change => "change",
            EntryKind::Revert => "revert",
            EntryKind::Expiry => "expiry",
            EntryKind::Breach => "breach",
            EntryKind::Hand => "hand",
            EntryKind::Effect => "effect",
            EntryKind::Start => "start",
            EntryKind::Head => "head",
        }
    }
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Of the settings, after it.
    pub revision: u64,
    /// Unix time in milliseconds.
    pub at_ms: u64,
    pub kind: EntryKind,
    /// `uid:1000` on the socket, `key:LABEL` over TCP, `local` over TCP without keys, `engine` for what it does itself.
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub changes: Vec<KnobChange>,
    /// The request that it is about: no setting changes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestChange>,
    /// When the engine undoes it, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub persist: bool,
    /// The condition that the engine holds it to, or that broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// What the guard's fields were when it broke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// The revision that it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts: Option<u64>,
    /// The live settings that hold after it: at a start and at the head of a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// What it did, once that has been measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

impl Entry {
    /// An entry that tells of nothing yet.
    pub fn new(kind: EntryKind, revision: u64, at_ms: u64, actor: impl Into<String>) -> Entry {
        Entry {
            revision,
            at_ms,
            kind,
            actor: actor.into(),
            reason: None,
            changes: Vec::new(),
            request: None,
            expires_at_ms: None,
            persist: false,
            guard: None,
            readings: Vec::new(),
            reverts: None,
            overrides: Vec::new(),
            effect: None,
        }
    }
}

/// How the lanes did before a change and after it. Measured, not foretold: other things may have changed as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The change's revision.
    pub of: u64,
    /// Seconds before it, and seconds after it, that were measured.
    pub window_s: f64,
    /// Other changes in these seconds: what was measured is of all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<u64>,
    /// Lanes in which something started or was served.
    pub lanes: Vec<LaneEffect>,
}

/// A lane before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneEffect {
    pub model: String,
    pub op: Op,
    /// Absent for generations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    pub before: Pace,
    pub after: Pace,
}

/// A live setting that holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    pub knob: String,
    pub value: String,
    /// The revision that set it.
    pub revision: u64,
    /// Unix time in milliseconds when it was set.
    pub at_ms: u64,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ends by itself, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// How long it still holds; only in snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<f64>,
    /// The condition that the engine holds it to: as soon as it does not hold, the setting ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// Whether it comes back when the engine is started again.
    #[serde(default)]
    pub persist: bool,
    /// What it hides, and what holds again when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneath: Option<Box<Override>>,
}

/// The journal, or its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {
    /// [`JOURNAL_SCHEMA`].
    pub schema: String,
    pub node: String,
    pub revision: u64,
    /// Where it is kept; absent when this engine keeps none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The last entries, newest last.
    pub entries: Vec<Entry>,
}
