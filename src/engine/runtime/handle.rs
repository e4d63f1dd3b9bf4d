//! A served model, as doors see it.

use crate::control::snapshot::ModelState;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::ModelFront;
use crate::profile::{DeviceChoice, ModelProfile};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

use super::shared::Shared;
use crate::engine::scheduler::Micros;

/// Where a model is in its life. Written once or twice by its worker, read by everybody.
#[derive(Clone)]
pub(super) enum LoadState {
    Loading,
    Ready { front: Arc<ModelFront>, weights_bytes: u64, kv_bytes: Option<u64> },
    Failed { why: String },
}

/// A served model, as doors see it.
pub struct ModelHandle {
    /// What it was started with. What may change while it runs is in [`settings`](Self::settings).
    pub profile: ModelProfile,
    settings: ArcSwap<ModelProfile>,
    /// Unix seconds when the engine took it up.
    pub created: u64,
    pub(super) name: Arc<str>,
    /// Id of the device that it runs on.
    pub(super) device: String,
    state: ArcSwap<LoadState>,
    /// How much of loading is done, in thousandths.
    loaded: AtomicU64,
    /// When its worker last advanced by a step, a window or an iteration.
    advanced: AtomicU64,
}

impl ModelHandle {
    pub(super) fn new(profile: ModelProfile, created: u64) -> ModelHandle {
        ModelHandle {
            name: Arc::from(profile.id.as_str()),
            device: device_id(profile.device),
            settings: ArcSwap::from_pointee(profile.clone()),
            profile,
            created,
            state: ArcSwap::from_pointee(LoadState::Loading),
            loaded: AtomicU64::new(0),
            advanced: AtomicU64::new(0),
        }
    }

    /// The profile as it holds now.
    pub fn settings(&self) -> Arc<ModelProfile> {
        self.settings.load_full()
    }

    /// Whether `known` is not what holds now: its owner is to take the new one.
    pub(super) fn has_newer(&self, known: &Arc<ModelProfile>) -> bool {
        !Arc::ptr_eq(&self.settings.load(), known)
    }

    /// New settings; false when they are those that hold. The worker looks at them before its next batch.
    pub(super) fn adopt(&self, settings: &ModelProfile) -> bool {
        let differ = **self.settings.load() != *settings;
        if differ {
            self.settings.store(Arc::new(settings.clone()));
        }
        differ
    }

    /// The shared half; a fault while loading or after a failed load.
    pub fn front(&self) -> Result<Arc<ModelFront>, Fault> {
        match &**self.state.load() {
            LoadState::Ready { front, .. } => Ok(front.clone()),
            LoadState::Loading => {
                let message = format!("model `{}` is still loading", self.profile.id);
                Err(Fault::new(ErrorKind::NotReady, message).hint("see `lanekeeper models`").retry_after(2))
            }
            LoadState::Failed { why } => Err(self.failed(why)),
        }
    }

    /// The fault of a model that could not be loaded; `Ok` while it loads or serves.
    pub(super) fn not_failed(&self) -> Result<(), Fault> {
        match &**self.state.load() {
            LoadState::Failed { why } => Err(self.failed(why)),
            LoadState::Loading | LoadState::Ready { .. } => Ok(()),
        }
    }

    fn failed(&self, why: &str) -> Fault {
        let message = format!("model `{}` could not be loaded: {why}", self.profile.id);
        Fault::new(ErrorKind::NotReady, message).code("model_failed").hint("see the engine's log and restart it")
    }

    pub(super) fn load_state(&self) -> Arc<LoadState> {
        self.state.load_full()
    }

    pub(super) fn set_state(&self, state: LoadState) {
        self.state.store(Arc::new(state));
    }

    pub(super) fn state(&self) -> ModelState {
        match &**self.state.load() {
            LoadState::Loading => {
                ModelState::Loading { done_ratio: self.loaded.load(Ordering::Relaxed) as f64 / 1_000.0 }
            }
            LoadState::Ready { .. } => ModelState::Ready,
            LoadState::Failed { why } => ModelState::Failed { why: why.clone() },
        }
    }

    /// Notes how much of loading is done, 0..=1.
    pub(super) fn loaded_to(&self, ratio: f64) {
        self.loaded.fetch_max((ratio.clamp(0.0, 1.0) * 1_000.0) as u64, Ordering::Relaxed);
    }

    /// Notes that its worker got on.
    pub(super) fn advance(&self, now: Micros) {
        self.advanced.store(now.0, Ordering::Release);
    }

    /// Work is about to be admitted. A worker that had nothing to do has not been stuck for all that time: its clock
    /// starts now.
    pub(super) fn work_comes(&self, busy: bool, now: Micros) {
        if !busy {
            self.advance(now);
        }
    }

    pub(super) fn advanced(&self) -> Micros {
        Micros(self.advanced.load(Ordering::Acquire))
    }
}

/// What a worker gets when it starts.
#[derive(Clone)]
pub(super) struct WorkerContext {
    pub handle: Arc<ModelHandle>,
    pub shared: Arc<Shared>,
    pub device: Arc<super::DeviceSlot>,
    /// How many models are still loading.
    pub loading: watch::Sender<usize>,
}

impl WorkerContext {
    /// Notes that the model is loaded or has failed to load.
    pub fn loaded(&self, state: LoadState) {
        match &state {
            LoadState::Failed { why } => tracing::error!(model = %self.handle.name, why, "model failed to load"),
            _ => tracing::info!(model = %self.handle.name, device = %self.device.id, "model loaded"),
        }
        self.handle.set_state(state);
        self.handle.advance(self.shared.clock.now());
        self.loading.send_modify(|left| *left = left.saturating_sub(1));
    }
}

/// The device that a choice means in this build.
fn device_id(choice: DeviceChoice) -> String {
    match choice {
        DeviceChoice::Auto if cfg!(feature = "cuda") => "cuda:0".to_string(),
        DeviceChoice::Auto if cfg!(feature = "metal") => "metal:0".to_string(),
        DeviceChoice::Auto | DeviceChoice::Cpu => "cpu".to_string(),
        DeviceChoice::Cuda(index) => format!("cuda:{index}"),
        DeviceChoice::Metal(index) => format!("metal:{index}"),
    }
}
