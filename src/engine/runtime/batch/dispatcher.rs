//! The thread that owns the formers: takes requests in, lets them out in batches, and answers those that leave.

use super::job::{Batch, Job};
use super::view::{Estimator, InflightView, LaneRates, QueueView, RecentView, WorkerView};
use super::{Command, Report};
use crate::control::{Lane, Op};
use crate::engine::runtime::clock::duration;
use crate::engine::runtime::handle::{LoadState, WorkerContext};
use crate::engine::runtime::shared::draining_fault;
use crate::engine::runtime::stats::OpStats;
use crate::engine::scheduler::{
    AUDIO_HARD_CAP_MS, BatchCaps, Charge, DEFAULT_MAX_BATCH_COST, FlushReason, Formed, Former, ItemId, Micros, Rounds,
};
use crate::profile::ModelProfile;
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};

/// Commands taken in before batches are formed and the view is published.
const COMMANDS_AT_ONCE: usize = 256;

/// Batches that are remembered per operation.
const RECENT: usize = 32;

/// The view is published at most this often.
const PUBLISH_EVERY: Micros = Micros(2_000);

/// One operation's former, and what is known of its batches.
struct Queue {
    former: Former,
    stats: Arc<OpStats>,
    rates: LaneRates,
    recent: VecDeque<RecentView>,
}

/// A batch with the runner.
struct Inflight {
    op: Op,
    why: FlushReason,
    cap: u64,
    charge: Charge,
    queued: Micros,
    view: InflightView,
}

