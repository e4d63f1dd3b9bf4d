//! The worker as doors see it: admission, cancellation, and what it shows.

use super::job::{Job, Work};
use super::transcribe::Transcription;
use super::view::WorkerView;
use super::{Command, MAX_DEPTH, Retune, dispatcher, runner};
use crate::control::hands::{RequestPlace, Touch};
use crate::control::{ErrorKind, Fault, Op};
use crate::engine::models::{LoadedModel, ModelError};
use crate::engine::runtime::handle::{LoadState, WorkerContext};
use crate::engine::runtime::job::{Caller, EmbedJob, Embedded, RerankJob, Reranked, TranscribeJob, TranscriptEvent};
use crate::engine::runtime::registry::NewRequest;
use crate::engine::runtime::shared::draining_fault;
use crate::engine::runtime::stats::OpStats;
use crate::engine::runtime::{Live, RequestId, Ticket, events};
use crate::engine::scheduler::{Item, ItemId, Micros};
use crate::profile::ModelProfile;
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Events of a transcription that its reader may leave untaken: hours of speech. Beyond it the reader is given up.
const TRANSCRIPT_EVENTS: usize = 16_384;

/// Room in the channel however small the queue is at the start: an operator may raise it.
const LEAST_ROOM: usize = 4_096;

/// Commands that may wait for the dispatcher beside the submissions that the queues admit.
const SPARE_COMMANDS: usize = 256;

/// The door to a batch worker. Its threads end when it is dropped.
pub(in crate::engine::runtime) struct BatchWorker {
    context: WorkerContext,
    ops: BTreeMap<Op, Arc<OpStats>>,
    commands: SyncSender<Command>,
    /// A cancellation found the channel full: look at the flags.
    sweep: Arc<AtomicBool>,
    view: Arc<ArcSwap<WorkerView>>,
}

impl BatchWorker {
    /// Starts the threads; the model is loaded by `load` on the runner's.
    pub fn start(
        context: WorkerContext,
        load: impl FnOnce() -> Result<LoadedModel, ModelError> + Send + 'static,
    ) -> Result<BatchWorker, Fault> {
        let profile = &context.handle.profile;
        let ops: BTreeMap<Op, Arc<OpStats>> =
            profile.ops.iter().filter(|op| **op != Op::Generate).map(|op| (*op, Arc::new(OpStats::new(*op)))).collect();
        let room = queue_room(profile).saturating_mul(ops.len()).saturating_add(SPARE_COMMANDS);
        let (commands, inbox) = sync_channel(room);
        let slots = slots(&context.handle.profile, &context.handle.device);
        let (batches, work) = sync_channel(MAX_DEPTH);
        let sweep = Arc::new(AtomicBool::new(false));
        let view = Arc::new(ArcSwap::from_pointee(WorkerView::default()));
        let mut dispatcher =
            dispatcher::Dispatcher::new(context.clone(), &ops, inbox, batches, slots, sweep.clone(), view.clone())?;
        // Before its thread runs: a snapshot shows the queues from the start.
        dispatcher.publish();
        let name = context.handle.name.clone();
        spawn(format!("{name}: dispatcher"), move || dispatcher.run())?;
        let (runner_context, reports) = (context.clone(), commands.clone());
        spawn(format!("{name}: runner"), move || runner::run(&runner_context, load, &work, &reports))?;
        Ok(BatchWorker { context, ops, commands, sweep, view })
    }

    pub fn transcribe(&self, job: TranscribeJob, caller: Caller) -> Result<Ticket<TranscriptEvent>, Fault> {
        let samples = job.audio.samples.len() as u64;
        let item = Item::transcribe(ItemId(0), samples, Micros::ZERO);
        self.submit(item, caller, TRANSCRIPT_EVENTS, |live| Work::Transcribe(Box::new(Transcription::new(live, job))))
    }

