//! The worker as doors see it: checks, admission, cancellation, and what it shows.

use super::draft::DraftSource;
use super::sequence::Sequence;
use super::speculation::Speculation;
use super::thread::{self, Load};
use super::view::GenerationView;
use crate::control::hands::{RequestPlace, Touch};
use crate::control::{ErrorKind, Fault, Lane, Op, WaitCode};
use crate::engine::models::{LmFront, LoadedModel, ModelError, ModelFront};
use crate::engine::runtime::handle::WorkerContext;
use crate::engine::runtime::job::{Caller, GenerateJob, GenerationEvent};
use crate::engine::runtime::registry::{NewRequest, Record};
use crate::engine::runtime::shared::draining_fault;
use crate::engine::runtime::stats::OpStats;
use crate::engine::runtime::{Live, Ticket, events};
use crate::profile::GenerationSettings;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Events that a reader may leave untaken. Beyond it the reader is given up, as after the stall limit.
const EVENTS: usize = 4_096;

/// Room in the channel however short the queue is at the start: an operator may lengthen it.
const LEAST_ROOM: usize = 4_096;

/// What the thread is told.
pub(super) enum Message {
    Submit(Box<Sequence>),
    /// The model's settings have changed: look at them.
    Settings,
}

/// Requests that the channel to the thread has room for: what the queue may be raised to.
pub(in crate::engine::runtime) fn queue_room(settings: &GenerationSettings) -> usize {
    settings.queue.max(LEAST_ROOM)
}

/// The door to a generation worker. Its thread ends when it is dropped.
pub(in crate::engine::runtime) struct GenerationWorker {
    context: WorkerContext,
    settings: GenerationSettings,
    stats: Arc<OpStats>,
    submissions: SyncSender<Message>,
    view: Arc<ArcSwap<GenerationView>>,
}

impl GenerationWorker {
    /// Starts the thread; the model is loaded by `load` on it, and the one that drafts for it, by name, by `load_draft`.
    pub fn start(
        context: WorkerContext,
        load: impl FnOnce() -> Result<LoadedModel, ModelError> + Send + 'static,
        load_draft: Option<(String, Load)>,
    ) -> Result<GenerationWorker, Fault> {
        let name = &context.handle.name;
        // Without settings the start below refuses.
        let settings = context.handle.profile.generation.map(|g| g.speculation).unwrap_or_default();
        let drafter = Speculation::new(name, settings, context.shared.metrics.speculation(name));
        GenerationWorker::start_with(context.clone(), Box::new(drafter), load, load_draft)
    }

    /// The same, with somebody who proposes tokens.
    pub(super) fn start_with(
        context: WorkerContext,
        drafter: Box<dyn DraftSource>,
        load: impl FnOnce() -> Result<LoadedModel, ModelError> + Send + 'static,
        load_draft: Option<(String, Load)>,
    ) -> Result<GenerationWorker, Fault> {
        let name = context.handle.name.clone();
        let settings = context.handle.profile.generation.ok_or_else(|| {
            Fault::new(ErrorKind::Internal, format!("model `{name}` generates, but its profile has no `generation`"))
        })?;
        let stats = Arc::new(OpStats::new(Op::Generate));
        let (submissions, inbox) = sync_channel(queue_room(&settings));
        let view = Arc::new(ArcSwap::from_pointee(GenerationView {
            slots: settings.slots,
            kv_capacity: settings.kv_tokens,
            ..GenerationView::default()
        }));
        let parts = (context.clone(), stats.clone(), view.clone());
        let loads = thread::Loads { model: Box::new(load), draft: load_draft };
        let run = move || thread::run(parts.0, settings, &parts.1, &parts.2, &inbox, drafter, loads);
        let spawned = std::thread::Builder::new().name(format!("{name}: generation")).spawn(run);
        spawned.map_err(|e| Fault::new(ErrorKind::Internal, format!("could not start a thread for `{name}`: {e}")))?;
        Ok(GenerationWorker { context, settings, stats, submissions, view })
    }

    /// Checks a request and lets it into the queue.
    pub fn generate(&self, job: GenerateJob, caller: Caller) -> Result<Ticket<GenerationEvent>, Fault> {
        let (shared, handle) = (&self.context.shared, &self.context.handle);
        let name = &handle.name;
        if shared.is_draining() {
            shared.metrics.refused(name, Op::Generate, "draining");
            return Err(draining_fault());
        }
        let front = handle.front().inspect_err(|_| shared.metrics.refused(name, Op::Generate, "not_ready"))?;
        let ModelFront::Lm(front) = &*front else {
            return Err(Fault::invalid("model", format!("model `{name}` does not generate")));
        };
        let max = self.max_queue();
        let limit = check(&job, front, &self.settings, name)?;
        handle.work_comes(self.busy(), shared.clock.now());
        if !self.stats.admit(max) {
            shared.metrics.refused(name, Op::Generate, "queue_full");
            return Err(self.queue_full());
        }
        let now = shared.clock.now();
        let deadline = shared.deadline(caller.deadline_s, now);
        let (sink, events) = events(EVENTS);
        let request = NewRequest {
            model: name.clone(),
            op: Op::Generate,
            lane: Lane::Clips,
            client: caller.client,
            cost: (job.prompt.len() + job.max_tokens.min(limit)) as u64,
        };
        let live = Live::open(shared, &self.stats, request, deadline, sink, now);
        let (id, cancel) = (live.id, live.cancel.clone());
        match self.submissions.try_send(Message::Submit(Box::new(Sequence::new(live, job, limit)))) {
            Ok(()) => {}
            // The request comes back and ends as it is dropped here; the caller gets this fault instead.
            Err(TrySendError::Full(_)) => return Err(self.queue_full()),
            Err(TrySendError::Disconnected(_)) => {
                return Err(Fault::new(ErrorKind::Internal, format!("the worker of model `{name}` has ended")));
            }
        }
        // The flag is enough: while this request is in the engine, iterations go on and look at it.
        Ok(Ticket::new(id, events, move || {
            cancel.cancel();
        }))
    }

