//! The loop on a tiny model that counts rows, waits when told, and panics on demand.

use super::door::GenerationWorker;
use crate::control::{ErrorKind, Fault, Op};
use crate::engine::models::gguf::testing::FileBuilder;
use crate::engine::models::gguf::{Vocabulary, header, tokenizer};
use crate::engine::models::{
    CausalLm, LmConfig, LmFront, LmSpan, LoadedModel, LogitsFor, ModelBack, ModelError, ModelFront,
};
use crate::engine::runtime::handle::{ModelHandle, WorkerContext};
use crate::engine::runtime::job::{Caller, FinishReason, GenerateJob, GenerationEvent, Sampling};
use crate::engine::runtime::{DeviceSlot, Shared, Ticket};
use crate::profile::{AudioLimits, DeviceChoice, Family, GenerationSettings, Limits, ModelProfile};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

const VOCAB: usize = 28;
/// `</s>`.
const END: u32 = 0;
/// The model panics when this is in its input.
const PANIC: u32 = 1;

/// Rows of each pass: (slot, start, tokens).
type Passes = Arc<Mutex<Vec<Vec<(usize, usize, usize)>>>>;

/// The next token is a function of all tokens before: so that text shows what the model saw.
struct Fake {
    config: LmConfig,
    slots: Vec<Vec<u32>>,
    passes: Passes,
    /// Each pass takes a permit, when there is a gate.
    gate: Option<Receiver<()>>,
}

fn next_of(tokens: &[u32]) -> u32 {
    let sum =
        tokens.iter().enumerate().fold(7u64, |h, (i, t)| h.wrapping_mul(31).wrapping_add(u64::from(*t) + i as u64));
    2 + (sum % (VOCAB as u64 - 2)) as u32
}

impl CausalLm for Fake {
    fn config(&self) -> &LmConfig {
        &self.config
    }

