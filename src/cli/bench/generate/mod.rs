//! `lanekeeper bench generate`: a model that generates, behind the engine's own door: reading, writing, and what
//! speculation brings for texts of different kinds.
//!
//! Everything is measured in one process, turn by turn: each round decodes every set plainly and in every other way, so
//! that what disturbs the machine disturbs all alike. Answers are greedy; that speculation changes none is checked too.

mod measure;
mod report;
mod sets;

use super::timing::PauseMeter;
use super::{DISTURBED, threads};
use crate::cli::context::Context;
use crate::cli::error::{CliError, CliResult};
use crate::cli::fetch;
use crate::cli::serve::{doors_runtime, failure_to_load};
use crate::control::speculation::SpeculationChoice;
use crate::control::{ExitCode, Op};
use crate::engine::models::kernels::Isa;
use crate::engine::models::{LmFront, ModelFront};
use crate::engine::runtime::Engine;
use crate::profile::{Env, load_box, load_model};
use crate::pull::Verify;
use clap::Args;
use measure::Sample;
use report::{Rates, Report, RunFigures, SetFigures};
use sets::PromptSet;
use std::path::PathBuf;

/// Measure a model that generates: reading, writing, and speculation on prompts of different kinds.
///
/// The model runs in this process, behind the same door that requests go through. Each round decodes every prompt set at
/// every width, plainly, as the model's speculation policy decides, and with a window whenever something is proposed.
/// The ratio is by CPU time, against plain decoding.
#[derive(Debug, Args)]
pub struct GenerateBenchArgs {
    /// Model profile, by name or path.
    #[arg(short, long, value_name = "MODEL", default_value = "smollm2-135m")]
    model: String,
    /// Change a value of the model's profile for this run.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Prompt sets.
    #[arg(long, value_name = "SET", value_delimiter = ',', default_values = sets::names())]
    sets: Vec<String>,
    /// How many answers run together.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "4", "8"],
          value_parser = clap::value_parser!(u16).range(1..=8))]
    sequences: Vec<u16>,
    /// Tokens of an answer at most [default: what the set asks for, else 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=512))]
    max_tokens: Option<u16>,
    /// Threads for model work [default: the cores of this process].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Rounds of each measurement.
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Write the figures as JSON to this file too.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Fetch nothing: fail when a model file is missing.
    #[arg(long)]
    offline: bool,
}

/// The ways to decode that are compared; the first is what the others are held against.
const CHOICES: [SpeculationChoice; 3] = SpeculationChoice::ALL;
/// Tokens of the prompt whose reading is measured.
const PREFILL: usize = 256;
/// Tokens of an answer at most, where neither the set nor the command says.
const MAX_TOKENS: u16 = 64;
/// Answers of a set where they run one after the other.
const ALONE: usize = 4;

pub fn run(context: &Context, args: &GenerateBenchArgs) -> CliResult {
    let env = Env::from_process();
    // Room for eight prompts with their answers, each in its own slot; and nothing is computed a second time to compare.
    let room = [
        "generation.slots=8",
        "generation.context_tokens=1024",
        "generation.kv_tokens=8192",
        "speculation.self_check_ratio=0",
    ];
    let set: Vec<String> = room.map(str::to_string).into_iter().chain(args.set.iter().cloned()).collect();
    let model = load_model(&args.model, &env, &set)?.value;
    if !model.ops.contains(&Op::Generate) {
        return Err(CliError::usage(format!("the model `{}` does not generate", model.id))
            .hint("`lanekeeper bench --model` measures speech and text models"));
    }
    let sets = args.sets.iter().map(|name| Ok((name, PromptSet::load(name)?))).collect::<CliResult<Vec<_>>>()?;
    let (files, _) = fetch::models(&context.out, std::slice::from_ref(&model), args.offline, Verify::Stamp)?;
    let mut profile = load_box("demo", &env, &[])?.value;
    let threads = threads(args.threads);
    (profile.cpu_threads, profile.models) = (Some(threads), vec![model]);
    let id = profile.models[0].id.clone();

    let report = doors_runtime()?.block_on(async {
        let engine = Engine::start(profile, files)?;
        tokio::select! {
            biased;
            failure = failure_to_load(&engine, || ()) => return Err(failure),
            () = engine.loaded() => {}
        }
        let front = engine.model_for(&id, Op::Generate)?.front()?;
        let ModelFront::Lm(front) = &*front else {
            return Err(CliError::new(ExitCode::Internal, format!("{id} has no tokenizer for text")));
        };
        let mut bench = Bench { context, args, engine: &engine, model: &id, front, meter: PauseMeter::default() };
        bench.run(&sets, threads).await
    })?;
    if let Some(path) = &args.export {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|e| CliError::new(ExitCode::Internal, format!("the figures cannot be written as JSON: {e}")))?;
        std::fs::write(path, text + "\n").map_err(|e| CliError::file(path, "write", &e))?;
    }
    context.out.result(&report, |out, style| report.write(out, style))?;
    if report.differing() > 0 { Err(CliError::Silent(ExitCode::Unhealthy)) } else { Ok(()) }
}

