//! What a batch worker shows, as its dispatcher publishes it.

use crate::control::snapshot::{
    CapMoved as CapMovedShown, Caps, Controller, InflightBatch, LaneView, Next, Outcome, Owed, Queue, RecentBatch,
    Service as ServiceShown, Turn, Wait,
};
use crate::control::{Lane, Op, WaitCode};
use crate::engine::runtime::RequestId;
use crate::engine::runtime::stats::OpStats;
use crate::engine::scheduler::{
    BatchCaps, CapMove, ControllerMode, ControllerView, CostRange, FlushReason, LaneLoad, LaneRules, Micros, OwedClip,
    Preview, Service, SliceWindows, TurnKind, TurnView,
};
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
    pub range: CostRange,
    pub controller: ControllerView,
    pub rules: LaneRules,
    pub depth: usize,
    pub clips: LaneLoad,
    /// Those that were put aside included.
    pub recordings: LaneLoad,
    /// Of clips and of recordings: those that were put aside.
    pub aside: [usize; 2],
    /// Of clips and of recordings: those that an operator holds, counted nowhere else.
    pub held: [usize; 2],
    pub share: ShareView,
    /// By lane: how long batches take, and on how many that was measured.
    pub service: [(Option<Service>, usize); 2],
    pub turn: Option<TurnView>,
    pub owed: Vec<OwedView>,
    pub owed_total: usize,
    pub preview: Option<Preview>,
    pub inflight: Vec<InflightView>,
    pub recent: Vec<RecentView>,
    pub waiting: Vec<WaitingView>,
}

/// The engine time of the lanes.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine::runtime) struct ShareView {
    /// The recordings' part; absent where it has no effect.
    pub part: Option<f64>,
    /// Engine time by lane since the start.
    pub ran: [Micros; 2],
    /// Engine time of the last turn of each lane.
    pub last_turns: [Micros; 2],
}

/// A clip that a turn passed over.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine::runtime) struct OwedView {
    id: RequestId,
    cost: u64,
    arrival: Micros,
    turns_left: u64,
}

impl From<OwedClip> for OwedView {
    fn from(clip: OwedClip) -> OwedView {
        OwedView { id: RequestId(clip.id.0), cost: clip.cost, arrival: clip.arrival, turns_left: clip.turns_left }
    }
}

#[derive(Debug, Clone)]
pub(in crate::engine::runtime) struct InflightView {
    pub batch: u64,
    pub lane: Lane,
    pub items: usize,
    pub cost: u64,
    pub windows: Option<u64>,
    pub turn: Option<u64>,
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
    pub turn: Option<u64>,
    pub put_aside: bool,
    pub ended: Micros,
}

/// A pending request.
#[derive(Debug, Clone)]
pub(in crate::engine::runtime) struct WaitingView {
    pub id: RequestId,
    pub lane: Lane,
    pub code: WaitCode,
    pub position: Option<u64>,
    pub turns_left: Option<u64>,
    /// It has run and was put aside.
    pub started: bool,
    /// When it is expected to start, or to go on.
    pub starts: Option<Micros>,
}

