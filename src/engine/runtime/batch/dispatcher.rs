//! The thread that owns the formers: takes requests in, lets them out in batches, takes recordings back between two
//! slices, and answers those that leave.

use super::door::slots;
use super::job::{Batch, Job};
use super::queue::{Inflight, Queue};
use super::view::{InflightView, WorkerView};
use super::{Command, MAX_DEPTH, Report, Retune};
use crate::control::{Fault, Op};
use crate::engine::runtime::clock::duration;
use crate::engine::runtime::handle::{LoadState, WorkerContext};
use crate::engine::runtime::recorder::Ran;
use crate::engine::runtime::shared::draining_fault;
use crate::engine::runtime::stats::OpStats;
use crate::engine::scheduler::{CapMove, Formed, Former, ItemId, LaneRules, Micros, MoveCause, Paused, Rounds};
use crate::profile::ModelProfile;
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

/// Commands taken in before batches are formed and the view is published.
const COMMANDS_AT_ONCE: usize = 256;

/// The view is published at most this often.
const PUBLISH_EVERY: Micros = Micros(2_000);

/// Looking ahead may take one part in so many of the thread's time.
const LOOK_AHEAD_PART: u64 = 20;

pub(super) struct Dispatcher {
    context: WorkerContext,
    inbox: Receiver<Command>,
    runner: SyncSender<Batch>,
    slots: usize,
    /// The settings that the queues have.
    settings: Arc<ModelProfile>,
    /// A drain lets held lanes go.
    drained: bool,
    pub(super) queues: BTreeMap<Op, Queue>,
    pub(super) jobs: HashMap<ItemId, Job>,
    pub(super) inflight: BTreeMap<u64, Inflight>,
    batches: u64,
    rounds: Rounds,
    sweep: Arc<AtomicBool>,
    view: Arc<ArcSwap<WorkerView>>,
    published: Micros,
    dirty: bool,
    /// When the thread may look ahead again.
    look_ahead_at: Micros,
}

impl Dispatcher {
    pub fn new(
        context: WorkerContext,
        ops: &BTreeMap<Op, Arc<OpStats>>,
        inbox: Receiver<Command>,
        runner: SyncSender<Batch>,
        slots: usize,
        sweep: Arc<AtomicBool>,
        view: Arc<ArcSwap<WorkerView>>,
    ) -> Result<Dispatcher, Fault> {
        let settings = context.handle.settings();
        let (profile, device) = (&*settings, &context.handle.device);
        let queue = |(op, stats): (&Op, &Arc<OpStats>)| Ok((*op, Queue::new(*op, profile, device, stats.clone())?));
        let queues = ops.iter().map(queue).collect::<Result<_, Fault>>()?;
        Ok(Dispatcher {
            context,
            inbox,
            runner,
            slots,
            settings,
            drained: false,
            queues,
            jobs: HashMap::new(),
            inflight: BTreeMap::new(),
            batches: 0,
            rounds: Rounds::default(),
            sweep,
            view,
            published: Micros::ZERO,
            dirty: true,
            look_ahead_at: Micros::ZERO,
        })
    }

