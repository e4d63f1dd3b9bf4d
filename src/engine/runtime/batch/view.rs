//! What a batch worker shows, as its dispatcher publishes it; and the estimates in it.

use crate::control::snapshot::{Caps, InflightBatch, LaneView, Next, Outcome, Queue, RecentBatch, Wait};
use crate::control::{Lane, Op, WaitCode};
use crate::engine::runtime::RequestId;
use crate::engine::runtime::stats::{CostRate, OpStats};
use crate::engine::scheduler::{BatchCaps, Explained, FlushReason, Former, LaneLoad, Micros, Preview};
use std::sync::atomic::Ordering;

/// All queues of a worker at one instant. Times are absolute: ages are reckoned when a snapshot is taken.
#[derive(Debug, Default)]
pub(in crate::engine::runtime) struct WorkerView {
    pub queues: Vec<QueueView>,
}

#[derive(Debug)]
pub(in crate::engine::runtime) struct QueueView {
    pub op: Op,
    pub caps: BatchCaps,
    pub caps_source: &'static str,
    pub depth: usize,
    pub clips: LaneLoad,
    pub recordings: LaneLoad,
    pub preview: Option<Preview>,
    pub inflight: Vec<InflightView>,
    pub recent: Vec<RecentView>,
    pub waiting: Vec<WaitingView>,
}

#[derive(Debug, Clone)]
pub(in crate::engine::runtime) struct InflightView {
    pub batch: u64,
    pub lane: Lane,
    pub items: usize,
    pub cost: u64,
    pub started: Micros,
    pub expected: Option<Micros>,
}

#[derive(Debug, Clone)]
pub(in crate::engine::runtime) struct RecentView {
    pub batch: u64,
    pub lane: Lane,
    pub why: FlushReason,
    pub items: usize,
    pub cost: u64,
    pub cap: u64,
    pub queued: Micros,
    pub run: Micros,
    pub outcome: Outcome,
    pub ended: Micros,
}

/// A pending request.
#[derive(Debug, Clone)]
pub(in crate::engine::runtime) struct WaitingView {
    pub id: RequestId,
    pub code: WaitCode,
    pub position: u64,
    pub estimate: Option<Micros>,
}

/// How long a unit of cost takes in each lane.
#[derive(Debug, Default)]
pub(in crate::engine::runtime) struct LaneRates {
    clips: CostRate,
    recordings: CostRate,
}

impl LaneRates {
    pub fn lane(&mut self, lane: Lane) -> &mut CostRate {
        match lane {
            Lane::Clips => &mut self.clips,
            Lane::Recordings => &mut self.recordings,
        }
    }

    fn estimate(&self, lane: Lane, cost: u64) -> Option<Micros> {
        match (lane, cost) {
            (_, 0) => Some(Micros::ZERO),
            (Lane::Clips, _) => self.clips.estimate(cost),
            (Lane::Recordings, _) => self.recordings.estimate(cost),
        }
    }
}

/// Estimates waits from measured run times: what runs, what is ahead in the lane, and what the other lane is given in
/// between.
pub(super) struct Estimator<'a> {
    rates: &'a LaneRates,
    inflight_left: Option<Micros>,
    clips: LaneLoad,
    recordings: LaneLoad,
    cap: u64,
}

impl<'a> Estimator<'a> {
    pub fn new(former: &Former, rates: &'a LaneRates, inflight_left: Option<Micros>) -> Self {
        let (clips, recordings) = (former.lane(Lane::Clips), former.lane(Lane::Recordings));
        Estimator { rates, inflight_left, clips, recordings, cap: former.caps().effective_cost() }
    }

    /// The wait of an item with `ahead` before it in its lane, when the other lane goes `turns` times first.
    fn wait(&self, lane: Lane, ahead: u64, turns: u64) -> Option<Micros> {
        let (other, other_cost) = match lane {
            Lane::Clips => {
                let n = self.recordings.pending as u64;
                (Lane::Recordings, self.recordings.cost.checked_div(n).unwrap_or(0).saturating_mul(turns.min(n)))
            }
            Lane::Recordings => (Lane::Clips, self.clips.cost.min(self.cap.saturating_mul(turns))),
        };
        Some(self.inflight_left? + self.rates.estimate(lane, ahead)? + self.rates.estimate(other, other_cost)?)
    }

    /// The wait of an item that comes in now.
    pub fn newcomer(&self, lane: Lane) -> Option<Micros> {
        match lane {
            Lane::Clips => self.wait(lane, self.clips.cost, self.clips.cost / self.cap.max(1) + 1),
            Lane::Recordings => self.wait(lane, self.recordings.cost, self.recordings.pending as u64 + 1),
        }
    }

