//! The handle that doors hold.

use super::batch::{BatchWorker, Retune};
use super::clock::unix_ms;
use super::generation::{GenerationWorker, Load};
use super::handle::{ModelHandle, WorkerContext};
use super::host::HostFacts;
use super::job::{
    Caller, EmbedJob, Embedded, GenerateJob, GenerationEvent, RerankJob, Reranked, TranscribeJob, TranscriptEvent,
};
use super::lookout::Lookout;
use super::receipts::Receipts;
use super::recorder::Recording;
use super::settings::{Leases, Settings, guard_is_sound};
use super::shared::Shared;
use super::snapshot::Snapshots;
use super::ticket::Ticket;
use super::{CommitFeed, DeviceSlot, probe};
use crate::control::{ChangeAnswer, ChangeRequest, ErrorKind, Fault, Op, Snapshot};
use crate::engine::models::{self, LoadedModel, ModelError};
use crate::engine::scheduler::Micros;
use crate::profile::{BoxProfile, FileRole, GenerationSettings, Limits, ModelProfile};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// The files of each model, by id, as `pull` left them.
pub type ModelFiles = BTreeMap<String, BTreeMap<FileRole, PathBuf>>;

/// Turns a model's files into a loaded model, on the thread that will run it, and says how much of it is done. Tests pass
/// their own.
pub type Loader = Arc<
    dyn Fn(&ModelProfile, &BTreeMap<FileRole, PathBuf>, &mut dyn FnMut(f64)) -> Result<LoadedModel, ModelError>
        + Send
        + Sync,
>;

/// Told what is to be logged; absent = as the process was told at its start.
pub type LogSwitch = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// A model's worker.
pub(super) enum Worker {
    Batch(BatchWorker),
    Generation(GenerationWorker),
}

/// What all clones of an [`Engine`] share.
pub(super) struct Core {
    pub profile: BoxProfile,
    pub shared: Arc<Shared>,
    /// In profile order, as [`workers`](Self::workers).
    pub models: Vec<Arc<ModelHandle>>,
    pub workers: Vec<Worker>,
    pub devices: Vec<Arc<DeviceSlot>>,
    /// Threads that model work on the CPU may use.
    pub threads: u32,
    pub host: HostFacts,
    loading: watch::Receiver<usize>,
    pub snapshots: Snapshots,
    /// Set once, where somebody operates the engine.
    operated: OnceLock<Operated>,
    /// Set once, at the start.
    lookout: OnceLock<Lookout>,
}

/// The live settings, and the thread that ends leases.
pub(super) struct Operated {
    pub settings: Settings,
    log: LogSwitch,
    leases: Leases,
}

impl Core {
    /// Hands settings to their owners, which take them between two batches. Cannot fail: they were checked before.
    fn adopt(&self, profile: &BoxProfile) {
        self.shared.set_limits(profile.limits);
        self.shared.close(profile.draining);
        self.shared.retain(profile.retention);
        if let Some(operated) = self.operated.get() {
            (operated.log)(profile.log_level.as_deref());
        }
        for (handle, worker) in self.models.iter().zip(&self.workers) {
            let Some(model) = profile.models.iter().find(|model| model.id == handle.profile.id) else { continue };
            if handle.adopt(model)
                && let Some(device) = self.device(&handle.device)
            {
                device.weigh(&handle.name, model.device_weight);
            }
            // All are woken: a drain is no setting of a model's own.
            match worker {
                Worker::Batch(worker) => worker.wake(),
                Worker::Generation(worker) => worker.wake(),
            }
        }
    }

    /// Does with the settings what is due: leases, guards, effects. Gives the time until the next.
    fn keep(&self, settings: &Settings) -> Option<Duration> {
        let adopt = |profile: &BoxProfile| self.adopt(profile);
        let revision = settings.published().revision;
        let lease = settings.expire(&adopt);
        let hold = settings.let_go_due(&|id, touch, dry| self.touch(id.parse()?, touch, dry));
        let guard = settings.guard(&|| self.snapshots.get(self), &adopt);
        let Shared { recorder, registry, clock, .. } = &*self.shared;
        let effect = settings.measure(recorder, registry, clock.now());
        if settings.published().revision != revision {
            self.snapshots.outdate();
        }
        [lease, hold, guard, effect].into_iter().flatten().min()
    }

    pub fn settings(&self) -> Option<&Settings> {
        self.operated.get().map(|operated| &operated.settings)
    }

