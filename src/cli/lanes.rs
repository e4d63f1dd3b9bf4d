//! `lanekeeper lanes`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{WatchArgs, show};
use super::print::text::{known, millis};
use super::print::{Cell, Column, Table, Tone};
use crate::control::snapshot::{Generation, Queue, Snapshot};
use clap::Args;
use serde::Serialize;

/// Show each model's lanes: what waits, what runs, and what would go next.
///
/// The data formats give `queues` (one per model and operation, with lanes, caps, running and recent batches) and
/// `generation` (slots, sequences and KV of the language models).
#[derive(Debug, Args)]
pub struct LanesArgs {
    /// Show only this model.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Serialize)]
struct Lanes {
    queues: Vec<NamedQueue>,
    generation: Vec<Generation>,
}

#[derive(Serialize)]
struct NamedQueue {
    model: String,
    #[serde(flatten)]
    queue: Queue,
}

pub fn run(context: &Context, args: &LanesArgs) -> CliResult {
    let wanted = |id: &str| args.model.as_deref().is_none_or(|m| m == id);
    let section = |s: &Snapshot| Lanes {
        queues: s
            .models
            .iter()
            .filter(|m| wanted(&m.id))
            .flat_map(|m| m.queues.iter().map(|q| NamedQueue { model: m.id.clone(), queue: q.clone() }))
            .collect(),
        generation: s.generation.iter().filter(|g| wanted(&g.model)).cloned().collect(),
    };
    show(context, &args.watch, section, |s, out, style| table(&section(s)).write(out, style))
}

const COLUMNS: [Column; 18] = [
    Column::left("MODEL"),
    Column::left("OP"),
    Column::left("LANE"),
    Column::right("PENDING"),
    Column::right("COST"),
    Column::right("OLDEST"),
    Column::right("RUNNING"),
    Column::right("ASIDE").wide(),
    Column::right("SERVED"),
    Column::right("CANCELLED").wide(),
    Column::right("EXPIRED").wide(),
    Column::right("FAILED").wide(),
    Column::right("REFUSED").wide(),
    Column::right("CAP").wide(),
    Column::right("BATCHES").wide(),
    Column::right("SHARE").wide(),
    Column::right("ESTIMATES OFF").wide(),
    Column::left("NEXT"),
];

fn table(lanes: &Lanes) -> Table {
    let mut table = Table::new(COLUMNS);
    for NamedQueue { model, queue } in &lanes.queues {
        for lane in &queue.lanes {
            let next = match &queue.next {
                Some(next) if next.lane == lane.lane => {
                    let why = next.lane_why.as_deref().map(|why| format!(", {why}")).unwrap_or_default();
                    format!("{} of cost {}: {}{why}", next.items, next.cost, next.why)
                }
                _ => String::new(),
            };
            let name = if lane.paused { format!("{} (paused)", lane.lane) } else { lane.lane.to_string() };
            table.row([
                Cell::new(model).tone(Tone::Strong),
                queue.op.into(),
                Cell::new(name).tone(if lane.paused { Tone::Warn } else { Tone::Plain }),
                lane.pending.into(),
                lane.cost.into(),
                known(lane.oldest_wait_ms, millis).into(),
                lane.running.into(),
                lane.put_aside.into(),
                lane.served.into(),
                lane.cancelled.into(),
                lane.expired.into(),
                lane.failed.into(),
                queue.counters.refused.into(),
                queue.caps.max_batch_cost_effective.into(),
                queue.counters.batches.into(),
                known(lane.share, |share| format!("{:.0}%", share * 100.0)).into(),
                known(lane.estimate_error, |e| format!("{:.0}% ({})", e.median_ratio * 100.0, e.window)).into(),
                Cell::new(next),
            ]);
        }
    }
    for g in &lanes.generation {
        let rate = g.decode_tokens_per_s.map(|r| format!(", {r:.0} tokens/s")).unwrap_or_default();
        table.row([
            Cell::new(&g.model).tone(Tone::Strong),
            "generate".into(),
            "slots".into(),
            g.queued.into(),
            "-".into(),
            "-".into(),
            format!("{}/{}", g.slots_used, g.slots).into(),
            "-".into(),
            g.counters.served.into(),
            g.counters.cancelled.into(),
            g.counters.expired.into(),
            g.counters.failed.into(),
            g.counters.refused.into(),
            g.kv_capacity_tokens.into(),
            g.iterations.into(),
            "-".into(),
            "-".into(),
            Cell::new(format!("kv {}/{}{rate}", g.kv_used_tokens, g.kv_capacity_tokens)),
        ]);
    }
    table
}
