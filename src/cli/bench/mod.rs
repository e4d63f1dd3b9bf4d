//! `lanekeeper bench`: how fast the models are on this machine.

mod generate;
mod mixed;
mod models;
mod timing;

use super::context::Context;
use super::error::{CliError, CliResult};
use super::fetch;
use super::print::text::{bytes, figure, known, millis};
use super::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::{ExitCode, Op};
use crate::engine::models::kernels::Isa;
use crate::engine::models::{LoadedModel, ModelBack, ModelFront, load, set_cpu_threads};
use crate::profile::{Env, ModelProfile, load_model};
use crate::pull::Verify;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::io::{self, Write};
use std::time::Instant;
use timing::{Figure, PauseMeter};

/// Measure the models of this machine alone, without queues and doors.
///
/// Speech: audio seconds per second for one clip, clips together and a recording. Language: tokens per second for
/// reading a prompt and for writing with 1, 4 and 8 sequences. Text: texts per second, short and long. Each figure is
/// the best of several rounds, with the middle one and the rate per second of CPU time beside it; when the machine took
/// more than 5% of the time away, the run is marked as disturbed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Model profiles, by name or path [default: the demo's three].
    #[arg(short, long, value_name = "MODEL", default_values = ["whisper-tiny-en", "smollm2-135m", "minilm-l6"])]
    model: Vec<String>,
    /// Threads for model work [default: the cores of this process].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Rounds of each measurement.
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Measure only what has this in its name; may be given several times.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Fetch nothing: fail when a model file is missing.
    #[arg(long)]
    offline: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    Generate(generate::GenerateBenchArgs),
    Mixed(mixed::MixedBenchArgs),
}

/// Share of lost time above which figures say little.
const DISTURBED: f64 = 0.05;

#[derive(Serialize)]
struct Result {
    threads: usize,
    kernels: &'static str,
    lost_ratio: f64,
    disturbed: bool,
    loads: Vec<Loaded>,
    figures: Vec<Figure>,
}

#[derive(Serialize)]
struct Loaded {
    model: String,
    load_ms: f64,
    weights_bytes: u64,
}

pub fn run(context: &Context, args: &BenchArgs) -> CliResult {
    match &args.what {
        Some(What::Generate(args)) => return generate::run(context, args),
        Some(What::Mixed(args)) => return mixed::run(context, args),
        None => {}
    }
    let threads = threads(args.threads);
    // Before the first model: the pool is made once.
    set_cpu_threads(threads);
    let env = Env::from_process();
    let profiles = args.model.iter().map(|m| profile(m, &env)).collect::<CliResult<Vec<_>>>()?;
    let (files, _) = fetch::models(&context.out, &profiles, args.offline, Verify::Stamp)?;
    let mut result = Result {
        threads,
        kernels: Isa::best().name(),
        lost_ratio: 0.0,
        disturbed: false,
        loads: Vec::new(),
        figures: Vec::new(),
    };
    let mut meter = PauseMeter::default();
    for profile in &profiles {
        context.out.note(&format!("measuring {}", profile.id));
        let began = Instant::now();
        let paths = files.get(&profile.id).cloned().unwrap_or_default();
        let LoadedModel { front, back } = load(profile, &paths)?;
        let load_ms = began.elapsed().as_secs_f64() * 1e3;
        let weights_bytes = match &back {
            ModelBack::Speech(m) => m.weights_bytes(),
            ModelBack::Text(m) => m.weights_bytes(),
            ModelBack::Lm(m) => m.weights_bytes(),
        };
        result.loads.push(Loaded { model: profile.id.clone(), load_ms, weights_bytes });
        let mut bench = models::Bench {
            model: &profile.id,
            rounds: args.rounds.into(),
            only: &args.only,
            meter: &mut meter,
            figures: &mut result.figures,
        };
        match (back, &front) {
            (ModelBack::Speech(mut model), _) => bench.speech(model.as_mut())?,
            (ModelBack::Lm(mut model), _) => bench.language(model.as_mut())?,
            (ModelBack::Text(mut model), ModelFront::Text(front)) => bench.text(model.as_mut(), front)?,
            (ModelBack::Text(_), _) => {
                return Err(CliError::new(ExitCode::Internal, format!("{} has no tokenizer", profile.id)));
            }
        }
    }
    result.lost_ratio = meter.lost_ratio();
    result.disturbed = result.lost_ratio > DISTURBED;
    context.out.result(&result, |out, style| write(&result, out, style))
}

/// Threads for model work: as asked, else one for each core that this process may use.
fn threads(asked: Option<u16>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from)
}

/// A model profile with room for eight sequences where it generates.
fn profile(reference: &str, env: &Env) -> CliResult<ModelProfile> {
    let plain = load_model(reference, env, &[])?.value;
    if !plain.ops.contains(&Op::Generate) {
        return Ok(plain);
    }
    let room = ["generation.slots=8", "generation.context_tokens=512", "generation.kv_tokens=4096"];
    Ok(load_model(reference, env, &room.map(str::to_string))?.value)
}

fn write(result: &Result, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let mut table = Table::new([
        Column::left("MODEL"),
        Column::left("MEASURE"),
        Column::right("BEST"),
        Column::left(""),
        Column::right("P50"),
        Column::right("PER CPU-S"),
        Column::right("BEST ROUND"),
        Column::right("ROUNDS").wide(),
    ]);
    for f in &result.figures {
        table.row([
            Cell::new(&f.model),
            Cell::new(&f.measure),
            Cell::new(figure(f.best)).tone(Tone::Strong),
            format!("{}/s", f.unit).into(),
            figure(f.p50).into(),
            known(f.per_cpu_s, figure).into(),
            millis(f.best_ms).into(),
            f.rounds.into(),
        ]);
    }
    table.write(out, style)?;
    writeln!(out)?;
    for l in &result.loads {
        writeln!(out, "{} loaded in {}, {} of weights", l.model, millis(l.load_ms), bytes(l.weights_bytes))?;
    }
    let lost = format!("{:.1}% of the watched time was taken away", result.lost_ratio * 100.0);
    writeln!(out, "{} threads, {} kernels; {lost}", result.threads, result.kernels)?;
    if result.disturbed {
        let text = "disturbed: the machine was busy elsewhere; believe the best rounds and the CPU figures only";
        writeln!(out, "{}", Tone::Warn.paint(text, style.colour))?;
    }
    Ok(())
}
