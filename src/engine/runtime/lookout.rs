//! What the workers show of themselves, as [`progress`](super::progress) looks at it; and the thread that looks once a
//! second while anything is alive, so that what is stuck is told although nobody asks.

use super::batch::{QueueView, WorkerView};
use super::engine::{Core, Worker};
use super::generation::GenerationView;
use super::handle::ModelHandle;
use super::progress::{LaneName, Seen};
use super::stats::OpStats;
use crate::control::snapshot::ModelState;
use crate::control::{ErrorKind, Fault, Lane, Op, WaitCode};
use crate::engine::scheduler::Micros;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// The thread that looks. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Lookout {
    /// Nothing is ever sent: that it is gone ends the thread.
    _alive: SyncSender<()>,
}

impl Lookout {
    pub fn start(core: Weak<Core>) -> Result<Lookout, Fault> {
        let (alive, gone) = sync_channel(1);
        let run = move || {
            while gone.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(core) = core.upgrade() else { return };
                // Taking a snapshot is looking.
                if *core.shared.registry.live().borrow() > 0 {
                    core.look();
                }
            }
        };
        let thread = std::thread::Builder::new().name("lookout".to_string()).spawn(run);
        thread
            .map_err(|e| Fault::new(ErrorKind::Internal, format!("could not start the thread that looks out: {e}")))?;
        Ok(Lookout { _alive: alive })
    }
}

/// The lanes of a model, in a fixed order.
pub(super) fn lanes(core: &Core, handle: &ModelHandle, worker: &Worker, now: Micros) -> Vec<(LaneName, Seen)> {
    let device = core.device(&handle.device);
    let model = Surroundings {
        closed: !matches!(handle.state(), ModelState::Ready) || core.shared.is_draining(),
        device_busy: device.is_some_and(|slot| slot.waits(&handle.name)),
        advanced: handle.advanced(),
        queue: handle.settings().max_queue as u64,
        now,
    };
    let name = |op, lane| LaneName { model: handle.name.clone(), op, lane };
    match worker {
        Worker::Batch(worker) => {
            let view = worker.view();
            let stats: Vec<(&QueueView, &Arc<OpStats>)> =
                view.queues.iter().filter_map(|queue| Some((queue, worker.stats(queue.op)?))).collect();
            let steps = stats.iter().map(|(_, stats)| stats.counters().batches).sum();
            let mut all = Vec::new();
            for (queue, stats) in &stats {
                for lane in [Lane::Clips, Lane::Recordings] {
                    if lane == Lane::Clips || queue.op == Op::Transcribe {
                        let seen = model.lane(&view, queue, stats, lane, steps);
                        all.push((name(queue.op, Some(lane)), seen));
                    }
                }
            }
            all
        }
        Worker::Generation(worker) => {
            let paused = handle.settings().generation.is_some_and(|settings| settings.paused);
            vec![(name(Op::Generate, None), model.generations(&worker.view(), worker.stats(), paused))]
        }
    }
}

/// What holds for all lanes of a model.
struct Surroundings {
    /// It loads, has failed, or the engine drains.
    closed: bool,
    /// Another model has the device.
    device_busy: bool,
    advanced: Micros,
    /// Requests of an operation that may wait.
    queue: u64,
    now: Micros,
}

impl Surroundings {
    /// How long what runs has not ended a step. It counts from the last start at the earliest: a worker that had nothing
    /// to do has not been stuck for all that time.
    fn hangs(&self, runs: bool, last_start: Option<Micros>) -> Option<Micros> {
        let since = self.advanced.max(last_start.unwrap_or_default());
        (runs && !self.device_busy && !self.closed).then(|| self.now - since)
    }

    fn lane(&self, view: &WorkerView, queue: &QueueView, stats: &OpStats, lane: Lane, steps: u64) -> Seen {
        let waiting: Vec<_> = queue.waiting.iter().filter(|w| w.lane == lane && startable(w.code)).collect();
        // What the dispatcher has not taken in: when it does not get on, that grows and its view stays as it was.
        let outside = if lane == Lane::Clips && queue.waiting.is_empty() { stats.waiting() } else { 0 };
        let runs = view.queues.iter().any(|queue| !queue.inflight.is_empty());
        let (started, last_start) = stats.lane(lane).starts();
        let own = queue.inflight.iter().any(|batch| batch.lane == lane);
        Seen {
            waiting: (waiting.len() as u64).max(outside as u64),
            first: waiting.iter().min_by_key(|w| (w.position, w.id)).map(|w| w.id),
            held: self.closed || queue.rules.paused.lane(lane),
            idle: !runs && !self.device_busy,
            open: !runs && !self.device_busy,
            queue: self.queue,
            others: queue.share.ran[usize::from(lane == Lane::Clips)],
            between: between(queue, lane),
            window: queue.caps.wait,
            started,
            last_start,
            steps,
            hangs: self.hangs(own, last_start),
        }
    }

    fn generations(&self, view: &GenerationView, stats: &OpStats, paused: bool) -> Seen {
        let waiting: Vec<_> = view.places().filter(|(_, _, wait)| startable(wait.code)).collect();
        let outside = if view.waiting.is_empty() { stats.waiting() } else { 0 };
        let (started, last_start) = stats.lane(Lane::Clips).starts();
        let full = matches!(view.reason, Some(WaitCode::KvFull | WaitCode::SlotsFull));
        let runs = !view.active.is_empty();
        Seen {
            waiting: (waiting.len() as u64).max(outside as u64),
            first: waiting.first().map(|(id, ..)| *id),
            held: self.closed || paused,
            idle: !runs && !self.device_busy,
            open: view.active.len() < view.slots && !full && !self.device_busy,
            queue: 0,
            others: Micros::ZERO,
            between: Micros::ZERO,
            window: Micros::ZERO,
            started,
            last_start,
            steps: view.iterations,
            hangs: self.hangs(runs, last_start),
        }
    }
}

/// Engine time that the other lane may have between two turns of this one, which take as long as its last: so much pays for
/// one by its share. Zero where no share is in effect, and before its first turn, which nothing delays.
fn between(queue: &QueueView, lane: Lane) -> Micros {
    // Texts have one lane, and nobody to share with.
    let Some(part) = queue.share.part.filter(|_| queue.op == Op::Transcribe) else { return Micros::ZERO };
    let (own, share) = match lane {
        Lane::Clips => (queue.share.last_turns[0], 1.0 - part),
        Lane::Recordings => (queue.share.last_turns[1], part),
    };
    Micros((own.0 as f64 * (1.0 - share) / share.max(1e-6)) as u64)
}

/// Whether a request that waits for this could be started, for all that an operator has said.
fn startable(code: WaitCode) -> bool {
    !matches!(code, WaitCode::LanePaused | WaitCode::Held)
}
