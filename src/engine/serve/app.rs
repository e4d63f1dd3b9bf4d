//! What every handler shares: the engine, the limits, and the bounded places for work that doors do themselves.

use super::access::Client;
use super::body;
use super::decoding::DecodePool;
use super::failure::Failure;
use super::fields;
use super::intake::Intake;
use super::keys::Keys;
use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::Caller;
use crate::engine::runtime::Engine;
use crate::profile::Limits;
use axum::extract::Request;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Uploads held in memory at once, in units of the audio limit.
const UPLOADS: usize = 8;
/// Unit of the upload budget: a semaphore counts in `u32`.
const UPLOAD_UNIT: usize = 1024;
/// Smallest share that an upload is counted with: bounds their number, not only their bytes.
const UPLOAD_FLOOR: usize = 64 * 1024;
/// Texts below this size are tokenised where they are: sending them elsewhere would cost more.
const INLINE_BYTES: usize = 8 * 1024;

pub(super) type App = Arc<Doors>;

/// The state behind all doors. Handlers only read it; the counters and semaphores are its only moving parts.
pub(super) struct Doors {
    pub(super) engine: Engine,
    pub(super) keys: Keys,
    /// As they were at the start: what is allocated follows from them. Those that may change are the engine's.
    pub(super) limits: Limits,
    pub(super) decoders: DecodePool,
    pub(super) intake: Intake,
    /// True once the engine drains.
    pub(super) draining: watch::Receiver<bool>,
    tokenizers: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    numbers: AtomicU64,
}

impl Doors {
    pub(super) fn new(engine: Engine, keys: Keys, draining: watch::Receiver<bool>) -> Doors {
        let limits = engine.profile().limits;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Doors {
            decoders: DecodePool::start(limits.audio.decoders),
            uploads: Arc::new(Semaphore::new(upload_units(limits.audio_bytes) as usize * UPLOADS)),
            tokenizers: Arc::new(Semaphore::new(cores)),
            intake: Intake::default(),
            numbers: AtomicU64::new(1),
            engine,
            keys,
            limits,
            draining,
        }
    }

    /// Numbers of answers that never became requests of the engine.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets a request in, unless the engine drains: refused before its body is read, not after.
    pub(super) async fn admit(&self, request: Request) -> Result<Request, Fault> {
        match self.admitting() {
            Ok(()) => Ok(request),
            Err(fault) => {
                body::discard_unless_waiting(request).await;
                Err(fault)
            }
        }
    }

    /// The opening of every JSON route: lets a request in, reads its body and parses it. Gives the object, and the size
    /// of the body in bytes.
    pub(super) async fn object(&self, request: Request) -> Result<(Map<String, Value>, usize), Failure> {
        let request = self.admit(request).await?;
        let bytes = body::read(request, "limits.json_bytes", self.engine.limits().json_bytes).await?;
        Ok((fields::parse(&bytes)?, bytes.len()))
    }

    /// The JSON object of a request that is taken whether the engine drains or not.
    pub(super) async fn object_always(&self, request: Request) -> Result<Map<String, Value>, Failure> {
        let bytes = body::read(request, "limits.json_bytes", self.engine.limits().json_bytes).await?;
        Ok(fields::parse(&bytes)?)
    }

    /// Whether new work is taken.
    pub(super) fn admitting(&self) -> Result<(), Fault> {
        if *self.draining.borrow() || self.engine.is_draining() {
            return Err(Fault::new(ErrorKind::Draining, "the engine is draining and takes no new work")
                .hint("send it to another engine, or retry once this one is back"));
        }
        Ok(())
    }

    /// The engine's view of who asks, with the deadline of the request or of the box.
    pub(super) fn caller(&self, client: &Client, deadline_s: Option<f64>) -> Caller {
        Caller { client: client.label.to_string(), deadline_s: deadline_s.or(self.engine.limits().default_deadline_s) }
    }

    /// A place for an upload of `bytes` (all that the limit allows, if it does not say).
    pub(super) fn upload_place(&self, bytes: Option<usize>) -> Result<OwnedSemaphorePermit, Fault> {
        let bytes = bytes.unwrap_or(self.limits.audio_bytes).max(UPLOAD_FLOOR);
        self.uploads.clone().try_acquire_many_owned(upload_units(bytes)).map_err(|_| {
            Fault::new(
                ErrorKind::QueueFull,
                format!("uploads already hold the {} bytes set aside for them", self.limits.audio_bytes * UPLOADS),
            )
            .retry_after(1)
        })
    }

    /// Runs `work` on `bytes` of text: at once when small, else on a blocking thread, at most one per core, so that a
    /// book to tokenise does not hold up the probes.
    pub(super) async fn tokenising<T, F>(self: &Arc<Self>, bytes: usize, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        if bytes <= INLINE_BYTES {
            return work();
        }
        let place = self.tokenizers.clone().acquire_owned().await;
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        task.await.unwrap_or_else(|_| Err(Fault::new(ErrorKind::Internal, "reading the text failed")))
    }
}

fn upload_units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UPLOAD_UNIT)).unwrap_or(u32::MAX / UPLOADS as u32)
}
