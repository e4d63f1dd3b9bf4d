//! Answers through the engine's own door, and what they took.

use crate::cli::bench::timing::cpu_time;
use crate::cli::error::CliResult;
use crate::control::speculation::{SpeculationChoice, SpeculationReport};
use crate::control::{ErrorKind, Fault};
use crate::engine::runtime::{Caller, Engine, GenerateJob, GenerationEvent, Sampling, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What some work took.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Tokens of the measured time.
    pub tokens: u64,
    pub wall: Duration,
    /// CPU time of all threads of the process; absent where the system does not tell.
    pub cpu: Option<Duration>,
    /// What speculation did for each answer, where anybody speculates.
    pub speculation: Vec<SpeculationReport>,
    /// The answers' tokens, in the order of the prompts.
    pub answers: Vec<Vec<u32>>,
}

impl Sample {
    /// Tokens per second.
    pub fn rate(&self) -> f64 {
        self.tokens as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Tokens per second of CPU time.
    pub fn cpu_rate(&self) -> Option<f64> {
        self.cpu.filter(|t| !t.is_zero()).map(|t| self.tokens as f64 / t.as_secs_f64())
    }
}

/// A greedy answer to `prompt`.
fn job(prompt: &[u32], max_tokens: usize, choice: SpeculationChoice) -> GenerateJob {
    GenerateJob {
        prompt: prompt.to_vec(),
        max_tokens,
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stop: Vec::new(),
        stop_ids: Vec::new(),
        min_tokens: 0,
        ignore_eos: false,
        logprobs: None,
        speculation: choice,
    }
}

/// A clock of both kinds.
struct Clock {
    began: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    fn start() -> Clock {
        Clock { cpu: cpu_time(), began: Instant::now() }
    }

    fn stop(&self, sample: &mut Sample) {
        sample.wall += self.began.elapsed();
        let used = self.cpu.zip(cpu_time()).map(|(from, to)| to.saturating_sub(from));
        sample.cpu = match (sample.cpu, used) {
            (Some(sum), Some(used)) => Some(sum + used),
            (None, used) => used,
            (sum, None) => sum,
        };
    }
}

/// Reads `prompt` and answers with one token: what the prompt costs.
pub async fn prefill(engine: &Engine, model: &str, prompt: &[u32]) -> CliResult<Sample> {
    let mut sample = Sample { tokens: prompt.len() as u64, ..Sample::default() };
    let clock = Clock::start();
    let mut ticket = engine.generate(model, job(prompt, 1, SpeculationChoice::Off), Caller::default())?;
    while let Some(event) = ticket.next().await {
        event?;
    }
    clock.stop(&mut sample);
    Ok(sample)
}

/// What the answers that run together tell each other.
#[derive(Default)]
struct Together {
    tokens: AtomicU64,
    begun: AtomicUsize,
    changed: Notify,
}

/// Answers `prompts`, `sequences` at a time, with at most `max_tokens` each. Measured is what follows once all that run
/// together have begun: prompts are read before.
pub async fn decode(
    engine: &Engine,
    model: &str,
    prompts: &[Vec<u32>],
    sequences: usize,
    max_tokens: usize,
    choice: SpeculationChoice,
) -> CliResult<Sample> {
    let mut sample = Sample::default();
    for prompts in prompts.chunks(sequences.max(1)) {
        let together = Arc::new(Together::default());
        let mut answers = JoinSet::new();
        for (i, prompt) in prompts.iter().enumerate() {
            let ticket = engine.generate(model, job(prompt, max_tokens, choice), Caller::default())?;
            let together = together.clone();
            answers.spawn(async move { (i, answer(ticket, &together).await) });
        }
        while together.begun.load(Ordering::Acquire) < prompts.len() {
            together.changed.notified().await;
        }
        let (clock, before) = (Clock::start(), together.tokens.load(Ordering::Acquire));
        let mut done = answers.join_all().await;
        clock.stop(&mut sample);
        sample.tokens += together.tokens.load(Ordering::Acquire) - before;
        done.sort_by_key(|(i, _)| *i);
        for (_, answer) in done {
            let (tokens, report) = answer?;
            sample.answers.push(tokens);
            sample.speculation.extend(report);
        }
    }
    Ok(sample)
}

/// Follows one answer to its end.
async fn answer(
    mut ticket: Ticket<GenerationEvent>,
    together: &Together,
) -> Result<(Vec<u32>, Option<SpeculationReport>), Fault> {
    let begun = || {
        together.begun.fetch_add(1, Ordering::AcqRel);
        // The permit stays if nobody waits yet.
        together.changed.notify_one();
    };
    let mut all = Vec::new();
    let mut first = true;
    let end = loop {
        match ticket.next().await {
            Some(Ok(GenerationEvent::Delta { tokens, .. })) => {
                together.tokens.fetch_add(tokens.len() as u64, Ordering::AcqRel);
                all.extend(tokens);
                if std::mem::take(&mut first) {
                    begun();
                }
            }
            Some(Ok(GenerationEvent::Done { speculation, .. })) => break Ok((all, speculation.map(|report| *report))),
            Some(Err(fault)) => break Err(fault),
            None => break Err(Fault::new(ErrorKind::Internal, "an answer broke off without an end")),
        }
    };
    // An answer without a token, or a failure before it: the others do not wait for it.
    if first {
        begun();
    }
    end
}
