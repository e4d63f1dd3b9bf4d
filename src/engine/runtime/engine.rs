//! The handle that doors hold.

use super::job::{
    Caller, EmbedJob, Embedded, GenerateJob, GenerationEvent, RerankJob, Reranked, TranscribeJob, TranscriptEvent,
};
use super::ticket::{RequestId, Ticket};
use crate::control::{Fault, Op, Snapshot};
use crate::engine::models::ModelFront;
use crate::profile::{BoxProfile, FileRole, ModelProfile};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A served model, as doors see it.
pub struct ModelHandle {
    pub profile: ModelProfile,
    /// Unix seconds when it was loaded.
    pub created: u64,
}

impl ModelHandle {
    /// The shared half; a fault while loading or after a failed load.
    pub fn front(&self) -> Result<Arc<ModelFront>, Fault> {
        todo!("runtime helper")
    }
}

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {}

/// The files of each model, by id, as `pull` left them.
pub type ModelFiles = BTreeMap<String, BTreeMap<FileRole, PathBuf>>;

impl Engine {
    /// Starts workers for every model of the box; models load in their threads, the snapshot shows their progress.
    pub fn start(profile: BoxProfile, files: ModelFiles) -> Result<Engine, Fault> {
        let _ = (profile, files);
        todo!("runtime helper")
    }

    pub fn profile(&self) -> &BoxProfile {
        todo!("runtime helper")
    }

    /// Served models in profile order.
    pub fn models(&self) -> &[Arc<ModelHandle>] {
        todo!("runtime helper")
    }

    /// The model `id`, if it serves `op`. Unknown ids are [`NotFound`](crate::control::ErrorKind::NotFound) and name
    /// the served ones; a model without the operation is an invalid request that names those that have it.
    pub fn model_for(&self, id: &str, op: Op) -> Result<Arc<ModelHandle>, Fault> {
        let _ = (id, op);
        todo!("runtime helper")
    }

    /// Resolves when every model is ready or has failed.
    pub async fn loaded(&self) {
        todo!("runtime helper")
    }

    pub fn transcribe(
        &self,
        model: &str,
        job: TranscribeJob,
        caller: Caller,
    ) -> Result<Ticket<TranscriptEvent>, Fault> {
        let _ = (model, job, caller);
        todo!("runtime helper")
    }

    pub fn embed(&self, model: &str, job: EmbedJob, caller: Caller) -> Result<Ticket<Embedded>, Fault> {
        let _ = (model, job, caller);
        todo!("runtime helper")
    }

    pub fn rerank(&self, model: &str, job: RerankJob, caller: Caller) -> Result<Ticket<Reranked>, Fault> {
        let _ = (model, job, caller);
        todo!("runtime helper")
    }

    pub fn generate(&self, model: &str, job: GenerateJob, caller: Caller) -> Result<Ticket<GenerationEvent>, Fault> {
        let _ = (model, job, caller);
        todo!("runtime helper")
    }

    /// Cancels a request by id; false when there is no such live request.
    pub fn cancel(&self, id: RequestId) -> bool {
        let _ = id;
        todo!("runtime helper")
    }

    /// The newest snapshot; taken afresh, with its own sequence number, at most every few milliseconds.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        todo!("runtime helper")
    }

    /// Whether new work can be admitted now; the reasons when not (loading, draining, full queues).
    pub fn readiness(&self) -> Result<(), Vec<String>> {
        todo!("runtime helper")
    }

    /// Whether every lane has advanced within its limit or has nothing to do; the stuck ones when not.
    pub fn progress(&self) -> Result<(), Vec<String>> {
        todo!("runtime helper")
    }

    /// Prometheus text of the engine's metrics.
    pub fn metrics(&self) -> String {
        todo!("runtime helper")
    }

    /// Stops admission: running work ends, queued requests get a draining fault. Resolves when idle or after the
    /// profile's drain limit.
    pub async fn drain(&self) {
        todo!("runtime helper")
    }
}