    /// Looks whether every lane gets on.
    pub fn look(&self) {
        self.snapshots.get(self);
    }

    /// What is stuck now, in words.
    pub fn stuck(&self) -> Vec<String> {
        self.snapshots.get(self).progress.iter().filter_map(|lane| lane.why.clone()).collect()
    }

    pub fn device(&self, id: &str) -> Option<&Arc<DeviceSlot>> {
        self.devices.iter().find(|slot| slot.id == id)
    }
}

/// A running engine. Cheap to clone; its workers end when the last clone is dropped.
#[derive(Clone)]
pub struct Engine {
    pub(super) core: Arc<Core>,
}

impl Engine {
    /// Starts workers for every model of the box; models load in their threads, the snapshot shows their progress.
    pub fn start(profile: BoxProfile, files: ModelFiles) -> Result<Engine, Fault> {
        models::set_cpu_threads(threads(&profile));
        Engine::launch(profile, files, Arc::new(models::load_telling), models::describe_device)
    }

    /// As [`start`](Self::start), with another way to load models.
    pub fn start_with(profile: BoxProfile, files: ModelFiles, loader: Loader) -> Result<Engine, Fault> {
        Engine::launch(profile, files, loader, str::to_string)
    }

    fn launch(
        profile: BoxProfile,
        files: ModelFiles,
        loader: Loader,
        describe: fn(&str) -> String,
    ) -> Result<Engine, Fault> {
        let mut shared = Shared::new(profile.limits);
        if let Some(path) = &profile.receipts_file {
            let opened = Receipts::open(path).map_err(|e| {
                Fault::new(ErrorKind::Internal, format!("cannot open the file of receipts `{}`: {e}", path.display()))
                    .hint("set receipts.file to a path that can be written")
            });
            shared.receipts = Some(opened?);
        }
        let shared = Arc::new(shared);
        let created = unix_ms() / 1_000;
        let models: Vec<Arc<ModelHandle>> =
            profile.models.iter().map(|model| Arc::new(ModelHandle::new(model.clone(), created))).collect();
        let mut devices: Vec<Arc<DeviceSlot>> = Vec::new();
        let (loading_tx, loading) = watch::channel(models.len());
        let mut workers = Vec::with_capacity(models.len());
        for handle in &models {
            let device = match devices.iter().find(|slot| slot.id == handle.device) {
                Some(slot) => slot.clone(),
                None => {
                    devices.push(Arc::new(device_slot(&handle.device, describe(&handle.device), threads(&profile))));
                    devices[devices.len() - 1].clone()
                }
            };
            device.weigh(&handle.name, handle.profile.device_weight);
            let context =
                WorkerContext { handle: handle.clone(), shared: shared.clone(), device, loading: loading_tx.clone() };
            let model_files = files.get(&handle.profile.id).cloned().unwrap_or_default();
            let (loader, loading) = (loader.clone(), handle.clone());
            let generates = handle.profile.ops.contains(&Op::Generate);
            let draft = draft_of(&handle.profile).map(|draft| -> (String, Load) {
                let files = files.get(&handle.profile.draft_files()).cloned().unwrap_or_default();
                let loader = loader.clone();
                (draft.id.clone(), Box::new(move || loader(&draft, &files, &mut |_| {})))
            });
            let load = move || loader(&loading.profile, &model_files, &mut |done| loading.loaded_to(done));
            workers.push(if generates {
                Worker::Generation(GenerationWorker::start(context, load, draft)?)
            } else {
                Worker::Batch(BatchWorker::start(context, load)?)
            });
        }
        let core = Core {
            threads: u32::try_from(threads(&profile)).unwrap_or(u32::MAX),
            profile,
            shared,
            models,
            workers,
            devices,
            host: HostFacts::default(),
            loading,
            snapshots: Snapshots::default(),
            operated: OnceLock::new(),
            lookout: OnceLock::new(),
        };
        core.shared.close(core.profile.draining);
        core.shared.retain(core.profile.retention);
        let core = Arc::new(core);
        // Set here alone.
        let _ = core.lookout.set(Lookout::start(Arc::downgrade(&core))?);
        Ok(Engine { core })
    }

    /// What it was started with.
    pub fn profile(&self) -> &BoxProfile {
        &self.core.profile
    }

    /// The limits as they hold now.
    pub fn limits(&self) -> Arc<Limits> {
        self.core.shared.limits()
    }

    /// Served models in profile order.
    pub fn models(&self) -> &[Arc<ModelHandle>] {
        &self.core.models
    }

