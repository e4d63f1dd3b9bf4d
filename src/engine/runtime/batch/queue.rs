//! One operation's former with what is known of its batches: how long they take, what moved its caps, what came lately.

use super::job::Job;
use super::view::{InflightView, OwedView, QueueView, RecentView, ShareView, WaitingView};
use super::{Report, Retune};
use crate::control::{Fault, Lane, Op, WaitCode};
use crate::engine::runtime::RequestId;
use crate::engine::runtime::stats::OpStats;
use crate::engine::scheduler::setup::{controller_settings, cost_layers, slice_windows};
use crate::engine::scheduler::{
    AUDIO_HARD_CAP_MS, Adaptive, Arrivals, BatchCaps, CapMove, CostLayers, FlushReason, Formed, Former, Item, ItemId,
    Knob, LaneRules, Layered, Micros, MoveCause, Outlook, Paused, Running, ServiceFit, Slice, TurnKind, TurnView,
    forecast,
};
use crate::profile::ModelProfile;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Batches that are remembered.
const RECENT: usize = 32;
/// Owed clips that are shown.
const OWED: usize = 32;
/// Arrivals that the pace of clips is taken from, and how old they may be.
const ARRIVALS: usize = 64;
const LATELY: Micros = Micros(30_000_000);
/// Weight of the newest slice in the measure of how far a window moves a recording on.
const NEWEST: f64 = 0.2;

/// A batch with the runner.
#[derive(Debug, Clone)]
pub(super) struct Inflight {
    pub op: Op,
    pub formed: Formed,
    pub queued: Micros,
    pub view: InflightView,
}

pub(super) struct Queue {
    pub op: Op,
    pub former: Former,
    pub stats: Arc<OpStats>,
    clips: ServiceFit,
    recordings: ServiceFit,
    /// The part of its nominal length by which a window moves a recording on.
    window_advance: f64,
    recent: VecDeque<RecentView>,
    /// What decides window and cost cap, and the caps that it does not decide.
    adaptive: Adaptive,
    base: BatchCaps,
    /// Recordings between two slices.
    aside: HashSet<ItemId>,
    /// Recordings that are to be held when their slice is over.
    pub(super) held_next: HashSet<ItemId>,
    /// When clips came, and what they cost.
    arrivals: VecDeque<(Micros, u64)>,
    /// The last turn of clips that a batch belonged to: the former has done with it when its last batch is taken, and it
    /// is shown until that has run.
    turn: Option<TurnView>,
    /// When each pending item was last expected to start.
    expected: HashMap<ItemId, Micros>,
}

impl Queue {
    /// Refuses settings of the controller that contradict each other, naming both.
    pub fn new(op: Op, profile: &ModelProfile, device: &str, stats: Arc<OpStats>) -> Result<Queue, Fault> {
        let adaptive = adaptive(profile, op)?;
        let base = caps(profile, op, device);
        let mut former = Former::new(adaptive.caps(base));
        former.set_rules(rules(profile));
        Ok(Queue {
            op,
            former,
            stats,
            clips: ServiceFit::default(),
            recordings: ServiceFit::default(),
            window_advance: 1.0,
            recent: VecDeque::new(),
            adaptive,
            base,
            aside: HashSet::new(),
            held_next: HashSet::new(),
            arrivals: VecDeque::new(),
            turn: None,
            expected: HashMap::new(),
        })
    }

    /// A request comes in; false when one of its id is here already.
    pub fn push(&mut self, item: Item) -> bool {
        if item.lane == Lane::Clips {
            if self.arrivals.len() == ARRIVALS {
                self.arrivals.pop_front();
            }
            self.arrivals.push_back((item.arrival, item.cost));
        }
        self.former.push(item)
    }

    /// A request leaves without having been taken.
    pub fn remove(&mut self, id: ItemId) {
        self.former.remove(id);
        self.aside.remove(&id);
        self.expected.remove(&id);
    }

    /// Lets go what is held, now or after its slice.
    pub fn release_all(&mut self) {
        self.held_next.clear();
        let held: Vec<ItemId> = self.former.held().map(|item| item.id).collect();
        for id in held {
            self.former.release(id);
        }
    }