    fn forward(&mut self, spans: &[LmSpan<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        if let Some(gate) = &self.gate {
            gate.recv().map_err(|_| ModelError::Other("the gate is gone".into()))?;
        }
        let rows = spans.iter().map(|s| (s.slot, s.start, s.tokens.len())).collect();
        self.passes.lock().expect("not poisoned").push(rows);
        spans
            .iter()
            .map(|s| {
                assert!(!s.tokens.contains(&PANIC), "told to panic");
                let slot = &mut self.slots[s.slot];
                assert!(s.start <= slot.len(), "a hole in the cache");
                slot.truncate(s.start);
                slot.extend_from_slice(s.tokens);
                let mut row = vec![0.0; VOCAB];
                // Nine is followed by the end.
                row[if slot.last() == Some(&9) { END } else { next_of(slot) } as usize] = 4.0;
                Ok(if s.logits == LogitsFor::None { Vec::new() } else { row })
            })
            .collect()
    }

    fn slot_len(&self, slot: usize) -> usize {
        self.slots[slot].len()
    }

    fn truncate(&mut self, slot: usize, len: usize) -> Result<(), ModelError> {
        self.slots[slot].truncate(len);
        Ok(())
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn weights_bytes(&self) -> u64 {
        1
    }

    fn kv_bytes(&self) -> u64 {
        2
    }
}

fn letters() -> Vec<String> {
    ["</s>", "<p>"].into_iter().map(String::from).chain(('a'..='z').map(String::from)).collect()
}

fn front() -> LmFront {
    let kinds: Vec<i32> = (0..VOCAB).map(|i| if i < 2 { 3 } else { 1 }).collect();
    let file = FileBuilder::new()
        .text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", &letters())
        .i32s("tokenizer.ggml.token_type", &kinds)
        .texts::<&str>("tokenizer.ggml.merges", &[])
        .build();
    let gguf = header::read(&file[..], Path::new("fake.gguf"), file.len() as u64).expect("whole");
    let vocabulary = Vocabulary::from_metadata(&gguf.metadata).expect("vocabulary");
    LmFront {
        tokenizer: tokenizer::build(&gguf.metadata, &vocabulary).expect("tokenizer"),
        vocabulary: Arc::new(vocabulary),
        config: config(),
        chat_template: None,
        bos: None,
        eos: None,
        bos_id: None,
        add_bos: false,
        end_ids: vec![END],
    }
}

fn config() -> LmConfig {
    LmConfig {
        architecture: "fake".into(),
        vocab: VOCAB,
        hidden: 1,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        feed_forward: 1,
        rope_base: 1.0,
        norm_eps: 0.0,
        context: 4096,
    }
}

const SETTINGS: GenerationSettings = GenerationSettings {
    slots: 2,
    context_tokens: 128,
    kv_tokens: 160,
    queue: 4,
    iteration_tokens: 24,
    prefill_chunk: 8,
    default_max_tokens: 16,
};

struct Bench {
    worker: GenerationWorker,
    context: WorkerContext,
    passes: Passes,
    loading: watch::Receiver<usize>,
}

impl Bench {
    async fn start(settings: GenerationSettings, gate: Option<Receiver<()>>) -> Bench {
        let profile = ModelProfile {
            id: "fake".into(),
            family: Family::Llama,
            ops: vec![Op::Generate],
            description: String::new(),
            licence: String::new(),
            files: BTreeMap::new(),
            max_batch_tokens: None,
            max_batch_requests: 1,
            wait_ms: 0.0,
            coalesce_ms: 0.0,
            depth: 1,
            max_queue: 1,
            dtype: Default::default(),
            device: DeviceChoice::Cpu,
            max_input_tokens: None,
            long_form: false,
            language: None,
            generation: Some(settings),
        };
        let limits = Limits {
            json_bytes: 1,
            audio_bytes: 1,
            max_items: 1,
            audio: AudioLimits { max_seconds: 1.0, decoders: 1 },
            default_deadline_s: None,
            stall_s: 60.0,
            drain_s: 1.0,
        };
        let (loading_tx, loading) = watch::channel(1);
        let context = WorkerContext {
            handle: Arc::new(ModelHandle::new(profile, 0)),
            shared: Arc::new(Shared::new(limits)),
            device: Arc::new(DeviceSlot::new("cpu")),
            loading: loading_tx,
        };
        let passes = Passes::default();
        let fake = Fake { config: config(), slots: vec![Vec::new(); settings.slots], passes: passes.clone(), gate };
        let load = move || Ok(LoadedModel { front: ModelFront::Lm(front()), back: ModelBack::Lm(Box::new(fake)) });
        let worker = GenerationWorker::start(context.clone(), load).expect("starts");
        let mut bench = Bench { worker, context, passes, loading };
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
        self.passes.lock().expect("not poisoned").clone()
    }

    /// Waits until nothing lives.
    async fn quiet(&self) {
        self.context.shared.registry.live().wait_for(|live| *live == 0).await.expect("the registry lives");
    }
}

fn job(prompt: &[u32], max_tokens: usize) -> GenerateJob {
    GenerateJob {
        prompt: prompt.to_vec(),
        max_tokens,
        sampling: Sampling::greedy(),
        stop: Vec::new(),
        ignore_eos: true,
        logprobs: None,
    }
}

#[derive(Debug, Default)]
struct Answer {
    text: String,
    tokens: Vec<u32>,
    deltas: usize,
    logprobs: usize,
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
                answer.logprobs += logprobs.len();
            }
            Ok(GenerationEvent::Done { finish, prompt_tokens, completion_tokens, .. }) => {
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
        all.push(if all.last() == Some(&9) { END } else { next_of(&all) });
    }
    let tokens = all[prompt.len()..].to_vec();
    let names = letters();
    let text = tokens.iter().filter(|t| **t >= 2).map(|t| names[*t as usize].as_str()).collect();
    (tokens, text)
}

#[tokio::test]
async fn answers_are_the_models_whoever_shares_the_passes() {
    let bench = Bench::start(SETTINGS, None).await;
    let prompts: Vec<Vec<u32>> = (0..4u32).map(|i| (0..(5 + 9 * i)).map(|j| 2 + (i + j) % 7).collect()).collect();
    let tickets: Vec<_> = prompts.iter().map(|p| bench.submit(job(p, 12)).expect("admitted")).collect();
    for (prompt, ticket) in prompts.iter().zip(tickets) {
        let answer = collect(ticket).await;
        let (tokens, text) = expected(prompt, 12);
        assert_eq!((answer.tokens, answer.text), (tokens, text));
        assert_eq!(answer.end, Some(Ok((FinishReason::Length, prompt.len(), 12))));
    }
    for pass in bench.passes() {
        assert!(pass.iter().map(|(.., n)| n).sum::<usize>() <= SETTINGS.iteration_tokens, "{pass:?}");
        assert!(pass.iter().all(|(.., n)| *n <= SETTINGS.prefill_chunk), "{pass:?}");
    }
    let counters = bench.worker.stats().counters();
    assert_eq!((counters.submitted, counters.served), (4, 4));
}

#[tokio::test]
async fn an_end_token_stops_unless_ignored_and_is_not_text() {
    let bench = Bench::start(SETTINGS, None).await;
    let mut asked = job(&[9], 5);
    asked.ignore_eos = false;
    let answer = bench.run(asked).await;
    assert_eq!((answer.text.as_str(), answer.end), ("", Some(Ok((FinishReason::Stop, 1, 1)))));
    let answer = bench.run(job(&[9], 3)).await;
    assert_eq!(answer.tokens[0], END);
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 1, 3))));
}

