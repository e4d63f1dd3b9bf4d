//! Puts the snapshot together from what the workers publish.

use super::RequestId;
use super::batch::{BatchWorker, Surroundings, WaitingView, WorkerView};
use super::clock::{lock, unix_ms};
use super::engine::{Core, Worker};
use super::generation::{GenerationView, GenerationWorker};
use super::handle::LoadState;
use super::lookout;
use super::progress::Progress;
use super::registry::{Record, Shown};
use crate::control::changes::Override;
use crate::control::snapshot::{
    Device, Dropped, EngineState, Generation, LaneProgress, Model, ModelState, Request, RequestState, Requests, SCHEMA,
    Wait,
};
use crate::control::{Lane, Op, Snapshot, WaitCode};
use crate::engine::scheduler::Micros;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// For so long a snapshot is fresh: who asks meanwhile gets the same.
const FRESH: Micros = Micros(3_000);

/// Live requests that a snapshot shows; the total is always told.
const SHOWN: usize = 256;

/// The last snapshot taken, and until when it is fresh.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    progress: Mutex<Progress>,
    last: Mutex<Option<(Micros, Arc<Snapshot>)>>,
}

impl Snapshots {
    /// The newest snapshot. Whoever comes while one is being taken waits for it: that takes well under a millisecond.
    pub fn get(&self, core: &Core) -> Arc<Snapshot> {
        let mut last = lock(&self.last);
        let now = core.shared.clock.now();
        if let Some((fresh_until, snapshot)) = &*last
            && now < *fresh_until
        {
            return snapshot.clone();
        }
        let seq = last.as_ref().map_or(1, |(_, snapshot)| snapshot.seq + 1);
        let snapshot = Arc::new(take(core, seq, now, &mut lock(&self.progress)));
        *last = Some((now + FRESH, snapshot.clone()));
        snapshot
    }

    /// The next one is taken afresh: who changes something sees it in the snapshot that comes next.
    pub fn outdate(&self) {
        if let Some((fresh_until, _)) = &mut *lock(&self.last) {
            *fresh_until = Micros::ZERO;
        }
    }
}

/// What a worker has published.
enum View<'a> {
    Batch(&'a BatchWorker, Arc<WorkerView>),
    Generation(&'a GenerationWorker, Arc<GenerationView>),
}

impl View<'_> {
    fn of(worker: &Worker) -> View<'_> {
        match worker {
            Worker::Batch(worker) => View::Batch(worker, worker.view()),
            Worker::Generation(worker) => View::Generation(worker, worker.view()),
        }
    }
}

/// A pending request's place and reason.
struct Place {
    position: Option<u64>,
    wait: Wait,
    /// It has run and was put aside.
    started: bool,
}

