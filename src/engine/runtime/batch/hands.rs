//! An operator's hands on one request: it is held, let go or moved to the other lane.

use super::Touched;
use super::dispatcher::Dispatcher;
use crate::control::hands::{RequestPlace, Touch};
use crate::control::{Fault, Op};
use crate::engine::runtime::{RequestId, not_alive};
use crate::engine::scheduler::ItemId;

impl Dispatcher {
    /// All that is asked for or nothing; where the request was and where it is then. A `dry` one is looked at.
    pub(super) fn touch(&mut self, id: ItemId, touch: Touch, dry: bool) -> Result<Touched, Fault> {
        let name = RequestId(id.0);
        let Some(job) = self.jobs.get_mut(&id) else { return self.touch_running(id, touch, dry) };
        let Some(queue) = self.queues.get_mut(&job.item.op) else { return Err(not_alive(name)) };
        let from = RequestPlace { lane: Some(job.item.lane), held: queue.former.is_held(id), cancelled: false };
        let moved = touch.lane.filter(|lane| *lane != job.item.lane);
        if let Some(lane) = moved
            && job.item.op != Op::Transcribe
        {
            let message = format!("request {name} cannot go to lane {lane}: {} has one lane", job.item.op);
            return Err(Fault::invalid("lane", message));
        }
        if dry {
            return Ok((from, from.after(touch)));
        }
        if let Some(lane) = moved {
            queue.former.move_to(id, lane);
            job.move_to(lane);
        }
        if let Some(held) = touch.held {
            // True either way when it is so already.
            let _ = if held { queue.former.hold(id) } else { queue.former.release(id) };
            job.handled();
        }
        Ok((from, from.after(touch)))
    }

    /// Of what runs, a recording in slices alone can be held: from its next slice on.
    fn touch_running(&mut self, id: ItemId, touch: Touch, dry: bool) -> Result<Touched, Fault> {
        let name = RequestId(id.0);
        let mut batches = self.inflight.values();
        let Some(batch) = batches.find(|batch| batch.formed.items.iter().any(|item| item.id == id)) else {
            return Err(not_alive(name));
        };
        let refuse = |what: &str, param| {
            Fault::invalid(param, format!("request {name} runs: it can't be {what} any more"))
                .hint(format!("`lanekeeper cancel {name}` ends it"))
        };
        if touch.lane.is_some_and(|lane| lane != batch.formed.lane) {
            return Err(refuse("moved", "lane"));
        }
        let Some(queue) = self.queues.get_mut(&batch.op) else { return Err(not_alive(name)) };
        let held = queue.held_next.contains(&id);
        let from = RequestPlace { lane: Some(batch.formed.lane), held, cancelled: false };
        match (touch.held, batch.formed.slice.is_some()) {
            (Some(true), false) => return Err(refuse("held", "held")),
            (Some(true), true) if !dry => drop(queue.held_next.insert(id)),
            (Some(false), _) if !dry => drop(queue.held_next.remove(&id)),
            (Some(_) | None, _) => {}
        }
        Ok((from, from.after(touch)))
    }
}
