//! `lanekeeper models`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{WatchArgs, show};
use super::print::text::{bytes, known, millis};
use super::print::{Cell, Column, Table, Tone};
use crate::control::snapshot::{Counters, Latency, Model, ModelState, Snapshot};
use clap::Args;

/// List the served models: state, memory, what waits and how fast it goes.
///
/// A wide terminal shows more columns, `-o wide` all.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(flatten)]
    watch: WatchArgs,
}

pub fn run(context: &Context, args: &ModelsArgs) -> CliResult {
    show(context, &args.watch, |s| s.models.clone(), |s, out, style| table(s).write(out, style))
}

const COLUMNS: [Column; 13] = [
    Column::left("MODEL"),
    Column::left("FAMILY").wide(),
    Column::left("OPS"),
    Column::left("STATE").at_most(11),
    Column::left("DEVICE").spare(3),
    Column::right("WEIGHTS").spare(2),
    Column::right("KV").wide(),
    Column::right("PENDING"),
    Column::right("RUN"),
    Column::right("SERVED"),
    Column::right("FAILED").wide(),
    Column::right("P50"),
    Column::right("P95").spare(1),
];

/// One row per model.
pub fn table(s: &Snapshot) -> Table {
    let mut table = Table::new(COLUMNS);
    for model in &s.models {
        let load = Load::of(s, model);
        let (state, tone) = state(&model.state);
        let ops: Vec<&str> = model.ops.iter().map(|op| op.name()).collect();
        table.row([
            Cell::new(&model.id).tone(Tone::Strong),
            Cell::new(&model.family),
            Cell::new(ops.join(",")),
            Cell::new(state).tone(tone),
            Cell::new(&model.device),
            known(model.weights_bytes, bytes).into(),
            known(model.kv_bytes, bytes).into(),
            load.pending.into(),
            load.running.into(),
            load.served.into(),
            load.failed.into(),
            known(load.p50_ms, millis).into(),
            known(load.p95_ms, millis).into(),
        ]);
    }
    table
}

fn state(state: &ModelState) -> (String, Tone) {
    match state {
        ModelState::Ready => ("ready".into(), Tone::Good),
        ModelState::Unloaded => ("unloaded".into(), Tone::Dim),
        ModelState::Loading { done_ratio } => (format!("loading {:.0}%", done_ratio * 100.0), Tone::Warn),
        ModelState::Failed { why } => (format!("failed: {why}"), Tone::Bad),
    }
}

/// A model's work over all its queues: sums, and the latency of the queue that was used most.
#[derive(Default)]
struct Load {
    pending: u64,
    running: u64,
    served: u64,
    failed: u64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
}

impl Load {
    fn of(s: &Snapshot, model: &Model) -> Load {
        let mut load = Load::default();
        let mut busiest = 0;
        let mut add = |counters: &Counters, latency: &Latency| {
            load.served += counters.served;
            load.failed += counters.failed;
            if latency.window > busiest {
                busiest = latency.window;
                (load.p50_ms, load.p95_ms) = (latency.p50_ms, latency.p95_ms);
            }
        };
        for queue in &model.queues {
            add(&queue.counters, &queue.latency);
        }
        for generation in s.generation.iter().filter(|g| g.model == model.id) {
            add(&generation.counters, &generation.latency);
        }
        for lane in model.queues.iter().flat_map(|q| &q.lanes) {
            load.pending += lane.pending;
            load.running += lane.running;
        }
        for generation in s.generation.iter().filter(|g| g.model == model.id) {
            load.pending += generation.queued;
            load.running += generation.slots_used;
        }
        load
    }
}