struct Bench<'a> {
    context: &'a Context,
    args: &'a GenerateBenchArgs,
    engine: &'a Engine,
    model: &'a str,
    front: &'a LmFront,
    meter: PauseMeter,
}

impl Bench<'_> {
    async fn run(&mut self, sets: &[(&String, PromptSet)], threads: usize) -> CliResult<Report> {
        let prompts = sets.iter().map(|(_, set)| set.tokens(self.front)).collect::<CliResult<Vec<Vec<Vec<u32>>>>>()?;
        let most: Vec<u16> =
            sets.iter().map(|(_, set)| self.args.max_tokens.or(set.max_tokens).unwrap_or(MAX_TOKENS)).collect();
        let widths: Vec<usize> = self.args.sequences.iter().map(|n| usize::from(*n)).collect();
        // By set, width and choice: one sample a round.
        let mut samples = vec![vec![vec![Vec::<Sample>::new(); CHOICES.len()]; widths.len()]; sets.len()];
        let mut prefill = Vec::new();
        // Round 0 warms up: it fills caches and lets the gate find out what windows cost.
        for round in 0..=usize::from(self.args.rounds) {
            if round > 0 {
                self.context.out.note(&format!("round {round} of {}", self.args.rounds));
            }
            let read = measure::prefill(self.engine, self.model, &self.unread(round)).await?;
            if round > 0 {
                prefill.push(read);
            }
            for (i, prompts) in prompts.iter().enumerate() {
                for (w, &width) in widths.iter().enumerate() {
                    let some = if width == 1 { &prompts[..prompts.len().min(ALONE)] } else { prompts };
                    self.meter.look();
                    for turn in 0..CHOICES.len() {
                        // Whoever goes first in one round goes last in the next.
                        let c = (turn + round) % CHOICES.len();
                        let sample =
                            measure::decode(self.engine, self.model, some, width, most[i].into(), CHOICES[c]).await?;
                        if round > 0 {
                            samples[i][w][c].push(sample);
                        }
                    }
                }
            }
        }
        let figures = |(i, (name, set)): (usize, &(&String, PromptSet))| {
            let samples = &samples[i];
            widths
                .iter()
                .enumerate()
                .map(|(w, &sequences)| SetFigures {
                    set: (*name).clone(),
                    about: set.about.clone(),
                    max_tokens: most[i].into(),
                    sequences,
                    runs: CHOICES
                        .iter()
                        .zip(&samples[w])
                        .map(|(choice, runs)| RunFigures::of(*choice, runs, &samples[w][0]))
                        .collect(),
                })
                .collect::<Vec<_>>()
        };
        let lost_ratio = self.meter.lost_ratio();
        Ok(Report {
            model: self.model.to_string(),
            threads,
            kernels: Isa::best().name(),
            rounds: self.args.rounds.into(),
            lost_ratio,
            disturbed: lost_ratio > DISTURBED,
            prefill: Rates::of(&prefill),
            sets: sets.iter().enumerate().flat_map(figures).collect(),
        })
    }

    /// A prompt that no round before has read: what a slot still holds would not be read again.
    fn unread(&self, round: usize) -> Vec<u32> {
        let vocab = self.front.config.vocab.max(1) as u32;
        (0..PREFILL as u32).map(|i| (i * 7919 + 11 + 101 * round as u32) % vocab).collect()
    }
}
