//! What is shown of the settings.

use super::Settings;
use super::envelope::narrowed;
use super::store::State;
use crate::control::changes::{Entry, JOURNAL_SCHEMA, Journal, KnobChange, Override};
use crate::control::knobs::{self, Knob, Knobs, Layer};
use crate::control::ledger::Ledger;
use crate::control::utc;
use crate::engine::runtime::clock::lock;
use crate::profile::keys::{Key, Takes};
use crate::profile::{Row, knob};
use std::collections::BTreeMap;

/// Entries that a snapshot shows.
const TAIL: usize = 10;

/// What a snapshot shows of the settings.
#[derive(Debug, Default)]
pub(in crate::engine::runtime) struct Published {
    pub revision: u64,
    pub overrides: Vec<Override>,
    pub tail: Vec<Entry>,
    /// Conditions that changes are held to, by revision.
    pub guards: BTreeMap<u64, String>,
    /// Requests that are held for a time, with its end in Unix milliseconds.
    pub holds: BTreeMap<String, u64>,
}

impl Settings {
    /// Every knob with its layers, its envelope here, and when it takes effect.
    pub fn knobs(&self) -> Knobs {
        let state = lock(&self.state);
        let rows = state.resolved.rows.iter().filter_map(|row| Some((self.base.key(&row.path).ok()?, row)));
        Knobs {
            schema: knobs::SCHEMA.to_string(),
            node: self.boot.name.clone(),
            revision: state.ledger.revision(),
            read_only: self.boot.read_only || state.journal.is_err(),
            knobs: rows.map(|(key, row)| self.knob(&state, key, row)).collect(),
        }
    }

    fn knob(&self, state: &State, key: &Key, row: &Row) -> Knob {
        let mut made = knob(key, row);
        made.envelope = narrowed(made.envelope, &made.name, &self.boot);
        let Some(live) = state.ledger.overrides().get(&made.name) else { return made };
        for layer in made.layers.iter_mut().filter(|layer| layer.layer == Layer::Live) {
            layer.origin = format!("{} at {} (revision {})", live.actor, utc(live.at_ms), live.revision);
        }
        let holds = state.started.get(&made.name).map(|o| &o.value);
        if key.takes == Takes::Restart && holds != Some(&live.value) {
            made.pending = Some(live.value.clone());
            made.layers.retain(|layer| layer.layer != Layer::Live);
            made.value = made.layers.first().and_then(|layer| layer.value.clone());
            made.layer = made.layers.first().map_or(Layer::BuiltIn, |layer| layer.layer);
        }
        made
    }

    /// The last `n` entries of the journal.
    pub fn journal(&self, n: usize) -> Journal {
        let state = lock(&self.state);
        Journal {
            schema: JOURNAL_SCHEMA.to_string(),
            node: self.boot.name.clone(),
            revision: state.ledger.revision(),
            file: state.journal.as_ref().ok().map(|journal| journal.path().display().to_string()),
            entries: state.ledger.tail(n).cloned().collect(),
        }
    }
}

pub(super) fn publish(ledger: &Ledger) -> Published {
    let slim = |entry: &Entry| {
        let changes = entry.changes.iter().map(|c| KnobChange { was: None, now: None, ..c.clone() }).collect();
        Entry { changes, overrides: Vec::new(), ..entry.clone() }
    };
    let whole = |o: &Override| Override { beneath: None, ..o.clone() };
    Published {
        revision: ledger.revision(),
        overrides: ledger.overrides().values().map(whole).collect(),
        tail: ledger.tail(TAIL).map(slim).collect(),
        guards: ledger.guards(),
        holds: ledger.holds().all().clone(),
    }
}