#[tokio::test]
async fn stop_strings_cut_and_held_text_comes_out_at_the_end() {
    let bench = Bench::start(SETTINGS, None).await;
    let prompt = [2, 3, 4];
    let (tokens, text) = expected(&prompt, 10);
    assert!(tokens.iter().all(|t| *t >= 2), "the case needs ten letters");
    let with_stop = |stop: &str, max_tokens: usize| {
        let mut j = job(&prompt, max_tokens);
        j.stop = vec![stop.to_string()];
        j
    };
    let answer = bench.run(with_stop(&text[4..7], 10)).await;
    let cut = text.find(&text[4..7]).expect("it is in the text");
    assert_eq!(answer.text, text[..cut]);
    assert_eq!(answer.tokens, tokens[..cut]);
    assert!(matches!(answer.end, Some(Ok((FinishReason::Stop, 3, _)))));
    let answer = bench.run(with_stop(&format!("{}#", &text[4..6]), 6)).await;
    assert_eq!((answer.text.as_str(), answer.tokens.len()), (&text[..6], 6));
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 3, 6))));
    let answer = bench.run(with_stop(&text[..1], 10)).await;
    assert_eq!((answer.text.as_str(), answer.deltas), ("", 0));
    assert_eq!(answer.end, Some(Ok((FinishReason::Stop, 3, 1))));
}

#[tokio::test]
async fn log_probabilities_come_with_their_tokens() {
    let bench = Bench::start(SETTINGS, None).await;
    let mut asked = job(&[2], 6);
    asked.logprobs = Some(2);
    let answer = bench.run(asked).await;
    assert_eq!((answer.tokens.len(), answer.logprobs), (6, 6));
}

#[tokio::test]
async fn what_can_never_fit_is_refused_at_the_door_with_both_numbers() {
    let bench = Bench::start(SETTINGS, None).await;
    let refused = |j: GenerateJob| bench.submit(j).err().expect("refused");
    let fault = refused(job(&[2; 300], 1));
    assert_eq!(fault.kind, ErrorKind::TooLong);
    assert!(fault.message.contains("300") && fault.message.contains("128"), "{}", fault.message);
    assert_eq!(refused(job(&[], 1)).kind, ErrorKind::InvalidRequest);
    assert_eq!(refused(job(&[VOCAB as u32], 1)).kind, ErrorKind::InvalidRequest);
    let small = Bench::start(GenerationSettings { kv_tokens: 50, ..SETTINGS }, None).await;
    let fault = small.submit(job(&[2; 60], 1)).err().expect("refused");
    assert!(fault.message.contains("60") && fault.message.contains("50") && fault.message.contains("pool"));
    // An answer is as long as the pool allows.
    let answer = small.run(job(&[2; 40], 100)).await;
    assert_eq!(answer.end, Some(Ok((FinishReason::Length, 40, 10))));
    assert_eq!(bench.run(job(&[2], 0)).await.end, Some(Ok((FinishReason::Length, 1, 0))));
}