    pub fn embed(&self, job: EmbedJob, caller: Caller) -> Result<Ticket<Embedded>, Fault> {
        let item = Item::embed(ItemId(0), job.sequences.iter().map(Vec::len), Micros::ZERO);
        self.submit(item, caller, 0, |live| Work::Embed(live, job))
    }

    pub fn rerank(&self, job: RerankJob, caller: Caller) -> Result<Ticket<Reranked>, Fault> {
        let documents = job.documents.iter().map(Vec::len);
        let item = Item::rerank(ItemId(0), job.query.len(), documents, Micros::ZERO);
        self.submit(item, caller, 0, |live| Work::Rerank(live, job))
    }

    fn submit<E: Send + 'static>(
        &self,
        item: Item,
        caller: Caller,
        room: usize,
        work: impl FnOnce(Live<E>) -> Work,
    ) -> Result<Ticket<E>, Fault> {
        let (shared, handle) = (&self.context.shared, &self.context.handle);
        let name = &handle.name;
        if shared.is_draining() {
            shared.metrics.refused(name, item.op, "draining");
            return Err(draining_fault());
        }
        handle.not_failed().inspect_err(|_| shared.metrics.refused(name, item.op, "not_ready"))?;
        let stats = self.ops.get(&item.op).ok_or_else(|| {
            Fault::invalid("model", format!("model `{name}` does not serve {}", item.op)).code("unsupported_operation")
        })?;
        handle.work_comes(self.busy(), shared.clock.now());
        if !stats.admit(handle.settings().max_queue) {
            shared.metrics.refused(name, item.op, "queue_full");
            return Err(self.queue_full(item.op));
        }
        let now = shared.clock.now();
        let deadline = shared.deadline(caller.deadline_s, now);
        let (sink, events) = events(room);
        let request =
            NewRequest { model: name.clone(), op: item.op, lane: item.lane, client: caller.client, cost: item.cost };
        let live = Live::open(shared, stats, request, deadline, sink, now);
        let (id, cancel) = (live.id, live.cancel.clone());
        let item = Item { id: ItemId(id.0), arrival: now, deadline, ..item };
        match self.commands.try_send(Command::Submit(Box::new(Job { item, work: work(live) }))) {
            Ok(()) => {}
            // The job comes back and ends as it is dropped here; the caller gets this fault instead.
            Err(TrySendError::Full(_)) => return Err(self.queue_full(item.op)),
            Err(TrySendError::Disconnected(_)) => {
                return Err(Fault::new(ErrorKind::Internal, format!("the worker of model `{name}` has ended")));
            }
        }
        let (commands, sweep) = (self.commands.clone(), self.sweep.clone());
        Ok(Ticket::new(id, events, move || {
            if cancel.cancel() {
                tell(&commands, &sweep, id);
            }
        }))
    }

    /// Tells the dispatcher that a request's flag was set.
    pub fn cancelled(&self, id: RequestId) {
        tell(&self.commands, &self.sweep, id);
    }

    /// Holds, lets go or moves a request; where it was and where it is then, when that is done. A `dry` one is looked at.
    /// Waits for the dispatcher, which runs no model and answers within a moment.
    pub fn touch(&self, id: RequestId, touch: Touch, dry: bool) -> Result<(RequestPlace, RequestPlace), Fault> {
        let name = &self.context.handle.name;
        // One place for the one answer.
        let (answer, done) = sync_channel(1);
        self.commands.try_send(Command::Touch(id, touch, dry, answer)).map_err(|_| {
            let message = format!("the worker of model `{name}` is too busy to look for request {id}");
            Fault::new(ErrorKind::QueueFull, message).retry_after(1)
        })?;
        let gone = |_| Fault::new(ErrorKind::Internal, format!("the worker of model `{name}` has ended"));
        done.recv().map_err(gone)?
    }

    /// Hands new settings to the dispatcher, which wakes for them.
    pub fn retune(&self, change: Retune) -> Result<(), Fault> {
        let name = &self.context.handle.name;
        if !self.ops.contains_key(&change.op) {
            return Err(Fault::invalid("op", format!("model `{name}` does not run {} in batches", change.op)));
        }
        self.commands.try_send(Command::Retune(Box::new(change))).map_err(|_| {
            let message = format!("the worker of model `{name}` is too busy to take new settings");
            Fault::new(ErrorKind::QueueFull, message).retry_after(1)
        })
    }

    /// Says that the model's settings have changed.
    pub fn wake(&self) {
        // A full channel means that the dispatcher is awake: it looks before it forms its next batch.
        let _ = self.commands.try_send(Command::Settings);
    }

    /// Answers what waits and starts nothing more. [`Shared::drain`](crate::engine::runtime::Shared::drain) comes first.
    pub fn drain(&self) {
        // A full channel means that the dispatcher is awake, and it sees the shared flag when it has caught up.
        let _ = self.commands.try_send(Command::Drain);
    }

    pub fn view(&self) -> Arc<WorkerView> {
        self.view.load_full()
    }

    pub fn stats(&self, op: Op) -> Option<&Arc<OpStats>> {
        self.ops.get(&op)
    }

    /// The operation whose queue is full, if one is.
    pub fn full(&self) -> Option<Op> {
        let max = self.context.handle.settings().max_queue;
        self.ops.values().find(|stats| stats.waiting() >= max).map(|stats| stats.op)
    }

    /// Requests that wait or run.
    pub fn busy(&self) -> bool {
        let view = self.view.load();
        self.ops.values().any(|stats| stats.waiting() > 0) || view.queues.iter().any(|q| !q.inflight.is_empty())
    }

    fn queue_full(&self, op: Op) -> Fault {
        let (name, max) = (&self.context.handle.name, self.context.handle.settings().max_queue);
        let view = self.view.load();
        let free_in = view.queues.iter().find_map(|q| q.inflight_left(self.context.shared.clock.now()));
        let seconds = free_in.map_or(1, |left| left.as_secs().ceil().clamp(1.0, 60.0) as u32);
        Fault::new(ErrorKind::QueueFull, format!("the {op} queue of model `{name}` is full: {max} requests wait"))
            .hint("send it again later, or raise the model's max_queue")
            .retry_after(seconds)
    }
}

