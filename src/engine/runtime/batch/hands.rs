//! An operator's hands on one request: it is held, let go or moved to the other lane.

use super::dispatcher::Dispatcher;
use crate::control::{Fault, Op, RequestPatch};
use crate::engine::runtime::{RequestId, not_alive};
use crate::engine::scheduler::ItemId;

impl Dispatcher {
    /// All that is asked for or nothing.
    pub(super) fn patch(&mut self, id: ItemId, patch: RequestPatch) -> Result<(), Fault> {
        let name = RequestId(id.0);
        let Some(job) = self.jobs.get_mut(&id) else { return self.patch_running(id, patch) };
        let Some(queue) = self.queues.get_mut(&job.item.op) else { return Err(not_alive(name)) };
        if let Some(lane) = patch.lane.filter(|lane| *lane != job.item.lane) {
            if job.item.op != Op::Transcribe {
                let message = format!("request {name} cannot go to lane {lane}: {} has one lane", job.item.op);
                return Err(Fault::invalid("lane", message));
            }
            queue.former.move_to(id, lane);
            job.move_to(lane);
        }
        if let Some(held) = patch.held {
            // True either way when it is so already.
            let _ = if held { queue.former.hold(id) } else { queue.former.release(id) };
            job.handled();
        }
        Ok(())
    }

    /// Of what runs, a recording in slices alone can be held: from its next slice on.
    fn patch_running(&mut self, id: ItemId, patch: RequestPatch) -> Result<(), Fault> {
        let name = RequestId(id.0);
        let mut batches = self.inflight.values();
        let Some(batch) = batches.find(|batch| batch.formed.items.iter().any(|item| item.id == id)) else {
            return Err(not_alive(name));
        };
        let refuse = |what: &str, param| {
            Fault::invalid(param, format!("request {name} runs: it can't be {what} any more"))
                .hint(format!("`lanekeeper cancel {name}` ends it"))
        };
        if patch.lane.is_some_and(|lane| lane != batch.formed.lane) {
            return Err(refuse("moved", "lane"));
        }
        let queue = self.queues.get_mut(&batch.op);
        match (patch.held, batch.formed.slice.and(queue)) {
            (Some(true), Some(queue)) => drop(queue.held_next.insert(id)),
            (Some(true), None) => return Err(refuse("held", "held")),
            (Some(false), Some(queue)) => drop(queue.held_next.remove(&id)),
            (Some(false), None) | (None, _) => {}
        }
        Ok(())
    }
}
