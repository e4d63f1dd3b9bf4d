//! `lanekeeper lanes`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{ModelArgs, WatchArgs, show_of};
use super::print::text::{cost, known, millis};
use super::print::{Cell, Column, Table, Tone};
use crate::control::snapshot::{Generation, LaneProgress, Pace, Queue, Snapshot};
use crate::control::{Lane, Op};
use clap::Args;
use serde::Serialize;

/// Show each model's lanes: what waits, what runs, and what would go next.
///
/// A model whose requests all go through one lane shows its operation there; a language model shows the slots that run and
/// its KV. COST is audio for speech and tokens for texts. A wide terminal shows more, `-o wide` all; WAIT and TOOK are the
/// median and the 95th percentile of the last minute, until requests started and until they were served.
///
/// A lane that is stuck (work waits that could be started, and is not) says so in NEXT.
///
/// The data formats give `queues` (one per model and operation, with lanes, caps, running and recent batches) and
/// `generation` (slots, sequences and KV of the language models).
#[derive(Debug, Args)]
pub struct LanesArgs {
    #[command(flatten)]
    of: ModelArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct Lanes {
    queues: Vec<NamedQueue>,
    generation: Vec<Generation>,
    /// Whether what waits gets on.
    progress: Vec<LaneProgress>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct NamedQueue {
    model: String,
    #[serde(flatten)]
    queue: Queue,
}

pub fn run(context: &Context, args: &LanesArgs) -> CliResult {
    let section = |s: &Snapshot| Lanes {
        queues: s
            .models
            .iter()
            .filter(|m| args.of.wants(&m.id))
            .flat_map(|m| m.queues.iter().map(|q| NamedQueue { model: m.id.clone(), queue: q.clone() }))
            .collect(),
        generation: s.generation.iter().filter(|g| args.of.wants(&g.model)).cloned().collect(),
        progress: s.progress.iter().filter(|lane| args.of.wants(&lane.model)).cloned().collect(),
    };
    show_of(context, &args.watch, &args.of, section, |s, out, style| table(&section(s)).write(out, style))
}

const COLUMNS: [Column; 23] = [
    Column::left("MODEL"),
    Column::left("OP").wide(),
    Column::left("LANE"),
    Column::right("PENDING"),
    Column::right("COST"),
    Column::right("OLDEST"),
    Column::right("RUN"),
    Column::right("ASIDE").wide(),
    Column::right("SERVED").spare(1),
    Column::right("CANCELLED").wide(),
    Column::right("EXPIRED").wide(),
    Column::right("FAILED").wide(),
    Column::right("REFUSED").wide(),
    Column::right("CAP").wide(),
    Column::right("BATCHES").wide(),
    Column::right("SHARE").wide(),
    Column::right("ESTIMATES OFF").wide(),
    Column::right("WAIT").wide(),
    Column::right("TOOK").wide(),
    Column::right("PER S").wide(),
    Column::left("NEXT"),
    Column::left("OF COST").spare(2),
    Column::left("LANE BY").spare(3),
];

impl Lanes {
    /// For how long a lane has been stuck, in words; `None` = it is not.
    fn stuck(&self, model: &str, op: Op, lane: Option<Lane>) -> Option<String> {
        let same = |p: &&LaneProgress| p.model == model && p.op == op && p.lane == lane;
        let stuck = self.progress.iter().find(same)?.stuck_ms?;
        Some(format!("stuck for {}", millis(stuck)))
    }
}

/// Waits, whole times and rate of the last minute.
fn pace(pace: &Pace) -> [Cell; 3] {
    let both = |p50: Option<f64>, p95: Option<f64>| match (p50, p95) {
        (Some(p50), Some(p95)) => format!("{} {}", millis(p50), millis(p95)),
        _ => "–".to_string(),
    };
    let (wait, took) = (both(pace.wait_p50_ms, pace.wait_p95_ms), both(pace.p50_ms, pace.p95_ms));
    [wait.into(), took.into(), format!("{:.2}", pace.served_per_s).into()]
}

fn table(lanes: &Lanes) -> Table {
    let mut table = Table::new(COLUMNS);
    for NamedQueue { model, queue } in &lanes.queues {
        for lane in &queue.lanes {
            let next = queue.next.as_ref().filter(|next| next.lane == lane.lane);
            // Where all goes through one lane the operation says more than its name.
            let name = if queue.lanes.len() > 1 { lane.lane.name() } else { queue.op.name() };
            let stuck = lanes.stuck(model, queue.op, Some(lane.lane));
            let [wait, took, rate] = pace(&lane.pace);
            let (what, tone) = match (stuck, next) {
                (Some(stuck), _) => (stuck, Tone::Bad),
                (None, _) if lane.paused => ("paused".to_string(), Tone::Warn),
                (None, Some(next)) => (format!("{}: {}", next.items, next.why), Tone::Plain),
                (None, None) => (String::new(), Tone::Plain),
            };
            table.row([
                Cell::new(model).tone(Tone::Strong),
                queue.op.into(),
                name.into(),
                lane.pending.into(),
                cost(queue.op, lane.cost).into(),
                known(lane.oldest_wait_ms, millis).into(),
                lane.running.into(),
                lane.put_aside.into(),
                lane.served.into(),
                lane.cancelled.into(),
                lane.expired.into(),
                lane.failed.into(),
                queue.counters.refused.into(),
                cost(queue.op, queue.caps.max_batch_cost_effective).into(),
                queue.counters.batches.into(),
                known(lane.share, |share| format!("{:.0}%", share * 100.0)).into(),
                known(lane.estimate_error, |e| format!("{:.0}% ({})", e.median_ratio * 100.0, e.window)).into(),
                wait,
                took,
                rate,
                Cell::new(what).tone(tone),
                next.map(|next| cost(queue.op, next.cost)).unwrap_or_default().into(),
                next.and_then(|next| next.lane_why.clone()).unwrap_or_default().into(),
            ]);
        }
    }
    for g in &lanes.generation {
        let [wait, took, per_s] = pace(&g.pace);
        let what = match lanes.stuck(&g.model, Op::Generate, None) {
            Some(stuck) => Cell::new(stuck).tone(Tone::Bad),
            None => Cell::new(format!("kv {}/{}", g.kv_used_tokens, g.kv_capacity_tokens)),
        };
        let rate = g.decode_tokens_per_s.map(|r| format!("{r:.0} tok/s")).unwrap_or_default();
        table.row([
            Cell::new(&g.model).tone(Tone::Strong),
            "generate".into(),
            "generate".into(),
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
            cost(Op::Generate, g.kv_capacity_tokens).into(),
            g.iterations.into(),
            "-".into(),
            "-".into(),
            wait,
            took,
            per_s,
            what,
            rate.into(),
            Cell::default(),
        ]);
    }
    table
}