fn take(core: &Core, seq: u64, now: Micros, memory: &mut Progress) -> Snapshot {
    let draining = core.shared.is_draining();
    // Before the requests: one that a view still has waiting may run by then, and is told as running.
    let views: Vec<View> = core.workers.iter().map(View::of).collect();
    let shown = core.shared.registry.shown(SHOWN);
    let asked: HashSet<RequestId> = shown.live.iter().map(|record| record.id).collect();
    let mut places = HashMap::with_capacity(asked.len());
    let mut models = Vec::with_capacity(core.models.len());
    let mut generation = Vec::new();
    for (handle, view) in core.models.iter().zip(&views) {
        let loaded = handle.load_state();
        let (weights_bytes, kv_bytes) = match &*loaded {
            LoadState::Ready { weights_bytes, kv_bytes, .. } => (Some(*weights_bytes), *kv_bytes),
            LoadState::Loading | LoadState::Failed { .. } => (None, None),
        };
        let mut queues = Vec::new();
        match view {
            View::Batch(worker, view) => {
                let around = Surroundings {
                    loading: matches!(&*loaded, LoadState::Loading),
                    draining,
                    device_busy: core
                        .device(&handle.device)
                        .filter(|slot| slot.waits(&handle.name))
                        .map(|slot| slot.holder().unwrap_or_default()),
                };
                for queue in &view.queues {
                    let place = |w: &WaitingView| Place {
                        position: w.position,
                        wait: queue.wait(w, &around, now),
                        started: w.started,
                    };
                    let waiting = queue.waiting.iter().filter(|w| asked.contains(&w.id));
                    places.extend(waiting.map(|w| (w.id, place(w))));
                    if let Some(stats) = worker.stats(queue.op) {
                        queues.push(queue.assemble(stats, handle.settings().max_queue, now));
                    }
                }
            }
            View::Generation(worker, view) => {
                let waiting = view.places().filter(|(id, ..)| asked.contains(id));
                places.extend(waiting.map(|(id, position, wait)| (id, Place { position, wait, started: false })));
                let shown = view.assemble(&handle.profile.id, worker.stats(), worker.max_queue());
                generation.push(Generation { pace: worker.stats().pace(Lane::Clips, now), ..shown });
            }
        }
        models.push(Model {
            id: handle.profile.id.clone(),
            family: handle.profile.family.name().to_string(),
            ops: handle.profile.ops.clone(),
            state: handle.state(),
            device: handle.device.clone(),
            weights_bytes,
            kv_bytes,
            queues,
        });
    }
    generation.sort_by(|a: &Generation, b| a.model.cmp(&b.model));
    let progress = progress(core, memory, now);
    let stuck = progress.iter().filter_map(|lane| lane.why.clone()).collect();
    let (state, reasons) = engine_state(&models, draining, stuck);
    let settings = core.settings().map(|settings| (settings.published(), settings.now_ms()));
    let mut requests = requests(core, &shown, &places, now);
    let (revision, overrides, journal_tail) = settings.map_or((0, Vec::new(), Vec::new()), |(shown, now_ms)| {
        let left = |at: u64| at.saturating_sub(now_ms) as f64;
        for request in requests.shown.iter_mut().filter(|r| r.wait.as_ref().is_some_and(|w| w.code == WaitCode::Held)) {
            request.held_left_ms = shown.holds.get(&request.id).copied().map(left);
        }
        let lease = |o: &Override| Override { left_ms: o.expires_at_ms.map(left), ..o.clone() };
        (shown.revision, shown.overrides.iter().map(lease).collect(), shown.tail.clone())
    });
    Snapshot {
        schema: SCHEMA.to_string(),
        node: core.profile.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        pid: std::process::id(),
        seq,
        at_ms: unix_ms(),
        uptime_ms: now.0 / 1_000,
        revision,
        state,
        reasons,
        progress,
        host: core.host.get(core.threads, now),
        devices: core.devices.iter().map(|slot| device(slot)).collect(),
        models,
        generation,
        requests,
        overrides,
        journal_tail,
        dropped: Dropped {
            events: core.shared.receipts.as_ref().map_or(0, super::receipts::Receipts::lost),
            frames: core.shared.commits.dropped(),
        },
        extra: serde_json::Map::new(),
    }
}

fn device(slot: &super::DeviceSlot) -> Device {
    Device {
        id: slot.id.clone(),
        description: slot.description.clone(),
        memory_used_bytes: None,
        memory_total_bytes: None,
        holder: slot.holder(),
        places: slot.places() as u64,
        waiting: slot.line(),
    }
}

/// Looks at every lane, and tells what is stuck when it begins and when it ends.
fn progress(core: &Core, memory: &mut Progress, now: Micros) -> Vec<LaneProgress> {
    let limit = Micros::from_ms(core.shared.limits().progress_s * 1_000.0);
    let unix_ms = unix_ms();
    let mut shown = Vec::new();
    for (handle, worker) in core.models.iter().zip(&core.workers) {
        for (name, seen) in lookout::lanes(core, handle, worker, now) {
            let looked = memory.look(name, &seen, limit, now, unix_ms);
            let lane = looked.shown;
            if looked.begins {
                tracing::warn!(lane = lane.name, why = lane.why.as_deref().unwrap_or_default(), "a lane is stuck");
                core.shared.metrics.stalled(&lane);
            } else if looked.ends {
                tracing::info!(lane = lane.name, "a lane that was stuck gets on");
            }
            shown.push(lane);
        }
    }
    shown
}

