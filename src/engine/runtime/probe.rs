//! The probes: can work be admitted, and does what was admitted get on?

use super::engine::{Core, Worker};
use crate::control::Op;
use crate::control::snapshot::ModelState;

/// Whether new work can be admitted now; the reasons when not.
pub(super) fn readiness(core: &Core) -> Result<(), Vec<String>> {
    let mut reasons = Vec::new();
    if core.shared.is_draining() {
        reasons.push("draining: no new work is admitted".to_string());
    }
    for (handle, worker) in core.models.iter().zip(&core.workers) {
        let id = &handle.profile.id;
        match handle.state() {
            ModelState::Ready => {}
            ModelState::Failed { why } => reasons.push(format!("model `{id}` failed to load: {why}")),
            ModelState::Loading { .. } | ModelState::Unloaded => reasons.push(format!("model `{id}` is loading")),
        }
        if let Some(op) = worker.full() {
            reasons.push(format!("the {op} queue of model `{id}` is full"));
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

/// Whether every lane gets on or has nothing to do; the stuck ones when not.
pub(super) fn progress(core: &Core) -> Result<(), Vec<String>> {
    let reasons = core.stuck();
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

impl Worker {
    fn full(&self) -> Option<Op> {
        match self {
            Worker::Batch(worker) => worker.full(),
            Worker::Generation(worker) => worker.full().then_some(Op::Generate),
        }
    }
}
