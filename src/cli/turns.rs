//! `lanekeeper turns`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{ModelArgs, WatchArgs, show_of};
use super::print::text::{cost, counted, known, millis};
use super::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::Op;
use crate::control::snapshot::{InflightBatch, LaneView, Next, Snapshot, Turn};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};

/// Show whose turn it is where clips and recordings share a model: the turn, its members, what is owed, what is next.
///
/// Turns exist only while recordings are about. A clip that a turn passed over is owed a place: the next turns take what
/// is owed first, oldest first.
#[derive(Debug, Args)]
pub struct TurnsArgs {
    #[command(flatten)]
    of: ModelArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// The turns of one queue that has two lanes.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Turns {
    model: String,
    op: Op,
    slice_windows: Option<u64>,
    recordings_share: Option<f64>,
    turn: Option<Turn>,
    next: Option<Next>,
    inflight: Vec<InflightBatch>,
    lanes: Vec<LaneView>,
}

pub fn run(context: &Context, args: &TurnsArgs) -> CliResult {
    let section = |s: &Snapshot| -> Vec<Turns> {
        let of = |model: &crate::control::snapshot::Model| {
            let id = model.id.clone();
            let two_lanes = model.queues.iter().filter(|q| q.lanes.len() > 1);
            let turns = two_lanes.map(move |q| Turns {
                model: id.clone(),
                op: q.op,
                slice_windows: q.slice_windows,
                recordings_share: q.lanes.iter().rev().find_map(|lane| lane.share),
                turn: q.turn.clone(),
                next: q.next.clone(),
                inflight: q.inflight.clone(),
                lanes: q.lanes.clone(),
            });
            turns.collect::<Vec<_>>()
        };
        s.models.iter().filter(|m| args.of.wants(&m.id)).flat_map(of).collect()
    };
    show_of(context, &args.watch, &args.of, section, |s, out, style| write(&section(s), out, style))
}

fn write(all: &[Turns], out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "no model has two lanes");
    }
    let mut table = Table::new([
        Column::left("MODEL"),
        Column::left("TURN"),
        Column::right("BEGAN"),
        Column::right("LEFT"),
        Column::right("SERVED").spare(2),
        Column::right("LIMIT").spare(3),
        Column::right("OWED"),
        Column::left("NEXT"),
        Column::left("LANE BY").spare(1),
        Column::left("SLICES").wide(),
        Column::right("SHARE").wide(),
        Column::right("CLIPS RAN").wide(),
        Column::right("RECORDINGS RAN").wide(),
    ]);
    for t in all {
        let turn = t.turn.as_ref();
        let ran = |index: usize| known(t.lanes.get(index), |lane| millis(lane.engine_ms));
        table.row([
            Cell::new(&t.model).tone(Tone::Strong),
            Cell::new(turn.map_or("none".to_string(), |turn| format!("{} {}", turn.kind, turn.number))),
            known(turn.and_then(|turn| turn.began_ago_ms), millis).into(),
            known(turn, |turn| turn.members_left.to_string()).into(),
            known(turn, |turn| cost(t.op, turn.served_cost)).into(),
            known(turn.and_then(|turn| turn.limit), |limit| cost(t.op, limit)).into(),
            known(turn, |turn| turn.owed_total.to_string()).into(),
            Cell::new(t.next.as_ref().map_or("nothing is pending".to_string(), next)),
            t.next.as_ref().and_then(|next| next.lane_why.clone()).unwrap_or_default().into(),
            known(t.slice_windows, |n| counted(n, "window", "windows")).into(),
            known(t.recordings_share, |share| format!("{:.0}%", share * 100.0)).into(),
            ran(0).into(),
            ran(1).into(),
        ]);
    }
    table.write(out, style)?;
    let owed = all.iter().flat_map(|t| t.turn.iter().flat_map(move |turn| turn.owed.iter().map(move |owed| (t, owed))));
    let mut table = Table::new([
        Column::left("OWED"),
        Column::left("MODEL"),
        Column::right("COST"),
        Column::right("WAITED"),
        Column::right("WITHIN"),
    ]);
    let mut any = false;
    for (t, owed) in owed {
        any = true;
        table.row([
            Cell::new(&owed.request),
            Cell::new(&t.model),
            cost(t.op, owed.cost).into(),
            millis(owed.waited_ms).into(),
            known(owed.turns_left, |n| counted(n, "turn", "turns")).into(),
        ]);
    }
    if any {
        writeln!(out)?;
        table.write(out, style)?;
    }
    Ok(())
}

/// What would be extracted now, in words.
fn next(next: &Next) -> String {
    format!("{} {}: {}", next.items, next.lane, next.why.replace('_', " "))
}