    /// Until the engine is gone. Sleeps until the next command, window, deadline or publication.
    pub fn run(mut self) {
        loop {
            self.housekeep();
            self.dispatch();
            self.publish();
            let command = match self.sleep() {
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(time) => self.inbox.recv_timeout(duration(time)),
            };
            match command {
                Ok(command) => {
                    self.handle(command);
                    for _ in 1..COMMANDS_AT_ONCE {
                        let Ok(command) = self.inbox.try_recv() else { break };
                        self.handle(command);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.context.shared.is_stopped() {
                break;
            }
        }
        self.answer(&draining_fault(), |_| true);
    }

    fn now(&self) -> Micros {
        self.context.shared.clock.now()
    }

    fn ready(&self) -> bool {
        matches!(&*self.context.handle.load_state(), LoadState::Ready { .. })
    }

    /// How long until something happens by itself; `None` = not before the next command.
    fn sleep(&self) -> Option<Micros> {
        let now = self.now();
        let mut wake: Option<Micros> = None;
        let mut at_most = |time: Micros| wake = Some(wake.map_or(time, |other| other.min(time)));
        for queue in self.queues.values() {
            if let Some(deadline) = queue.former.next_deadline() {
                at_most(deadline - now);
            }
            // Without a free slot a window that closes changes nothing: the runner's report is what to wait for.
            if self.inflight.len() < self.slots
                && self.ready()
                && let Some(time) = queue.former.next_check(now).filter(|time| *time != Micros::MAX)
            {
                at_most(time);
            }
        }
        if self.dirty {
            at_most((self.published + PUBLISH_EVERY) - now);
        }
        wake
    }

    fn handle(&mut self, command: Command) {
        self.dirty = true;
        match command {
            Command::Submit(job) => self.submit(*job),
            Command::Cancel(id) => self.let_go(ItemId(id.0)),
            Command::Loaded => self.loaded(),
            Command::Ran(report) => self.ran(*report),
            Command::Touch(id, touch, dry, answer) => {
                // It has one place, which is free: who has hung up does not hear it.
                let _ = answer.try_send(self.touch(ItemId(id.0), touch, dry));
            }
            Command::Retune(change) => self.retune(&change),
            Command::Drain => self.drain(),
            // Looked at with every round of the loop.
            Command::Settings => {}
            // The shared flag says the same; this only wakes the thread.
            Command::Stop => {}
        }
    }

    fn submit(&mut self, mut job: Job) {
        let now = self.now();
        if self.context.shared.is_draining() {
            return job.fail(draining_fault(), now);
        }
        if let Err(fault) = self.context.handle.not_failed().and_then(|()| job.wanted(now)) {
            return job.fail(fault, now);
        }
        let Some(queue) = self.queues.get_mut(&job.item.op) else { return };
        if queue.push(job.item) {
            self.jobs.insert(job.item.id, job);
        }
    }

    /// A request leaves the queue when it is not wanted any more; one that runs is looked after by the runner.
    fn let_go(&mut self, id: ItemId) {
        let now = self.now();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Err(fault) = job.wanted(now) else { return };
        let Some(job) = self.jobs.remove(&id) else { return };
        if let Some(queue) = self.queues.get_mut(&job.item.op) {
            queue.remove(id);
        }
        job.fail(fault, now);
    }

    fn loaded(&mut self) {
        let Err(fault) = self.context.handle.not_failed() else { return };
        self.answer(&fault, |_| true);
    }

    /// New settings hold from the next batch on: `dispatch` comes right after.
    fn retune(&mut self, change: &Retune) {
        let now = self.now();
        if let Some(queue) = self.queues.get_mut(&change.op) {
            match queue.retune(change, now) {
                Ok(moves) => self.tell(change.op, &moves),
                // Checked where it came in: only another change in between could have made it impossible.
                Err(fault) => tracing::warn!(model = %self.context.handle.name, %fault, "settings were not taken"),
            }
        }
        if let Some(depth) = change.depth {
            self.slots = depth.clamp(1, MAX_DEPTH);
        }
    }

    /// Takes over the model's settings if they have changed, or if a drain that was called off had let lanes go.
    fn adopt(&mut self) {
        let undrained = self.drained && !self.context.shared.is_draining();
        if !undrained && !self.context.handle.has_newer(&self.settings) {
            return;
        }
        let (now, settings) = (self.now(), self.context.handle.settings());
        for op in self.queues.keys().copied().collect::<Vec<_>>() {
            let Some(queue) = self.queues.get_mut(&op) else { continue };
            match queue.adopt(&settings, &self.context.handle.device, now) {
                Ok(moves) => self.tell(op, &moves),
                // Checked before it was let in.
                Err(fault) => {
                    tracing::error!(model = %self.context.handle.name, %op, %fault, "settings were not taken")
                }
            }
        }
        self.slots = slots(&settings, &self.context.handle.device);
        self.settings = settings;
        self.drained = false;
        self.dirty = true;
    }

    fn ran(&mut self, report: Report) {
        let now = self.now();
        self.rounds.ran(now);
        let Some(batch) = self.inflight.remove(&report.batch) else { return };
        let Some(queue) = self.queues.get_mut(&batch.op) else { return };
        let (name, lane) = (&self.context.handle.name, batch.formed.lane);
        let metrics = &self.context.shared.metrics;
        metrics.batch_ran(name, batch.op, lane, report.run);
        let (items, cost) = (batch.view.items, batch.formed.cost);
        let windows = (batch.op == Op::Transcribe).then_some(report.windows);
        let ran = Ran { model: name.clone(), op: batch.op, lane, items, windows, cost, run: report.run };
        self.context.shared.recorder.ran(ran, now);
        let moves = queue.ran(&batch, &report, now);
        self.tell(batch.op, &moves);
        for job in report.put_aside {
            self.take_back(job, &batch, now);
        }
        if let Some(queue) = self.queues.get_mut(&batch.op) {
            queue.held_next.retain(|id| batch.formed.items.iter().all(|item| item.id != *id));
        }
        // After what it put aside has come back: a lane is not idle between two slices.
        if let Some(queue) = self.queues.get_mut(&batch.op) {
            queue.former.ran(batch.formed.charge, report.run);
        }
    }

    /// Logs and counts the knobs that were moved.
    fn tell(&self, op: Op, moves: &[CapMove]) {
        let model = &self.context.handle.name;
        for moved in moves.iter().filter(|moved| !moved.cause.holds()) {
            let (knob, cause, from, to) = (moved.knob.name(), moved.cause.name(), moved.from, moved.to);
            match moved.cause {
                MoveCause::OutOfMemory => {
                    tracing::warn!(%model, %op, knob, from, to, "out of memory: the cap is lowered")
                }
                _ => tracing::debug!(%model, %op, knob, from, to, cause, "a cap is moved"),
            }
            self.context.shared.metrics.cap_moved(model, op, knob, cause);
        }
    }

    /// A recording comes back from its slice: the head of its lane again, if it is wanted still.
    fn take_back(&mut self, mut job: Job, batch: &Inflight, now: Micros) {
        if let Err(fault) = job.wanted(now) {
            return job.fail(fault, now);
        }
        let Some((queue, slice)) = self.queues.get_mut(&batch.op).zip(batch.formed.slice) else { return };
        if queue.put_back(slice, &job) {
            self.jobs.insert(job.item.id, job);
        }
    }

    /// Lets go what passed its deadline, and what was cancelled while the channel was full.
    fn housekeep(&mut self) {
        self.adopt();
        let now = self.now();
        if self.sweep.swap(false, Ordering::AcqRel) {
            let ids: Vec<ItemId> = self.jobs.keys().copied().collect();
            ids.into_iter().for_each(|id| self.let_go(id));
            self.dirty = true;
        }
        let expired: Vec<ItemId> =
            self.queues.values_mut().flat_map(|queue| queue.former.expire(now)).map(|item| item.id).collect();
        for id in expired {
            self.let_go(id);
            self.dirty = true;
        }
        if self.context.shared.is_draining() {
            self.drain();
        }
    }

    /// What waits is answered. A recording between two slices is running work: it goes on to its end, and a lane that is
    /// held does not keep it from that.
    fn drain(&mut self) {
        if self.jobs.values().any(|job| !job.has_started()) {
            self.answer(&draining_fault(), |job| !job.has_started());
        }
        self.drained = true;
        for queue in self.queues.values_mut() {
            queue.release_all();
            let rules = *queue.former.rules();
            if rules.paused != Paused::default() {
                queue.former.set_rules(LaneRules { paused: Paused::default(), ..rules });
            }
        }
    }

    /// Forms batches while a slot is free: slot first, extraction second.
    fn dispatch(&mut self) {
        while self.inflight.len() < self.slots && self.ready() {
            if self.context.shared.is_draining() {
                self.drain();
            }
            let now = self.now();
            let Some((op, formed)) = self.next_batch(now) else { return };
            self.dirty = true;
            let queued = formed.items.iter().map(|item| now - item.arrival).max().unwrap_or_default();
            let mut jobs = Vec::with_capacity(formed.items.len());
            for item in &formed.items {
                let Some(mut job) = self.jobs.remove(&item.id) else { continue };
                match job.wanted(now) {
                    Ok(()) => {
                        job.start(now);
                        jobs.push(job);
                    }
                    Err(fault) => job.fail(fault, now),
                }
            }
            let Some(queue) = self.queues.get_mut(&op) else { return };
            let (expected, begins) = queue.taken(&formed, now);
            if jobs.is_empty() {
                queue.former.ran(formed.charge, Micros::ZERO);
                continue;
            }
            self.batches += 1;
            let number = self.batches;
            let name = self.context.handle.name.clone();
            self.context.shared.metrics.batch_formed(&name, op, &formed, begins);
            let windows = formed.slice.map(|slice| slice.windows.get());
            let view = InflightView {
                batch: number,
                lane: formed.lane,
                items: jobs.len(),
                cost: formed.cost,
                windows: windows.map(u64::from),
                turn: formed.turn,
                started: now,
                expected,
            };
            let (lane, charge) = (formed.lane, formed.charge);
            self.inflight.insert(number, Inflight { op, formed, queued, view });
            let windows = windows.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
            // There are as many places as slots, so this neither fills up nor waits. When the runner is gone the jobs
            // come back and end as they are dropped.
            if self.runner.try_send(Batch { number, op, lane, windows, jobs }).is_err() {
                self.inflight.remove(&number);
                queue.former.ran(charge, Micros::ZERO);
                tracing::error!(model = %name, batch = number, "the runner of the model is gone");
                return;
            }
        }
    }

    fn next_batch(&mut self, now: Micros) -> Option<(Op, Formed)> {
        let busy = !self.inflight.is_empty();
        let mut formers: Vec<(Op, &mut Former)> =
            self.queues.iter_mut().map(|(op, queue)| (*op, &mut queue.former)).collect();
        self.rounds.next(&mut formers, now, busy, usize::MAX)
    }

    /// Answers the waiting requests that `which` says with `fault`.
    fn answer(&mut self, fault: &Fault, which: impl Fn(&Job) -> bool) {
        let now = self.now();
        let ids: Vec<ItemId> = self.jobs.iter().filter(|(_, job)| which(job)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(job) = self.jobs.remove(&id) else { continue };
            if let Some(queue) = self.queues.get_mut(&job.item.op) {
                queue.remove(id);
            }
            job.fail(fault.clone(), now);
        }
        self.rounds.forget_backlog();
        self.dirty = true;
    }

    /// Estimates when what waits will start, and tells each request that has no estimate yet.
    fn look_ahead(&mut self, now: Micros) {
        if now < self.look_ahead_at {
            return;
        }
        let (inflight, jobs) = (&self.inflight, &mut self.jobs);
        for (op, queue) in &mut self.queues {
            let running: Vec<Inflight> = inflight.values().filter(|batch| batch.op == *op).cloned().collect();
            queue.look_ahead(now, self.slots, &running);
            for (id, starts) in queue.expected() {
                if let Some(job) = jobs.get_mut(id) {
                    job.expect_wait(*starts - job.item.arrival);
                }
            }
        }
        let end = self.now();
        self.look_ahead_at = end + Micros((end - now).0.saturating_mul(LOOK_AHEAD_PART));
    }

    /// Shows what there is, if it has changed and was not shown a moment ago.
    pub fn publish(&mut self) {
        let now = self.now();
        if !self.dirty || (now - self.published < PUBLISH_EVERY && self.published != Micros::ZERO) {
            return;
        }
        self.look_ahead(now);
        let queues = self.queues.iter().map(|(op, queue)| {
            let inflight = self.inflight.values().filter(|b| b.op == *op).map(|b| b.view.clone()).collect();
            queue.view(now, self.slots, inflight)
        });
        self.view.store(Arc::new(WorkerView { queues: queues.collect() }));
        self.published = now;
        self.dirty = false;
    }
}