    /// Holds a request back from its slot, or lets it go; where it was and where it is then. A `dry` one is looked at.
    pub fn touch(&self, record: &Record, touch: Touch, dry: bool) -> Result<(RequestPlace, RequestPlace), Fault> {
        let id = record.id;
        let from = RequestPlace { lane: None, held: record.hold.is_held(), cancelled: false };
        if touch.lane.is_some() {
            return Err(Fault::invalid("lane", format!("request {id} cannot go to a lane: generations have none")));
        }
        let may = match (touch.held, dry) {
            (Some(true), _) if record.started.is_some() => false,
            (Some(true), false) => record.hold.hold(),
            (Some(false), false) => {
                record.hold.release();
                true
            }
            (_, true) | (None, _) => true,
        };
        if !may {
            return Err(Fault::invalid("held", format!("request {id} runs: it can't be held any more"))
                .hint(format!("`lanekeeper cancel {id}` ends it")));
        }
        if touch.held.is_some() && !dry {
            // A full channel means that the thread is awake: it looks before its next iteration.
            let _ = self.submissions.try_send(Message::Settings);
        }
        Ok((from, from.after(touch)))
    }

    /// Why a request waits that the thread has not looked at yet.
    pub fn arriving(&self, cost: u64, device_busy: bool) -> WaitCode {
        self.view.load().arriving(cost, self.settings.kv_reserve, device_busy)
    }

    pub fn view(&self) -> Arc<GenerationView> {
        self.view.load_full()
    }

    pub fn stats(&self) -> &OpStats {
        &self.stats
    }

    /// Requests that may wait.
    pub fn max_queue(&self) -> usize {
        self.context.handle.settings().generation.map_or(1, |g| g.queue.max(1))
    }

    /// Says that the model's settings have changed.
    pub fn wake(&self) {
        // A full channel means that the thread is awake: it looks before its next iteration.
        let _ = self.submissions.try_send(Message::Settings);
    }

    /// Whether the queue is full.
    pub fn full(&self) -> bool {
        self.stats.waiting() >= self.max_queue()
    }

    /// Whether requests wait or run.
    pub fn busy(&self) -> bool {
        self.stats.waiting() > 0 || !self.view.load().active.is_empty()
    }

    fn queue_full(&self) -> Fault {
        let (name, max) = (&self.context.handle.name, self.max_queue());
        let seconds = self.view.load().free_in_ms().map_or(1, |ms| (ms / 1_000.0).ceil().clamp(1.0, 60.0) as u32);
        Fault::new(ErrorKind::QueueFull, format!("the generate queue of model `{name}` is full: {max} requests wait"))
            .hint("send it again later, or raise generation.queue")
            .retry_after(seconds)
    }
}

/// Refuses what can never be served; gives the longest answer that context and pool allow.
fn check(job: &GenerateJob, front: &LmFront, settings: &GenerationSettings, model: &str) -> Result<usize, Fault> {
    let prompt = job.prompt.len();
    if prompt == 0 {
        return Err(Fault::invalid("prompt", "the prompt has no tokens"));
    }
    if let Some(id) = job.prompt.iter().find(|id| **id as usize >= front.config.vocab) {
        let message = format!("token id {id} is not below the vocabulary of {}", front.config.vocab);
        return Err(Fault::invalid("prompt", message));
    }
    let too_long = |message: String, hint: &str| Fault::new(ErrorKind::TooLong, message).param("prompt").hint(hint);
    let context = settings.context_tokens.min(front.config.context);
    if prompt >= context {
        let message = format!("the prompt has {prompt} tokens; model `{model}` takes {context} with its answer");
        return Err(too_long(message, "shorten the prompt"));
    }
    let (pool, start) = (settings.kv_tokens, prompt + job.max_tokens.min(settings.kv_reserve).max(1));
    if start > pool {
        let message = format!(
            "the prompt has {prompt} tokens and needs {start} of the KV pool to start; that of model `{model}` holds \
             {pool} (generation.kv_tokens)"
        );
        return Err(too_long(message, "shorten the prompt or the answer, or raise the pool"));
    }
    Ok(context.min(pool) - prompt)
}
