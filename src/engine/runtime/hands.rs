//! An operator's hands on one request, whichever worker has it: it is held, let go, moved or cancelled.

use super::engine::{Core, Engine, Worker};
use super::{RequestId, not_alive};
use crate::control::hands::{RequestChange, RequestPatch, RequestPlace, Touch};
use crate::control::{ChangeAnswer, Fault, Op};

impl Core {
    /// Does something to a request, or looks at it (`dry`): all that is asked for or nothing.
    pub(super) fn touch(&self, id: RequestId, touch: Touch, dry: bool) -> Result<RequestChange, Fault> {
        let record = self.shared.registry.get(id).ok_or_else(|| not_alive(id))?;
        let worker = self.models.iter().zip(&self.workers).find(|(h, _)| h.name == record.model);
        let Some((handle, worker)) = worker else { return Err(not_alive(id)) };
        if record.cancel.is_cancelled() {
            return Err(not_alive(id));
        }
        // Where it stands is worth knowing when it is cancelled, and no reason not to cancel it.
        let (seen, look) = if touch.cancelled { (Touch::default(), true) } else { (touch, dry) };
        let touched = match worker {
            Worker::Batch(worker) => worker.touch(id, seen, look),
            Worker::Generation(worker) => worker.touch(&record, seen, look),
        };
        let (from, to) = match touched {
            Ok((from, _)) if touch.cancelled => (from, from.after(touch)),
            Err(_) if touch.cancelled => {
                let lane = (record.op != Op::Generate).then_some(record.lane);
                let from = RequestPlace { lane, held: false, cancelled: false };
                (from, from.after(touch))
            }
            touched => touched?,
        };
        if touch.cancelled && !dry {
            if !record.cancel.cancel() {
                return Err(not_alive(id));
            }
            // Each iteration of a generation looks at the flag.
            if let Worker::Batch(worker) = worker {
                worker.cancelled(id);
            }
        }
        if !dry {
            self.snapshots.outdate();
        }
        let (request, model) = (id.to_string(), handle.profile.id.clone());
        Ok(RequestChange { request, model, op: record.op, state: record.state, from, to })
    }
}

impl Engine {
    /// Does for `actor` what `patch` asks for, by `touch`: [`Engine::touch`] where the request is this engine's. Written
    /// down before it is answered. Waits for the request's worker and for the disk.
    pub fn hand(
        &self,
        patch: &RequestPatch,
        actor: &str,
        touch: &dyn Fn(Touch, bool) -> Result<RequestChange, Fault>,
    ) -> Result<ChangeAnswer, Fault> {
        let settings = match self.settings() {
            Ok(settings) => settings,
            // Work that nobody wants ends, whether anybody operates the engine or not.
            Err(_) if patch.touch() == Touch::CANCEL => {
                let change = touch(Touch::CANCEL, patch.dry_run)?;
                return Ok(ChangeAnswer { request: Some(change), ..ChangeAnswer::new(0, !patch.dry_run) });
            }
            Err(fault) => return Err(fault),
        };
        let answer = settings.hand(patch, actor, touch)?;
        if patch.ttl_s.is_some() {
            // Those whose requests ended in another way are forgotten, so that they do not pile up.
            let lives = |id: &str| id.parse().is_ok_and(|id| self.core.shared.registry.get(id).is_some());
            settings.forget_holds(&lives);
        }
        self.changed();
        Ok(answer)
    }

    /// Holds a request, lets it go, moves it to the other lane or cancels it: all that is asked for or nothing. A `dry` one
    /// is looked at. Nothing is written down of it: operators go by [`hand`](Self::hand).
    pub fn touch(&self, id: RequestId, touch: Touch, dry: bool) -> Result<RequestChange, Fault> {
        self.core.touch(id, touch, dry)
    }

    /// Cancels a request by id; false when there is no such live request.
    pub fn cancel(&self, id: RequestId) -> bool {
        self.touch(id, Touch::CANCEL, false).is_ok()
    }
}