    /// A batch was taken: what it is expected to take, and whether a turn of clips begins with it.
    pub fn taken(&mut self, formed: &Formed, now: Micros) -> (Option<Micros>, bool) {
        for item in &formed.items {
            self.aside.remove(&item.id);
            self.expected.remove(&item.id);
        }
        self.stats.lane(formed.lane).got_on(now);
        let begins = formed.turn.is_some_and(|number| self.turn.as_ref().is_none_or(|turn| turn.number < number));
        match (&mut self.turn, formed.turn) {
            (Some(turn), Some(_)) if !begins => turn.served_cost = turn.served_cost.saturating_add(formed.cost),
            (turn, Some(number)) => {
                let (served_cost, limit) = (formed.cost, formed.cap);
                *turn =
                    Some(TurnView { kind: TurnKind::Clips, number, began: now, members_left: 0, served_cost, limit });
            }
            (_, None) => {}
        }
        (self.fit(formed.lane).estimate(formed.items.len(), formed.cost), begins)
    }

    fn fit(&mut self, lane: Lane) -> &mut ServiceFit {
        match lane {
            Lane::Clips => &mut self.clips,
            Lane::Recordings => &mut self.recordings,
        }
    }

    /// A recording's slice is over and it is wanted still: it is the head of its lane again.
    pub fn put_back(&mut self, slice: Slice, job: &Job) -> bool {
        let back = self.former.put_back(slice, job.item.cost);
        if back {
            self.aside.insert(job.item.id);
            if self.held_next.remove(&job.item.id) {
                self.former.hold(job.item.id);
            }
        }
        back
    }

    /// A batch has run. Its [`Former::ran`] is called apart, when what it put aside is back. Returns what the controller
    /// made of it.
    pub fn ran(&mut self, batch: &Inflight, report: &Report, now: Micros) -> Vec<CapMove> {
        let moves = self.learn(batch, report, now);
        let formed = &batch.formed;
        self.fit(formed.lane).observe(batch.view.items, formed.cost, report.run);
        // A recording's last slice ends with it, which says nothing of windows.
        if formed.slice.is_some() && !report.put_aside.is_empty() && report.computed > 0 {
            let part = report.computed as f64 / formed.cost.max(1) as f64;
            self.window_advance += NEWEST * (part - self.window_advance);
        }
        self.stats.batches.fetch_add(1, Ordering::Relaxed);
        self.stats.run_us.fetch_add(report.run.0, Ordering::Relaxed);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(RecentView {
            batch: report.batch,
            lane: formed.lane,
            why: formed.why,
            items: batch.view.items,
            cost: formed.cost,
            cap: formed.cap,
            queued: batch.queued,
            run: report.run,
            outcome: report.outcome,
            turn: formed.turn,
            put_aside: !report.put_aside.is_empty(),
            ended: now,
        });
        moves
    }

    /// Feeds the controller with a batch that has run. Returns what became of the knobs, where it was asked.
    fn learn(&mut self, batch: &Inflight, report: &Report, now: Micros) -> Vec<CapMove> {
        let mut moves = match report.fits {
            // No later batch is to be dearer than what was found to fit.
            Some(fits) => self.adaptive.out_of_memory(now, fits),
            None => Vec::new(),
        };
        self.adaptive.inferred(report.run);
        self.adaptive.filled(batch.formed.cost, batch.formed.cap);
        report.answered.iter().for_each(|latency| self.adaptive.answered(*latency));
        if batch.formed.why != FlushReason::Drain {
            moves.extend(self.adaptive.completed(now, Some(batch.view.items)));
        }
        if moves.iter().any(|moved| !moved.cause.holds()) {
            self.former.set_caps(self.adaptive.caps(self.base));
        }
        moves
    }

    /// New settings from the next batch on. Returns the knobs that were moved by it.
    pub fn retune(&mut self, change: &Retune, now: Micros) -> Result<Vec<CapMove>, Fault> {
        let refuse = |why: String| Fault::invalid("adaptive", format!("{}: {why}", change.op));
        let mut moves = Vec::new();
        if let Some(settings) = change.controller {
            settings.check().map_err(|e| refuse(e.to_string()))?;
            moves.extend(self.adaptive.set_settings(now, settings));
        }
        if let Some(cost) = change.max_cost {
            let (_, moved) = self.adaptive.override_cost(now, cost).map_err(|e| refuse(e.to_string()))?;
            moves.extend(moved);
        }
        if let Some(caps) = change.caps {
            // Neither the hard cap nor what the controller decides is set here.
            self.base = BatchCaps { hard_cost: self.base.hard_cost, ..caps };
        }
        if let Some(rules) = change.rules {
            self.former.set_rules(rules);
        }
        self.former.set_caps(self.adaptive.caps(self.base));
        Ok(moves)
    }

