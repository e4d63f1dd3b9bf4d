//! The lines of Overview and the cards of Lanes: one per thing that queues work.

use super::View;
use crate::control::snapshot::{Generation, Model, Queue};
use crate::control::{Op, Snapshot};

/// Names a line across snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LineKey {
    pub model: String,
    pub op: Option<Op>,
}

/// One line: a model's queue for one operation, its generation scheduler, or the bare model while it has neither.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub model: &'a Model,
    pub kind: LineKind<'a>,
}

/// What a [`Line`] is about.
#[derive(Debug, Clone, Copy)]
pub enum LineKind<'a> {
    Queue(&'a Queue),
    Generation(&'a Generation),
    Bare,
}

impl<'a> Line<'a> {
    pub fn key(&self) -> LineKey {
        LineKey { model: self.model.id.clone(), op: self.op() }
    }

    /// The operation: a bare model's first one.
    pub fn op(&self) -> Option<Op> {
        match self.kind {
            LineKind::Queue(queue) => Some(queue.op),
            LineKind::Generation(_) => Some(Op::Generate),
            LineKind::Bare => self.model.ops.first().copied(),
        }
    }
}

/// The lines that a view is about: what runs batches or tokens has caps, only token generation speculates.
pub fn lines_of(view: View, snapshot: &Snapshot) -> Vec<Line<'_>> {
    let mut lines = lines(snapshot);
    lines.retain(|line| match (view, line.kind) {
        (View::Caps, kind) => !matches!(kind, LineKind::Bare),
        (View::Speculation, kind) => matches!(kind, LineKind::Generation(_)),
        _ => true,
    });
    lines
}

/// The lines of a snapshot, in the engine's order.
pub fn lines(snapshot: &Snapshot) -> Vec<Line<'_>> {
    let mut lines = Vec::with_capacity(snapshot.models.len());
    for model in &snapshot.models {
        let before = lines.len();
        lines.extend(model.queues.iter().map(|queue| Line { model, kind: LineKind::Queue(queue) }));
        let generation = snapshot.generation.iter().find(|generation| generation.model == model.id);
        lines.extend(generation.map(|generation| Line { model, kind: LineKind::Generation(generation) }));
        if lines.len() == before {
            lines.push(Line { model, kind: LineKind::Bare });
        }
    }
    lines
}