impl Drop for BatchWorker {
    fn drop(&mut self) {
        // When the channel is full the dispatcher still comes to it: the flag asks for the same.
        self.context.shared.stop();
        let _ = self.commands.try_send(Command::Stop);
    }
}

fn tell(commands: &SyncSender<Command>, sweep: &AtomicBool, id: RequestId) {
    if commands.try_send(Command::Cancel(id)).is_err() {
        sweep.store(true, Ordering::Release);
    }
}

/// Batches that may be with the runner at once, where the profile does not say. On a CPU a second one would only be
/// frozen earlier than it needs to be: nothing overlaps, so what arrives in the meantime should still be able to join. On
/// a GPU the next batch is made ready while one runs.
pub(super) fn slots(profile: &ModelProfile, device: &str) -> usize {
    let by_device = if device == "cpu" { 1 } else { 2 };
    profile.depth.unwrap_or(by_device).clamp(1, MAX_DEPTH)
}

/// Requests per operation that the channel to the dispatcher has room for: what the queues may be raised to.
pub(in crate::engine::runtime) fn queue_room(profile: &ModelProfile) -> usize {
    profile.max_queue.max(LEAST_ROOM)
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let thread = std::thread::Builder::new().name(name.clone()).spawn(run);
    thread.map(drop).map_err(|e| Fault::new(ErrorKind::Internal, format!("could not start thread `{name}`: {e}")))
}

/// A model's state once it is loaded.
pub(super) fn ready(front: crate::engine::models::ModelFront, weights_bytes: u64) -> LoadState {
    LoadState::Ready { front: Arc::new(front), weights_bytes, kv_bytes: None }
}