/// What overrides the former's own reasons: what the whole model waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::engine::runtime) struct Surroundings {
    pub loading: bool,
    pub draining: bool,
    /// The runner stands in line for a device that these models have.
    pub device_busy: Option<String>,
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
    pub fn wait(&self, waiting: &WaitingView, around: &Surroundings, now: Micros) -> Wait {
        let code = match waiting.code {
            _ if around.loading && waiting.code != WaitCode::Held => WaitCode::ModelLoading,
            // What has started goes on to its end in a drain.
            _ if around.draining && !waiting.started => WaitCode::Draining,
            WaitCode::Held => WaitCode::Held,
            WaitCode::WindowOpen | WaitCode::SlotBusy if around.device_busy.is_some() => WaitCode::DeviceBusy,
            // With every slot taken it is not the window that it waits for.
            WaitCode::WindowOpen if self.busy() => WaitCode::SlotBusy,
            code => code,
        };
        let estimate = waiting.starts.filter(|_| !around.loading).map(|at| (at - now).as_ms());
        Wait { code, on: self.on(code, waiting, around), turns_left: waiting.turns_left, estimate_ms: estimate }
    }

    /// What a request waits for, in words.
    fn on(&self, code: WaitCode, waiting: &WaitingView, around: &Surroundings) -> Option<String> {
        let turn = self.turn.as_ref().filter(|turn| turn.kind == TurnKind::Clips);
        // The turn that is next: nobody is a member of it yet.
        let next_turn = self.last_turn() + 1;
        match code {
            WaitCode::SlotBusy => self.running(None),
            WaitCode::TurnOfOtherLane if waiting.lane == Lane::Clips => {
                self.running(Some(Lane::Recordings)).or_else(|| Some("a recording, which is next".to_string()))
            }
            WaitCode::TurnOfOtherLane => match turn {
                Some(turn) => Some(format!("turn {} of clips, {} left in it", turn.number, turn.members_left)),
                None => self.running(None).or_else(|| Some(format!("turn {next_turn} of clips, which is next"))),
            },
            WaitCode::NotInThisTurn | WaitCode::OwedNextTurn => Some(format!("turn {next_turn} of clips")),
            WaitCode::CapReached => {
                let (cost, count) = (self.caps.effective_cost(), self.caps.count());
                Some(format!("a later batch: one holds {count} requests, or {cost} {}", self.op.cost_unit()))
            }
            WaitCode::WindowOpen => {
                let (wait, coalesce) = (self.caps.wait.as_ms(), self.caps.coalesce_window().as_ms());
                Some(format!("company: {wait} ms at most, {coalesce} ms after the last arrival"))
            }
            WaitCode::DeviceBusy => around.device_busy.as_ref().map(|who| format!("the device, which has {who}")),
            WaitCode::Held => Some("the request to be released".to_string()),
            WaitCode::LanePaused => Some(format!("the lane {} to be resumed", waiting.lane)),
            _ => None,
        }
    }

    fn last_turn(&self) -> u64 {
        let under_way = self.turn.as_ref().filter(|turn| turn.kind == TurnKind::Clips).map(|turn| turn.number);
        let inflight = self.inflight.iter().filter_map(|batch| batch.turn);
        let recent = self.recent.iter().filter_map(|batch| batch.turn);
        under_way.into_iter().chain(inflight).chain(recent).max().unwrap_or(0)
    }

    /// The running batch (of a lane) that ends first, in words.
    fn running(&self, lane: Option<Lane>) -> Option<String> {
        let of_lane = self.inflight.iter().filter(|batch| lane.is_none_or(|lane| lane == batch.lane));
        let batch = of_lane.min_by_key(|batch| batch.started + batch.expected.unwrap_or(Micros::MAX))?;
        let what = match (batch.lane, batch.windows) {
            (Lane::Clips, _) => format!("{} of the clips", batch.items),
            (Lane::Recordings, None) => "a whole recording".to_string(),
            (Lane::Recordings, Some(1)) => "one window of a recording".to_string(),
            (Lane::Recordings, Some(n)) => format!("{n} windows of a recording"),
        };
        Some(format!("batch {}, {what}", batch.batch))
    }

    /// The snapshot's form.
    pub fn assemble(&self, stats: &OpStats, max_queue: usize, now: Micros) -> Queue {
        let mut lanes = vec![self.lane(Lane::Clips, &self.clips, stats, now)];
        if self.op == Op::Transcribe {
            lanes.push(self.lane(Lane::Recordings, &self.recordings, stats, now));
        }
        Queue {
            op: self.op,
            lanes,
            slice_windows: match self.rules.slice_windows {
                SliceWindows::Windows(n) if self.op == Op::Transcribe => Some(u64::from(n.get())),
                _ => None,
            },
            caps: self.caps(max_queue),
            controller: self.controller(now),
            turn: self.turn(now),
            next: self.preview.as_ref().map(|p| self.next(p)),
            inflight: self.inflight.iter().map(|b| b.assemble(now)).collect(),
            recent: self.recent.iter().map(|b| b.assemble(now)).collect(),
            latency: stats.latency(),
            counters: stats.counters(),
        }
    }

    fn lane(&self, lane: Lane, load: &LaneLoad, stats: &OpStats, now: Micros) -> LaneView {
        let s = stats.lane(lane);
        let recordings = usize::from(lane == Lane::Recordings);
        let (service, window) = self.service[recordings];
        let (aside, held) = (self.aside[recordings], self.held[recordings]);
        LaneView {
            lane,
            paused: self.rules.paused.lane(lane),
            share: self.share.part.map(|part| if lane == Lane::Recordings { part } else { 1.0 - part }),
            pending: load.pending.saturating_sub(aside) as u64,
            held: held as u64,
            put_aside: aside as u64,
            cost: load.cost,
            oldest_wait_ms: load.oldest.map(|arrival| (now - arrival).as_ms()),
            running: s.running.load(Ordering::Relaxed),
            served: s.served.load(Ordering::Relaxed),
            cancelled: s.cancelled.load(Ordering::Relaxed),
            expired: s.expired.load(Ordering::Relaxed),
            failed: s.failed.load(Ordering::Relaxed),
            engine_ms: self.share.ran[recordings].as_ms(),
            service: service.map(|service| ServiceShown {
                base_ms: service.base_us / 1_000.0,
                item_ms: service.item_us / 1_000.0,
                cost_us: service.cost_us,
                window: window as u64,
            }),
            estimate_error: stats.estimate_error(lane),
            pace: stats.pace(lane, now),
        }
    }

    fn caps(&self, max_queue: usize) -> Caps {
        let [floor, start, ceiling] = self.controller.wait_range_ms;
        let adapts = self.controller.mode != ControllerMode::Off;
        Caps {
            max_batch_cost_effective: self.caps.effective_cost(),
            max_batch_cost: self.caps.max_cost,
            max_batch_cost_hard: self.caps.hard_cost,
            max_batch_cost_floor: Some(self.range.floor),
            max_batch_cost_start: Some(self.range.start),
            max_batch_cost_ceiling: Some(self.range.ceiling),
            max_batch_cost_source: self.caps_source.to_string(),
            max_batch_requests: self.caps.count() as u64,
            wait_ms: self.caps.wait.as_ms(),
            wait_floor_ms: adapts.then_some(floor),
            wait_start_ms: adapts.then_some(start),
            wait_ceiling_ms: adapts.then_some(ceiling),
            coalesce_ms: self.caps.coalesce.as_ms(),
            depth: self.depth as u64,
            max_queue: max_queue as u64,
        }
    }

    fn controller(&self, now: Micros) -> Controller {
        let c = &self.controller;
        let moved = |m: &CapMove| CapMovedShown {
            ago_ms: (now - m.at).as_ms(),
            knob: m.knob.name().to_string(),
            from: m.from,
            to: m.to,
            cause: m.cause.name().to_string(),
        };
        Controller {
            mode: c.mode.name().to_string(),
            frozen: c.frozen,
            calibrated: c.calibrated,
            target_ms: c.target_ms,
            observed_p50_ms: c.observed_p50_ms,
            headroom_ms: c.headroom_ms,
            fill_ratio: c.fill_ratio,
            integral: c.integral,
            streak: c.streak,
            resets: c.resets,
            moves: c.moves.iter().map(moved).collect(),
        }
    }

    fn turn(&self, now: Micros) -> Option<Turn> {
        let owed = self.owed.iter().map(|owed| Owed {
            request: owed.id.to_string(),
            cost: owed.cost,
            waited_ms: (now - owed.arrival).as_ms(),
            turns_left: Some(owed.turns_left),
        });
        self.turn.as_ref().map(|turn| Turn {
            kind: turn.kind.name().to_string(),
            number: turn.number,
            began_ago_ms: Some((now - turn.began).as_ms()),
            members_left: turn.members_left as u64,
            served_cost: turn.served_cost,
            limit: Some(turn.limit),
            owed: owed.collect(),
            owed_total: self.owed_total as u64,
        })
    }

    fn next(&self, p: &Preview) -> Next {
        Next {
            lane: p.lane,
            why: match p.why {
                Some(why) => why.name().to_string(),
                None if self.busy() => WaitCode::SlotBusy.name().to_string(),
                None => WaitCode::WindowOpen.name().to_string(),
            },
            lane_why: (self.op == Op::Transcribe).then(|| p.because.name().to_string()),
            items: p.items as u64,
            cost: p.cost,
            windows: match self.rules.slice_windows {
                SliceWindows::Windows(n) if p.lane == Lane::Recordings => Some(u64::from(n.get())),
                _ => None,
            },
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
            windows: self.windows,
            turn: self.turn,
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
            put_aside: self.put_aside,
            turn: self.turn,
        }
    }
}
