//! The thread that owns the weights and runs one batch at a time.

use super::job::{Batch, Job, Work};
use super::{Command, Report, door, embed, fault, rerank, transcribe};
use crate::control::snapshot::Outcome;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::{LoadedModel, ModelBack, ModelError};
use crate::engine::runtime::handle::{LoadState, WorkerContext};
use crate::engine::runtime::job::JobTimes;
use crate::engine::runtime::shared::draining_fault;
use crate::engine::scheduler::Micros;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender};

/// What running code needs beside the model: the device, time, and where to count.
pub(super) struct Run<'a> {
    pub context: &'a WorkerContext,
    /// Model time of the batch so far.
    pub time: Micros,
    /// Cost of what was computed, where that is not the cost of the batch.
    pub computed: u64,
    /// Windows of speech that were run.
    pub windows: u64,
    /// After the batch ran out of memory: the cost that it was cut down to.
    pub fits: Option<u64>,
    pub tally: Tally,
}

/// How the requests of a batch ended.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub served: usize,
    /// Of each served request: from its submission to its end.
    pub answered: Vec<Micros>,
    pub failed: usize,
    pub expired: usize,
}

impl Tally {
    fn outcome(&self) -> Outcome {
        match self {
            Tally { served: 1.., .. } => Outcome::Served,
            Tally { failed: 1.., .. } => Outcome::Failed,
            Tally { expired: 1.., .. } => Outcome::Expired,
            _ => Outcome::Cancelled,
        }
    }

    /// Counts a request that was served.
    pub fn serve(&mut self, times: &JobTimes) {
        self.served += 1;
        self.answered.push(Micros::from_ms(times.queue_ms + times.run_ms));
    }

    /// Counts a request that ends with `fault`.
    pub fn fault(&mut self, fault: &Fault) {
        match fault.kind {
            ErrorKind::Cancelled | ErrorKind::Draining => {}
            ErrorKind::DeadlinePassed => self.expired += 1,
            _ => self.failed += 1,
        }
    }
}

impl Run<'_> {
    pub fn now(&self) -> Micros {
        self.context.shared.clock.now()
    }

    pub fn model(&self) -> &str {
        &self.context.handle.name
    }

    /// Most times that one step of a request is tried.
    pub fn max_attempts(&self) -> usize {
        self.context.handle.settings().max_attempts.max(1)
    }

    /// A step ran out of memory and is tried again at most at this cost.
    pub fn did_not_fit(&mut self, cut_to: u64) {
        self.fits = Some(self.fits.map_or(cut_to, |fits| fits.min(cut_to)).max(1));
    }

    /// One call into the model, with the device to itself; a panic comes back as a value.
    pub fn step<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
        let device = self.context.device.acquire(&self.context.handle.name);
        let began = self.now();
        // The model's state after a panic: sessions are values that the caller restores, and a model keeps nothing
        // between calls that a later one relies on.
        let result = catch_unwind(AssertUnwindSafe(call));
        let ended = self.now();
        drop(device);
        self.time = self.time + (ended - began);
        self.context.handle.advance(ended);
        if result.is_err() {
            self.context.shared.metrics.panicked(&self.context.handle.name);
        }
        result
    }
}

/// Loads the model, then runs batches until the dispatcher is gone.
pub(super) fn run(
    context: &WorkerContext,
    load: impl FnOnce() -> Result<LoadedModel, ModelError>,
    work: &Receiver<Batch>,
    reports: &SyncSender<Command>,
) {
    let loaded = catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|panic| {
        let text = fault::of_panic(&context.handle.name, &*panic).message;
        Err(ModelError::Other(format!("the loader panicked: {text}")))
    });
    let mut back = match loaded.map_err(|e| e.to_string()).and_then(batch_back) {
        Ok((back, state)) => {
            context.loaded(state);
            Some(back)
        }
        Err(why) => {
            context.loaded(LoadState::Failed { why });
            None
        }
    };
    // The dispatcher may be gone: then there is nobody to tell, and no batch comes.
    let _ = reports.send(Command::Loaded);
    let Some(back) = &mut back else { return };
    while let Ok(batch) = work.recv() {
        let number = batch.number;
        let began = context.shared.clock.now();
        let mut run = Run { context, time: Micros::ZERO, computed: 0, windows: 0, fits: None, tally: Tally::default() };
        // The steps contain the model's panics; this contains our own. Requests that a panic drops end with a fault.
        let put_aside = catch_unwind(AssertUnwindSafe(|| run_batch(back, batch, &mut run))).unwrap_or_else(|panic| {
            let fault = fault::of_panic(&context.handle.name, &*panic);
            run.tally.fault(&fault);
            Vec::new()
        });
        let wall = context.shared.clock.now() - began;
        let outcome = if put_aside.is_empty() { run.tally.outcome() } else { Outcome::Served };
        let report = Report {
            batch: number,
            run: if run.time == Micros::ZERO { wall } else { run.time },
            computed: run.computed,
            windows: run.windows,
            fits: run.fits,
            outcome,
            answered: run.tally.answered,
            put_aside,
        };
        if let Err(unsent) = reports.send(Command::Ran(Box::new(report)))
            && let Command::Ran(report) = unsent.0
        {
            // The dispatcher is gone, and with it the engine: nobody takes these up again.
            let now = context.shared.clock.now();
            report.put_aside.into_iter().for_each(|job| job.fail(draining_fault(), now));
        }
    }
}

/// The halves of a model that runs batches.
fn batch_back(loaded: LoadedModel) -> Result<(ModelBack, LoadState), String> {
    let weights = match &loaded.back {
        ModelBack::Speech(model) => model.weights_bytes(),
        ModelBack::Text(model) => model.weights_bytes(),
        ModelBack::Lm(_) => return Err("a language model was loaded where batches were to run".to_string()),
    };
    Ok((loaded.back, door::ready(loaded.front, weights)))
}

/// Runs a batch; returns what is to go on later.
fn run_batch(back: &mut ModelBack, batch: Batch, run: &mut Run<'_>) -> Vec<Job> {
    tracing::debug!(model = run.model(), batch = batch.number, op = %batch.op, lane = %batch.lane, "batch starts");
    let (mut speech, mut embeds, mut reranks) = (Vec::new(), Vec::new(), Vec::new());
    for Job { item, work } in batch.jobs {
        match work {
            Work::Transcribe(transcription) => speech.push((item, *transcription)),
            Work::Embed(live, job) => embeds.push((live, job)),
            Work::Rerank(live, job) => reranks.push((live, job)),
        }
    }
    match back {
        ModelBack::Speech(model) => transcribe::run(&mut **model, speech, batch.windows, run),
        ModelBack::Text(model) => {
            embed::run(&mut **model, embeds, run);
            rerank::run(&mut **model, reranks, run);
            Vec::new()
        }
        // Refused when it was loaded.
        ModelBack::Lm(_) => Vec::new(),
    }
}