/// A worker whose passes each wait for a permit.
async fn gated(settings: GenerationSettings) -> (Bench, SyncSender<()>) {
    let (gate, permits) = sync_channel(1 << 16);
    (Bench::start(settings, Some(permits)).await, gate)
}

#[tokio::test]
async fn the_queue_is_bounded_and_says_when_to_come_again() {
    let (bench, gate) = gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let mut admitted = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..10 {
        match bench.submit(job(&[2], 4)) {
            Ok(ticket) => admitted.push(ticket),
            Err(fault) => refused.push(fault),
        }
    }
    assert!((4..=5).contains(&admitted.len()), "{} admitted", admitted.len());
    assert!(refused.iter().all(|f| f.kind == ErrorKind::QueueFull && f.retry_after_s.is_some()));
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    for ticket in admitted {
        assert!(matches!(collect(ticket).await.end, Some(Ok(_))));
    }
}

#[tokio::test]
async fn the_kv_budget_lets_nobody_overtake() {
    let (bench, gate) = gated(SETTINGS).await;
    // 100 + 100 > 160: the second waits although a slot is free, and the small third waits behind it.
    let first = bench.submit(job(&[2; 90], 10)).expect("admitted");
    let second = bench.submit(job(&[3; 90], 10)).expect("admitted");
    let third = bench.submit(job(&[4; 2], 2)).expect("admitted");
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    for ticket in [first, second, third] {
        assert!(matches!(collect(ticket).await.end, Some(Ok(_))));
    }
    let passes = bench.passes();
    let done = passes.iter().position(|p| p.iter().any(|&(_, start, n)| (start, n) == (98, 1))).expect("it decoded");
    assert!(passes[..=done].iter().all(|p| p.len() == 1), "somebody ran beside the first: {passes:?}");
    let (second, third) = (start_of(&passes[done..], 8), start_of(&passes[done..], 2));
    assert!(second <= third, "the third overtook the second: {passes:?}");
}

/// The first pass that begins a prompt with a chunk of `n` tokens.
fn start_of(passes: &[Vec<(usize, usize, usize)>], n: usize) -> usize {
    passes.iter().position(|p| p.iter().any(|row| (row.1, row.2) == (0, n))).expect("it began")
}

#[tokio::test]
async fn a_dropped_ticket_frees_its_slot_and_changes_no_neighbour() {
    let (bench, gate) = gated(SETTINGS).await;
    let keeper = bench.submit(job(&[2, 3], 20)).expect("admitted");
    let leaver = bench.submit(job(&[4, 5], 100)).expect("admitted");
    let mut leaver = leaver;
    for _ in 0..8 {
        gate.send(()).expect("room");
    }
    assert!(matches!(leaver.next().await, Some(Ok(GenerationEvent::Delta { .. }))));
    drop(leaver);
    let left_after = bench.passes().len();
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    let answer = collect(keeper).await;
    assert_eq!(answer.tokens, expected(&[2, 3], 20).0);
    bench.quiet().await;
    // The pass that had begun when it left; the next iteration looks first.
    let late = bench.passes()[left_after..].iter().filter(|p| p.len() == 2).count();
    assert!(late <= 1, "{late} passes carried a request that nobody wanted");
    assert_eq!(bench.worker.stats().counters().cancelled, 1);
}

#[tokio::test]
async fn a_queued_request_that_is_dropped_never_runs() {
    let (bench, gate) = gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let running = bench.submit(job(&[2, 3], 5)).expect("admitted");
    let queued = bench.submit(job(&[4; 7], 5)).expect("admitted");
    drop(queued);
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    assert_eq!(collect(running).await.tokens, expected(&[2, 3], 5).0);
    bench.quiet().await;
    assert!(bench.passes().iter().flatten().all(|(.., n)| *n != 7), "it was computed");
    assert_eq!(bench.worker.stats().waiting(), 0);
}

