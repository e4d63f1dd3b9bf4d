//! The loop on a tiny model that counts rows, waits when told, and panics on demand.

mod answers;
mod draft_model;
mod kv;
mod native;
mod operated;
mod pace;
mod rounds;
mod speculation;
mod windows;

use super::door::GenerationWorker;
use super::draft::{DraftSource, NoDrafts};
use super::thread::Load;
use crate::control::snapshot::Generation;
use crate::control::{Fault, Op};
use crate::engine::models::testing::{FakeLm, Gate, Probe, front, hashed};
use crate::engine::runtime::handle::{ModelHandle, WorkerContext};
use crate::engine::runtime::job::{Caller, FinishReason, GenerateJob, GenerationEvent, Sampling, TokenLogprob};
use crate::engine::runtime::{DeviceSlot, Shared, Ticket};
use crate::profile::{
    AudioLimits, DeviceChoice, Family, GenerationSettings, Limits, ModelProfile, SpeculationSettings,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Tokens of the fake's vocabulary: the end, the printable characters, blank and line break.
const VOCAB: usize = 97;

pub(super) const SETTINGS: GenerationSettings = GenerationSettings {
    slots: 2,
    context_tokens: 128,
    kv_tokens: 160,
    kv_reserve: 64,
    prefix_cache: true,
    paused: false,
    queue: 4,
    iteration_tokens: 24,
    prefill_chunk: 8,
    default_max_tokens: 16,
    speculation: SpeculationSettings::DEFAULT,
};

/// A worker and what is to be known of it.
struct Bench {
    worker: GenerationWorker,
    context: WorkerContext,
    gate: Arc<Gate>,
    probe: Arc<Probe>,
    loading: watch::Receiver<usize>,
}

impl Bench {
    async fn start(settings: GenerationSettings) -> Bench {
        Bench::with(settings, Box::new(NoDrafts), 60.0).await
    }

    /// A worker whose passes each wait for a permit.
    async fn gated(settings: GenerationSettings) -> Bench {
        let bench = Bench::start(settings).await;
        bench.gate.shut();
        bench
    }

    async fn drafting(settings: GenerationSettings, drafter: impl DraftSource + 'static) -> Bench {
        Bench::with(settings, Box::new(drafter), 60.0).await
    }

    async fn with(settings: GenerationSettings, drafter: Box<dyn DraftSource>, stall_s: f64) -> Bench {
        Bench::saying(hashed, settings, drafter, stall_s).await
    }

    /// A worker whose model says what `next` says.
    async fn saying(
        next: fn(&[u32]) -> u32,
        settings: GenerationSettings,
        drafter: Box<dyn DraftSource>,
        stall_s: f64,
    ) -> Bench {
        Bench::assisted(next, settings, drafter, None, stall_s).await
    }

    /// The same, with a model that drafts for it.
    async fn assisted(
        next: fn(&[u32]) -> u32,
        settings: GenerationSettings,
        drafter: Box<dyn DraftSource>,
        draft: Option<(String, Load)>,
        stall_s: f64,
    ) -> Bench {
        Bench::whole(next, settings, drafter, draft, stall_s, Probe::default()).await
    }

    /// The same with a model that does what `probe` says.
    async fn probed(
        next: fn(&[u32]) -> u32,
        settings: GenerationSettings,
        drafter: Box<dyn DraftSource>,
        stall_s: f64,
        probe: Probe,
    ) -> Bench {
        Bench::whole(next, settings, drafter, None, stall_s, probe).await
    }

    async fn whole(
        next: fn(&[u32]) -> u32,
        settings: GenerationSettings,
        drafter: Box<dyn DraftSource>,
        draft: Option<(String, Load)>,
        stall_s: f64,
        probe: Probe,
    ) -> Bench {
        let profile = ModelProfile {
            id: "fake".into(),
            family: Family::Llama,
            ops: vec![Op::Generate],
            description: String::new(),
            licence: String::new(),
            files: BTreeMap::new(),
            max_batch_tokens: None,
            budget_origin: crate::profile::Origin::BuiltIn,
            adaptive: crate::profile::AdaptiveSettings::default(),
            max_batch_requests: None,
            wait_ms: 0.0,
            coalesce_ms: 0.0,
            coalesce_ratio: 0.5,
            idle_bypass: false,
            depth: None,
            max_attempts: 6,
            max_queue: 1,
            dtype: Default::default(),
            device: DeviceChoice::Cpu,
            device_weight: 1,
            max_input_tokens: None,
            long_form: false,
            slice_windows: None,
            recordings_share: 0.5,
            keep_owed: false,
            clips_paused: false,
            recordings_paused: false,
            language: None,
            generation: Some(settings),
            draft_head: None,
            draft: None,
        };
        let limits = Limits {
            json_bytes: 1,
            audio_bytes: 1,
            max_items: 1,
            audio: AudioLimits { max_seconds: 1.0, decoders: 1 },
            default_deadline_s: None,
            stall_s,
            drain_s: 1.0,
            progress_s: 30.0,
        };
        let (loading_tx, loading) = watch::channel(1);
        let context = WorkerContext {
            handle: Arc::new(ModelHandle::new(profile, 0)),
            shared: Arc::new(Shared::new(limits)),
            device: Arc::new(DeviceSlot::new("cpu")),
            loading: loading_tx,
        };
        let (gate, probe) = (Gate::new(), Arc::new(probe));
        let parts = (gate.clone(), probe.clone());
        let load = move || Ok(FakeLm::load(settings.slots, 8_192, next, parts.0, parts.1));
        let worker = GenerationWorker::start_with(context.clone(), drafter, load, draft).expect("starts");
        let mut bench = Bench { worker, context, gate, probe, loading };
        bench.loading.wait_for(|left| *left == 0).await.expect("the worker loads");
        bench
    }

    fn submit(&self, job: GenerateJob) -> Result<Ticket<GenerationEvent>, Fault> {
        self.worker.generate(job, Caller::default())
    }

    async fn run(&self, job: GenerateJob) -> Answer {
        collect(self.submit(job).expect("admitted")).await
    }

    fn passes(&self) -> Vec<Vec<(usize, usize, usize)>> {
        self.probe.passes()
    }

    /// Waits until nothing lives.
    async fn quiet(&self) {
        self.context.shared.registry.live().wait_for(|live| *live == 0).await.expect("the registry lives");
    }

    /// What is shown once it is as `is` wants it.
    async fn shown(&self, is: impl Fn(&Generation) -> bool) -> Generation {
        let mut patience = 30_000;
        loop {
            let shown = self.worker.view().assemble("fake", self.worker.stats(), self.worker.max_queue());
            if is(&shown) {
                return shown;
            }
            patience -= 1;
            assert!(patience > 0, "not in time: {shown:?}");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Bench {
    /// A worker that waits at the gate would never end.
    fn drop(&mut self) {
        self.gate.open();
    }
}

fn job(prompt: &[u32], max_tokens: usize) -> GenerateJob {
    GenerateJob {
        prompt: prompt.to_vec(),
        max_tokens,
        sampling: Sampling::greedy(),
        stop: Vec::new(),
        stop_ids: Vec::new(),
        min_tokens: 0,
        ignore_eos: true,
        logprobs: None,
        speculation: Default::default(),
    }
}

#[derive(Debug, Default)]
struct Answer {
    text: String,
    tokens: Vec<u32>,
    deltas: usize,
    logprobs: Vec<TokenLogprob>,
    cached: usize,
    end: Option<Result<(FinishReason, usize, usize), Fault>>,
}

async fn collect(mut ticket: Ticket<GenerationEvent>) -> Answer {
    let mut answer = Answer::default();
    while let Some(event) = ticket.next().await {
        assert!(answer.end.is_none(), "an event after the last");
        match event {
            Ok(GenerationEvent::Delta { text, tokens, logprobs }) => {
                answer.deltas += 1;
                answer.text += &text;
                answer.tokens.extend(tokens);
                answer.logprobs.extend(logprobs);
            }
            Ok(GenerationEvent::Done { finish, prompt_tokens, completion_tokens, cached_tokens, .. }) => {
                answer.cached = cached_tokens;
                answer.end = Some(Ok((finish, prompt_tokens, completion_tokens)));
            }
            Err(fault) => answer.end = Some(Err(fault)),
        }
    }
    answer
}

/// What the fake says after `prompt`, and its text.
fn expected(prompt: &[u32], n: usize) -> (Vec<u32>, String) {
    let mut all = prompt.to_vec();
    for _ in 0..n {
        all.push(hashed(&all));
    }
    let tokens = all.split_off(prompt.len());
    let front = front(1);
    let text = tokens.iter().flat_map(|t| front.vocabulary.bytes(*t)).map(|b| char::from(*b)).collect();
    (tokens, text)
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