    /// Estimates for what is explained in the order of positions.
    pub fn all(&self, explained: Vec<Explained>) -> Vec<WaitingView> {
        let (mut clips, mut recordings) = (0u64, 0u64);
        let view = |e: Explained| {
            let ahead = match e.lane {
                Lane::Clips => &mut clips,
                Lane::Recordings => &mut recordings,
            };
            let estimate = self.wait(e.lane, *ahead, e.turns_left.unwrap_or(0));
            *ahead = ahead.saturating_add(e.cost);
            WaitingView { id: RequestId(e.id.0), code: e.code, position: e.position, estimate }
        };
        explained.into_iter().map(view).collect()
    }
}

/// What overrides the former's own reasons: what the whole model waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::runtime) struct Surroundings {
    pub loading: bool,
    pub draining: bool,
    /// The runner stands in line for a device that another model has.
    pub device_busy: bool,
}

impl QueueView {
    fn busy(&self) -> bool {
        self.inflight.len() >= self.depth
    }

    /// The time until the running batches end, when it can be told.
    pub fn inflight_left(&self, now: Micros) -> Option<Micros> {
        self.inflight.iter().filter_map(|b| b.expected.map(|e| e - (now - b.started))).max()
    }

    /// Why a pending request waits, the model's surroundings included.
    pub fn wait(&self, waiting: &WaitingView, around: Surroundings) -> Wait {
        let code = match waiting.code {
            _ if around.loading => WaitCode::ModelLoading,
            _ if around.draining => WaitCode::Draining,
            WaitCode::WindowOpen | WaitCode::SlotBusy if around.device_busy => WaitCode::DeviceBusy,
            // With every slot taken it is not the window that it waits for.
            WaitCode::WindowOpen if self.busy() => WaitCode::SlotBusy,
            code => code,
        };
        Wait { code, estimate_ms: waiting.estimate.filter(|_| !around.loading).map(Micros::as_ms) }
    }

    /// The snapshot's form.
    pub fn assemble(&self, stats: &OpStats, max_queue: usize, now: Micros) -> Queue {
        let lane = |lane: Lane, load: &LaneLoad| {
            let s = stats.lane(lane);
            LaneView {
                lane,
                paused: false,
                pending: load.pending as u64,
                cost: load.cost,
                oldest_wait_ms: load.oldest.map(|arrival| (now - arrival).as_ms()),
                running: s.running.load(Ordering::Relaxed),
                served: s.served.load(Ordering::Relaxed),
                cancelled: s.cancelled.load(Ordering::Relaxed),
                expired: s.expired.load(Ordering::Relaxed),
                failed: s.failed.load(Ordering::Relaxed),
            }
        };
        let mut lanes = vec![lane(Lane::Clips, &self.clips)];
        if self.op == Op::Transcribe {
            lanes.push(lane(Lane::Recordings, &self.recordings));
        }
        Queue {
            op: self.op,
            lanes,
            caps: Caps {
                max_batch_cost_effective: self.caps.effective_cost(),
                max_batch_cost: self.caps.max_cost,
                max_batch_cost_hard: self.caps.hard_cost,
                max_batch_cost_source: self.caps_source.to_string(),
                max_batch_requests: self.caps.count() as u64,
                wait_ms: self.caps.wait.as_ms(),
                coalesce_ms: self.caps.coalesce.as_ms(),
                depth: self.depth as u64,
                max_queue: max_queue as u64,
            },
            next: self.preview.as_ref().map(|p| Next {
                lane: p.lane,
                why: match p.why {
                    Some(why) => why.name().to_string(),
                    None if self.busy() => WaitCode::SlotBusy.name().to_string(),
                    None => WaitCode::WindowOpen.name().to_string(),
                },
                items: p.items as u64,
                cost: p.cost,
            }),
            inflight: self.inflight.iter().map(|b| b.assemble(now)).collect(),
            recent: self.recent.iter().map(|b| b.assemble(now)).collect(),
            latency: stats.latency(),
            counters: stats.counters(),
        }
    }
}

impl InflightView {
    fn assemble(&self, now: Micros) -> InflightBatch {
        InflightBatch {
            batch: self.batch,
            lane: self.lane,
            items: self.items as u64,
            cost: self.cost,
            running_ms: (now - self.started).as_ms(),
            expected_ms: self.expected.map(Micros::as_ms),
        }
    }
}

impl RecentView {
    fn assemble(&self, now: Micros) -> RecentBatch {
        RecentBatch {
            batch: self.batch,
            lane: self.lane,
            why: self.why.name().to_string(),
            items: self.items as u64,
            cost: self.cost,
            fill_ratio: self.cost as f64 / self.cap.max(1) as f64,
            queue_ms: self.queued.as_ms(),
            run_ms: self.run.as_ms(),
            outcome: self.outcome,
            ended_ago_ms: (now - self.ended).as_ms(),
        }
    }
}