    /// The model `id`, if it serves `op`. Unknown ids are [`NotFound`](crate::control::ErrorKind::NotFound) and name
    /// the served ones; a model without the operation is an invalid request that names those that have it.
    pub fn model_for(&self, id: &str, op: Op) -> Result<Arc<ModelHandle>, Fault> {
        self.find(id, op).map(|index| self.core.models[index].clone())
    }

    fn find(&self, id: &str, op: Op) -> Result<usize, Fault> {
        let models = &self.core.models;
        let quoted = |handles: Vec<&Arc<ModelHandle>>| {
            let names: Vec<String> = handles.iter().map(|h| format!("`{}`", h.profile.id)).collect();
            if names.is_empty() { "none".to_string() } else { names.join(", ") }
        };
        let Some(index) = models.iter().position(|handle| handle.profile.id == id) else {
            let served = quoted(models.iter().collect());
            // A name of any length may come in; the answer quotes its beginning.
            let shown: String =
                if id.chars().count() > 64 { id.chars().take(64).chain(['…']).collect() } else { id.into() };
            return Err(Fault::new(ErrorKind::NotFound, format!("there is no model `{shown}` here; served: {served}"))
                .param("model")
                .code("model_not_found"));
        };
        if !models[index].profile.ops.contains(&op) {
            let able = quoted(models.iter().filter(|handle| handle.profile.ops.contains(&op)).collect());
            let message = format!("model `{id}` does not serve {op}; these do: {able}");
            return Err(Fault::invalid("model", message).code("unsupported_operation"));
        }
        Ok(index)
    }

    /// Resolves when every model is ready or has failed.
    pub async fn loaded(&self) {
        // The senders live in the workers, which this engine keeps; should they go, nothing is loading any more.
        let _ = self.core.loading.clone().wait_for(|left| *left == 0).await;
    }

    pub fn transcribe(
        &self,
        model: &str,
        job: TranscribeJob,
        caller: Caller,
    ) -> Result<Ticket<TranscriptEvent>, Fault> {
        self.batch(model, Op::Transcribe)?.transcribe(job, caller)
    }

    pub fn embed(&self, model: &str, job: EmbedJob, caller: Caller) -> Result<Ticket<Embedded>, Fault> {
        self.batch(model, Op::Embed)?.embed(job, caller)
    }

    pub fn rerank(&self, model: &str, job: RerankJob, caller: Caller) -> Result<Ticket<Reranked>, Fault> {
        self.batch(model, Op::Rerank)?.rerank(job, caller)
    }

    pub fn generate(&self, model: &str, job: GenerateJob, caller: Caller) -> Result<Ticket<GenerationEvent>, Fault> {
        match &self.core.workers[self.find(model, Op::Generate)?] {
            Worker::Generation(worker) => worker.generate(job, caller),
            Worker::Batch(_) => Err(Fault::invalid("model", format!("model `{model}` does not generate"))),
        }
    }

    fn batch(&self, model: &str, op: Op) -> Result<&BatchWorker, Fault> {
        match &self.core.workers[self.find(model, op)?] {
            Worker::Batch(worker) => Ok(worker),
            Worker::Generation(_) => Err(Fault::invalid("model", format!("model `{model}` serves generation alone"))),
        }
    }

    /// Lets operators change `settings`, whose profile this engine was started with. Once, when its doors are open.
    pub fn operate(&self, settings: Settings, log: LogSwitch) -> Result<(), Fault> {
        settings.begin();
        let core = Arc::downgrade(&self.core);
        let leases = Leases::start(move || {
            let core = core.upgrade()?;
            // Not there yet when the thread is quick; then there is no lease yet either.
            Some(core.settings().and_then(|settings| core.keep(settings)))
        })?;
        if self.core.operated.set(Operated { settings, log, leases }).is_err() {
            return Err(Fault::new(ErrorKind::Internal, "the engine is operated already"));
        }
        Ok(())
    }

    /// The live settings; a fault where nobody operates this engine.
    pub fn settings(&self) -> Result<&Settings, Fault> {
        self.core.settings().ok_or_else(|| {
            Fault::new(ErrorKind::Forbidden, "the settings of this engine cannot be changed while it runs")
                .code("read_only")
                .hint("`lanekeeper serve` starts one that can be operated")
        })
    }