/// The engine's state follows from its models': ready as soon as every model is, degraded when one failed or a lane is
/// `stuck`.
fn engine_state(models: &[Model], draining: bool, stuck: Vec<String>) -> (EngineState, Vec<String>) {
    let mut reasons = stuck;
    let (mut loading, mut failed) = (false, !reasons.is_empty());
    for model in models {
        match &model.state {
            ModelState::Loading { .. } | ModelState::Unloaded => {
                loading = true;
                reasons.push(format!("model `{}` is loading", model.id));
            }
            ModelState::Failed { why } => {
                failed = true;
                reasons.push(format!("model `{}` failed to load: {why}", model.id));
            }
            ModelState::Ready => {}
        }
    }
    let state = if draining {
        reasons.insert(0, "draining: no new work is admitted".to_string());
        EngineState::Draining
    } else if failed {
        EngineState::Degraded
    } else if loading {
        EngineState::Starting
    } else {
        EngineState::Ready
    };
    (state, reasons)
}

/// Why a request waits that its worker has not published yet: it was just admitted, or just extracted.
fn arriving(core: &Core, record: &Record) -> Wait {
    let worker = core.models.iter().zip(&core.workers).find(|(handle, _)| handle.name == record.model);
    match worker {
        Some((handle, Worker::Generation(worker))) => {
            let busy = core.device(&handle.device).is_some_and(|slot| slot.waits(&handle.name));
            Wait::of(worker.arriving(record.cost, busy))
        }
        Some((_, Worker::Batch(_))) | None => Wait::of(WaitCode::WindowOpen),
    }
}

/// Running first, then the oldest waiting, then the last that ended.
fn requests(core: &Core, shown: &Shown, places: &HashMap<RequestId, Place>, now: Micros) -> Requests {
    let request = |record: &Record| request(core, record, places.get(&record.id), now);
    Requests { total: shown.total, shown: shown.live.iter().chain(&shown.ended).map(request).collect() }
}

fn request(core: &Core, record: &Record, place: Option<&Place>, now: Micros) -> Request {
    let end = record.ended.map_or(now, |(at, _)| at);
    let started = record.started;
    let queued = record.state == RequestState::Queued;
    // A recording between two slices waits too, although it has started.
    let place = place.filter(|place| queued || place.started);
    Request {
        id: record.id.to_string(),
        model: record.model.to_string(),
        op: record.op,
        lane: (record.op != Op::Generate).then_some(record.lane),
        state: record.state,
        client: record.client.clone(),
        cost: Some(record.cost),
        queued_ms: (started.unwrap_or(end) - record.submitted).as_ms(),
        running_ms: started.map(|at| (end - at).as_ms()),
        position: place.and_then(|p| p.position),
        wait: place.map(|p| p.wait.clone()).or_else(|| queued.then(|| arriving(core, record))),
        held_left_ms: None,
        deadline_ms: record.deadline.filter(|_| record.ended.is_none()).map(|at| (at - now).as_ms()),
        done_ratio: record.done_ratio,
        outcome: record.ended.map(|(_, outcome)| outcome),
        ended_ago_ms: record.ended.map(|(at, _)| (now - at).as_ms()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuck_lane_degrades_and_a_drain_says_so_first() {
        let stuck = || vec!["lane clips of `ears` is stuck".to_string()];
        assert_eq!(engine_state(&[], false, Vec::new()), (EngineState::Ready, Vec::new()));
        assert_eq!(engine_state(&[], false, stuck()), (EngineState::Degraded, stuck()));
        let (state, reasons) = engine_state(&[], true, stuck());
        assert_eq!((state, reasons.len()), (EngineState::Draining, 2));
        assert!(reasons[0].contains("draining") && reasons[1].contains("ears"));
    }
}