    /// The model's settings, from the next batch on. Returns the knobs that were moved by them; nothing is taken of
    /// settings that contradict each other.
    pub fn adopt(&mut self, profile: &ModelProfile, device: &str, now: Micros) -> Result<Vec<CapMove>, Fault> {
        let fresh = adaptive(profile, self.op)?;
        let mut moves = Vec::new();
        if fresh.settings() != self.adaptive.settings() {
            moves.extend(self.adaptive.set_settings(now, *fresh.settings()));
        }
        let layered = self.adaptive.set_layers(now, fresh.layers());
        moves.extend(layered.map_err(|e| Fault::invalid("adaptive", format!("{}: {e}", self.op)))?);
        self.base = caps(profile, self.op, device);
        self.former.set_rules(rules(profile));
        self.former.set_caps(self.adaptive.caps(self.base));
        Ok(moves)
    }

    /// Walks ahead: when will what waits start? Kept for [`view`](Self::view).
    pub fn look_ahead(&mut self, now: Micros, slots: usize, inflight: &[Inflight]) {
        let running = inflight.iter().map(|batch| {
            let takes = batch.view.expected.unwrap_or_default();
            Running { ends: batch.view.started + takes, charge: batch.formed.charge, takes, slice: batch.formed.slice }
        });
        let known = inflight.iter().all(|batch| batch.view.expected.is_some());
        let outlook = Outlook {
            clips: self.clips.service(),
            recordings: self.recordings.service(),
            window_advance: self.window_advance,
            slots,
            running: running.collect(),
            arrivals: self.pace(now),
        };
        // How long what runs still takes nobody knows before the first of its kind has ended: nothing is told then.
        self.expected = if known { forecast(&self.former, now, &outlook) } else { HashMap::new() };
        self.expected.values_mut().for_each(|wait| *wait = now + *wait);
    }

    /// When the item was expected to start, as of the last look ahead.
    pub fn expected(&self) -> &HashMap<ItemId, Micros> {
        &self.expected
    }

    /// At what pace clips have come lately.
    fn pace(&mut self, now: Micros) -> Option<Arrivals> {
        while self.arrivals.front().is_some_and(|(at, _)| now - *at > LATELY) {
            self.arrivals.pop_front();
        }
        let n = self.arrivals.len() as u64;
        let (first, _) = *self.arrivals.front()?;
        let costs = self.arrivals.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
        // One clip is no pace. The time since the last one counts too: a stream that has stopped fades away.
        (n > 1).then(|| Arrivals { every: Micros((now - first).0 / n), cost: costs / n })
    }

    /// The turn to show: of clips, until its last batch has run; else the one of a recording that runs.
    fn turn(&self, inflight: &[InflightView]) -> Option<TurnView> {
        let runs = |turn: &&TurnView| inflight.iter().any(|batch| batch.turn == Some(turn.number));
        let of_clips = self.former.turn().or_else(|| self.turn.as_ref().filter(runs).cloned());
        of_clips.or_else(|| self.former.recording_turn())
    }