    /// Changes live settings for `actor`: all that is asked for or nothing. Waits for the disk.
    pub fn change(&self, request: &ChangeRequest, actor: &str) -> Result<ChangeAnswer, Fault> {
        let settings = self.settings()?;
        if let Some(guard) = &request.guard {
            guard_is_sound(guard, &self.snapshot())?;
        }
        let touch = |id: &str, touch, dry| self.core.touch(id.parse()?, touch, dry);
        let answer = match settings.take_back(request, actor, &touch)? {
            Some(answer) => answer,
            None => settings.change(request, actor, &|profile| self.core.adopt(profile))?,
        };
        self.changed();
        Ok(answer)
    }

    /// Something of what operators change is another: snapshots show it, and what ends by itself may end sooner.
    pub(super) fn changed(&self) {
        self.core.snapshots.outdate();
        if let Some(operated) = self.core.operated.get() {
            operated.leases.wake();
        }
    }

    /// Changes what bounds a model's batches from the next one on.
    pub fn retune(&self, model: &str, change: Retune) -> Result<(), Fault> {
        self.batch(model, change.op)?.retune(change)
    }

    /// The newest snapshot; taken afresh, with its own sequence number, at most every few milliseconds.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.core.snapshots.get(&self.core)
    }

    /// Resolves when no request lives.
    pub async fn idle(&self) {
        // The sender lives in the registry, which this engine keeps.
        let _ = self.core.shared.registry.live().wait_for(|live| *live == 0).await;
    }

    /// Progress of generations from now on.
    pub fn observe_commits(&self) -> CommitFeed {
        self.core.shared.commits.observe()
    }

    /// What arrived in the last `span` (less where the engine is younger), of one model or of all: the span told and what
    /// is in it.
    pub fn arrivals(&self, span: Micros, model: Option<&str>) -> (Micros, Recording) {
        let shared = &self.core.shared;
        let now = shared.clock.now();
        let from = now - span;
        let live = shared.registry.all();
        (now - from, shared.recorder.since(from, now, model, &live))
    }

    /// Whether new work is refused because the process ends or an operator says so.
    pub fn is_draining(&self) -> bool {
        self.core.shared.is_draining()
    }

    /// Whether new work can be admitted now; the reasons when not (loading, draining, full queues).
    pub fn readiness(&self) -> Result<(), Vec<String>> {
        probe::readiness(&self.core)
    }

    /// Whether every lane gets on or has nothing to do; the stuck ones when not, with model, lane, request and since when.
    pub fn progress(&self) -> Result<(), Vec<String>> {
        probe::progress(&self.core)
    }

    /// Prometheus text of the engine's metrics.
    pub fn metrics(&self) -> String {
        self.core.shared.metrics.text(&self.snapshot())
    }

    /// Stops admission: running work ends, queued requests get a draining fault. Resolves when idle or after the
    /// profile's drain limit.
    pub async fn drain(&self) {
        self.core.shared.drain();
        for worker in &self.core.workers {
            match worker {
                Worker::Batch(worker) => worker.drain(),
                // Each iteration looks at the shared flag.
                Worker::Generation(_) => {}
            }
        }
        let mut live = self.core.shared.registry.live();
        let limit = Duration::try_from_secs_f64(self.core.shared.limits().drain_s).unwrap_or(Duration::MAX);
        if tokio::time::timeout(limit, live.wait_for(|live| *live == 0)).await.is_err() {
            let left = *live.borrow();
            tracing::warn!(left, limit_s = limit.as_secs_f64(), "the drain limit passed with requests still running");
        }
    }
}

/// There is no such request, or there is none any more.
pub fn not_alive(id: impl std::fmt::Display) -> Fault {
    Fault::new(ErrorKind::NotFound, format!("no request {id} is waiting or running"))
        .param("id")
        .hint("it may have ended: `lanekeeper requests` shows the last ones")
}

/// The model that drafts for a model, sized for its sequences and on its device.
fn draft_of(profile: &ModelProfile) -> Option<ModelProfile> {
    let (draft, main) = (profile.draft.as_deref()?, profile.generation?);
    let own = draft.generation?;
    let generation = GenerationSettings { slots: main.slots, context_tokens: main.context_tokens, ..own };
    Some(ModelProfile { generation: Some(generation), draft_head: None, device: profile.device, ..draft.clone() })
}

/// Threads that model work on the CPU may use: as the box says, else the cores this process may use.
fn threads(profile: &BoxProfile) -> usize {
    profile.cpu_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

fn device_slot(id: &str, description: String, threads: usize) -> DeviceSlot {
    DeviceSlot::with_places(id, if id == "cpu" { threads } else { 1 }).described(description)
}