pub(super) struct Dispatcher {
    context: WorkerContext,
    inbox: Receiver<Command>,
    runner: SyncSender<Batch>,
    slots: usize,
    queues: BTreeMap<Op, Queue>,
    jobs: HashMap<ItemId, Job>,
    inflight: BTreeMap<u64, Inflight>,
    batches: u64,
    rounds: Rounds,
    sweep: Arc<AtomicBool>,
    view: Arc<ArcSwap<WorkerView>>,
    published: Micros,
    dirty: bool,
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
    ) -> Dispatcher {
        let queue = |op: Op, stats: &Arc<OpStats>| Queue {
            former: Former::new(caps(&context.handle.profile, op)),
            stats: stats.clone(),
            rates: LaneRates::default(),
            recent: VecDeque::new(),
        };
        let queues = ops.iter().map(|(op, stats)| (*op, queue(*op, stats))).collect();
        Dispatcher {
            context,
            inbox,
            runner,
            slots,
            queues,
            jobs: HashMap::new(),
            inflight: BTreeMap::new(),
            batches: 0,
            rounds: Rounds::default(),
            sweep,
            view,
            published: Micros::ZERO,
            dirty: true,
        }
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
        self.answer_all_draining();
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
            Command::Ran(report) => self.ran(&report),
            Command::Drain => self.answer_all_draining(),
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
        let inflight_left = self.inflight_left(now);
        let Some(queue) = self.queues.get_mut(&job.item.op) else { return };
        let estimator = Estimator::new(&queue.former, &queue.rates, inflight_left);
        job.expect_wait(estimator.newcomer(job.item.lane));
        if queue.former.push(job.item) {
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
            queue.former.remove(id);
        }
        job.fail(fault, now);
    }

    fn loaded(&mut self) {
        let Err(fault) = self.context.handle.not_failed() else { return };
        self.answer_all(&fault);
    }

    fn ran(&mut self, report: &Report) {
        let now = self.now();
        self.rounds.ran(now);
        let Some(batch) = self.inflight.remove(&report.batch) else { return };
        let Some(queue) = self.queues.get_mut(&batch.op) else { return };
        let InflightView { lane, cost, items, .. } = batch.view;
        queue.former.ran(batch.charge, report.run);
        queue.rates.lane(lane).observe(cost, report.run);
        queue.stats.batches.fetch_add(1, Ordering::Relaxed);
        queue.stats.run_us.fetch_add(report.run.0, Ordering::Relaxed);
        self.context.shared.metrics.batch_ran(&self.context.handle.name, batch.op, lane, report.run);
        if queue.recent.len() == RECENT {
            queue.recent.pop_front();
        }
        queue.recent.push_back(RecentView {
            batch: report.batch,
            lane,
            why: batch.why,
            items,
            cost,
            cap: batch.cap,
            queued: batch.queued,
            run: report.run,
            outcome: report.outcome,
            ended: now,
        });
    }

    /// Lets go what passed its deadline, and what was cancelled while the channel was full.
    fn housekeep(&mut self) {
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
        if self.context.shared.is_draining() && !self.jobs.is_empty() {
            self.answer_all_draining();
        }
    }

    /// Forms batches while a slot is free: slot first, extraction second.
    fn dispatch(&mut self) {
        while self.inflight.len() < self.slots && self.ready() && !self.context.shared.is_draining() {
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
            if jobs.is_empty() {
                if let Some(queue) = self.queues.get_mut(&op) {
                    queue.former.ran(formed.charge, Micros::ZERO);
                }
                continue;
            }
            self.batches += 1;
            let number = self.batches;
            let name = self.context.handle.name.clone();
            self.context.shared.metrics.batch_formed(&name, op, &formed);
            let expected = self.queues.get_mut(&op).and_then(|q| q.rates.lane(formed.lane).estimate(formed.cost));
            let view = InflightView {
                batch: number,
                lane: formed.lane,
                items: jobs.len(),
                cost: formed.cost,
                started: now,
                expected,
            };
            self.inflight
                .insert(number, Inflight { op, why: formed.why, cap: formed.cap, charge: formed.charge, queued, view });
            // There are as many places as slots, so this neither fills up nor waits. When the runner is gone the jobs
            // come back and end as they are dropped.
            if self.runner.try_send(Batch { number, op, lane: formed.lane, jobs }).is_err() {
                self.inflight.remove(&number);
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

    fn answer_all_draining(&mut self) {
        self.answer_all(&draining_fault());
    }

    fn answer_all(&mut self, fault: &crate::control::Fault) {
        let now = self.now();
        for (id, job) in self.jobs.drain() {
            if let Some(queue) = self.queues.get_mut(&job.item.op) {
                queue.former.remove(id);
            }
            job.fail(fault.clone(), now);
        }
        self.rounds.forget_backlog();
        self.dirty = true;
    }

    /// Time until the batches with the runner end; `None` when it cannot be told.
    fn inflight_left(&self, now: Micros) -> Option<Micros> {
        self.inflight.values().try_fold(Micros::ZERO, |sum, batch| {
            batch.view.expected.map(|expected| sum + (expected - (now - batch.view.started)))
        })
    }

    /// Shows what there is, if it has changed and was not shown a moment ago.
    pub fn publish(&mut self) {
        let now = self.now();
        if !self.dirty || (now - self.published < PUBLISH_EVERY && self.published != Micros::ZERO) {
            return;
        }
        let inflight_left = self.inflight_left(now);
        let source = if self.context.handle.profile.max_batch_tokens.is_some() { "profile" } else { "default" };
        let queues = self.queues.iter().map(|(op, queue)| {
            let estimator = Estimator::new(&queue.former, &queue.rates, inflight_left);
            QueueView {
                op: *op,
                caps: *queue.former.caps(),
                caps_source: source,
                depth: self.slots,
                clips: queue.former.lane(Lane::Clips),
                recordings: queue.former.lane(Lane::Recordings),
                preview: queue.former.preview(now),
                inflight: self.inflight.values().filter(|b| b.op == *op).map(|b| b.view.clone()).collect(),
                recent: queue.recent.iter().cloned().collect(),
                waiting: estimator.all(queue.former.explain_all(now)),
            }
        });
        self.view.store(Arc::new(WorkerView { queues: queues.collect() }));
        self.published = now;
        self.dirty = false;
    }
}

/// What bounds the batches of an operation, by its model's profile.
fn caps(profile: &ModelProfile, op: Op) -> BatchCaps {
    BatchCaps {
        max_cost: profile.max_batch_tokens.unwrap_or(DEFAULT_MAX_BATCH_COST),
        hard_cost: (op == Op::Transcribe).then_some(AUDIO_HARD_CAP_MS),
        max_requests: profile.max_batch_requests,
        wait: Micros::from_ms(profile.wait_ms),
        coalesce: Micros::from_ms(profile.coalesce_ms),
        ..BatchCaps::default()
    }
}