    /// Where the cost cap comes from: the layer that sets it, or what moved it last.
    fn source(&self) -> &'static str {
        let moved = self.adaptive.view().moves.into_iter().rev().find(|m| m.knob == Knob::Cost && !m.cause.holds());
        match moved.map(|m| m.cause) {
            Some(MoveCause::OutOfMemory) => "memory",
            Some(MoveCause::Headroom | MoveCause::Starvation) => "controller",
            _ => self.adaptive.layers().budget().origin.name(),
        }
    }

    /// What is shown of it.
    pub fn view(&self, now: Micros, slots: usize, inflight: Vec<InflightView>) -> QueueView {
        let waiting: Vec<WaitingView> = self
            .former
            .explain_all(now)
            .into_iter()
            .map(|e| WaitingView {
                id: RequestId(e.id.0),
                lane: e.lane,
                code: e.code,
                position: e.position,
                turns_left: e.turns_left,
                started: self.aside.contains(&e.id),
                starts: self.expected.get(&e.id).copied(),
            })
            .collect();
        let held = |lane: Lane| self.former.held().filter(|item| item.lane == lane).count();
        let aside =
            |lane: Lane| waiting.iter().filter(|w| w.started && w.lane == lane && w.code != WaitCode::Held).count();
        let owed = self.former.owed(usize::MAX);
        let share = self.former.share();
        QueueView {
            op: self.op,
            caps: *self.former.caps(),
            caps_source: self.source(),
            range: *self.adaptive.range(),
            controller: self.adaptive.view(),
            rules: *self.former.rules(),
            depth: slots,
            clips: self.former.lane(Lane::Clips),
            recordings: self.former.lane(Lane::Recordings),
            held: [held(Lane::Clips), held(Lane::Recordings)],
            aside: [aside(Lane::Clips), aside(Lane::Recordings)],
            share: ShareView {
                part: share.in_effect.then_some(share.recordings),
                ran: [share.clips_ran, share.recordings_ran],
                last_turns: share.last_turns,
            },
            service: [
                (self.clips.service(), self.clips.window()),
                (self.recordings.service(), self.recordings.window()),
            ],
            turn: self.turn(&inflight),
            owed_total: owed.len(),
            owed: owed.into_iter().take(OWED).map(OwedView::from).collect(),
            preview: self.former.preview(now),
            inflight,
            recent: self.recent.iter().cloned().collect(),
            waiting,
        }
    }
}

/// Refuses settings of a model's batches that contradict each other, naming both.
pub(in crate::engine::runtime) fn check(profile: &ModelProfile) -> Result<(), Fault> {
    let mut batched = profile.ops.iter().filter(|op| **op != Op::Generate);
    batched.try_for_each(|op| adaptive(profile, *op).map(drop))
}

/// The controller of an operation, by its model's profile.
fn adaptive(profile: &ModelProfile, op: Op) -> Result<Adaptive, Fault> {
    let refuse = |why: String| {
        let message = format!("model `{}`, {op}: {why}", profile.id);
        Fault::invalid("adaptive", message).hint("see `lanekeeper profile show` for where each value comes from")
    };
    let settings = controller_settings(&profile.adaptive, profile.wait_ms);
    settings.check().map_err(|e| refuse(e.to_string()))?;
    Adaptive::new(settings, layers(profile)).map_err(|e| refuse(e.to_string()))
}

/// The layers of the cost cap, by the model's profile. No model here reports a budget of its own.
fn layers(profile: &ModelProfile) -> CostLayers {
    let set = profile.max_batch_tokens.map(|value| Layered::set(value, profile.budget_origin.clone()));
    cost_layers(set, &profile.adaptive)
}

/// Requests in one batch at most, where the profile does not say. A CPU encodes one window of audio after the other,
/// batch or none; one by one, each clip is answered as soon as it is done.
fn max_requests(op: Op, device: &str) -> usize {
    if op == Op::Transcribe && device == "cpu" { 1 } else { 12 }
}

/// What bounds the batches of an operation beside window and cost cap, by its model's profile and its device.
fn caps(profile: &ModelProfile, op: Op, device: &str) -> BatchCaps {
    BatchCaps {
        hard_cost: (op == Op::Transcribe).then_some(AUDIO_HARD_CAP_MS),
        max_requests: profile.max_batch_requests.unwrap_or(max_requests(op, device)),
        coalesce: Micros::from_ms(profile.coalesce_ms),
        coalesce_ratio: profile.coalesce_ratio,
        idle_bypass: profile.idle_bypass,
        ..BatchCaps::default()
    }
}

/// The rules between the lanes, by the model's profile.
fn rules(profile: &ModelProfile) -> LaneRules {
    LaneRules {
        slice_windows: slice_windows(profile.slice_windows),
        recordings_share: profile.recordings_share,
        keep_owed: profile.keep_owed,
        paused: Paused { clips: profile.clips_paused, recordings: profile.recordings_paused },
        ..LaneRules::default()
    }
}