#[tokio::test]
async fn a_panic_ends_its_own_request_and_no_other() {
    let (bench, gate) = gated(SETTINGS).await;
    let good = bench.submit(job(&[2, 3, 4], 12)).expect("admitted");
    let bad = bench.submit(job(&[2, PANIC, 4], 12)).expect("admitted");
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    let fault = collect(bad).await.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::Internal);
    assert_eq!(collect(good).await.tokens, expected(&[2, 3, 4], 12).0);
    // The slot of the one that failed is as good as new.
    let again: Vec<_> = (0..2).map(|_| bench.submit(job(&[5, 6], 6)).expect("admitted")).collect();
    for ticket in again {
        assert_eq!(collect(ticket).await.tokens, expected(&[5, 6], 6).0);
    }
}

#[tokio::test]
async fn a_drain_ends_what_waits_and_lets_finish_what_runs() {
    let (bench, gate) = gated(GenerationSettings { slots: 1, ..SETTINGS }).await;
    let mut running = bench.submit(job(&[2, 3], 6)).expect("admitted");
    let queued = bench.submit(job(&[4, 5], 6)).expect("admitted");
    for _ in 0..2 {
        gate.send(()).expect("room");
    }
    assert!(matches!(running.next().await, Some(Ok(_))));
    bench.context.shared.drain();
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    let fault = collect(queued).await.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::Draining);
    assert!(matches!(collect(running).await.end, Some(Ok((FinishReason::Length, 2, 6)))));
    assert_eq!(bench.submit(job(&[2], 1)).err().expect("refused").kind, ErrorKind::Draining);
}

#[tokio::test]
async fn a_deadline_ends_a_request() {
    let (bench, gate) = gated(SETTINGS).await;
    let caller = Caller { client: "test".into(), deadline_s: Some(0.0) };
    let ticket = bench.worker.generate(job(&[2], 5), caller).expect("admitted");
    gate.send(()).expect("room");
    let fault = collect(ticket).await.end.expect("an end").expect_err("a fault");
    assert_eq!(fault.kind, ErrorKind::DeadlinePassed);
}

#[tokio::test]
async fn a_long_prompt_takes_every_other_iteration_at_most() {
    let (bench, gate) = gated(SETTINGS).await;
    let mut short = bench.submit(job(&[2], 60)).expect("admitted");
    gate.send(()).expect("room");
    assert!(matches!(short.next().await, Some(Ok(_))));
    let long = bench.submit(job(&[3; 64], 2)).expect("admitted");
    for _ in 0..1000 {
        gate.send(()).expect("room");
    }
    assert!(matches!(collect(long).await.end, Some(Ok(_))));
    collect(short).await;
    let passes = bench.passes();
    let prefills: Vec<bool> = passes[1..].iter().map(|p| p.len() == 2 && p.iter().any(|(.., n)| *n > 1)).collect();
    assert_eq!(prefills.iter().filter(|p| **p).count(), 8);
    assert!(prefills.windows(2).all(|w| !(w[0] && w[1])), "{prefills:?}");
}

#[tokio::test]
async fn sampled_text_does_not_depend_on_the_batch() {
    let bench = Bench::start(SETTINGS, None).await;
    let sampled = || {
        let mut j = job(&[2, 3], 16);
        j.sampling = Sampling { temperature: 2.0, seed: 11, ..Sampling::default() };
        j
    };
    let alone = bench.run(sampled()).await.tokens;
    let tickets = [bench.submit(job(&[7; 20], 30)), bench.submit(sampled())].map(|t| t.expect("admitted"));
    let [_, together] = tickets;
    assert_eq!(collect(together).await.tokens, alone);
}

#[tokio::test]
async fn the_view_shows_slots_and_counts() {
    let bench = Bench::start(SETTINGS, None).await;
    bench.run(job(&[2; 9], 4)).await;
    bench.quiet().await;
    let worker = &bench.worker;
    let shown = worker.view().assemble("fake", worker.stats(), worker.max_queue());
    assert_eq!((shown.slots, shown.kv_capacity_tokens, shown.max_queue), (2, 160, 4));
    assert_eq!(shown.counters.served, 1);
    assert!(shown.prompt_tokens >= 9);
}
