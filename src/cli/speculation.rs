//! `lanekeeper speculation`.

use super::context::Context;
use super::error::CliResult;
use super::noun::{ModelArgs, WatchArgs, show_of};
use super::print::text::known;
use super::print::{Cell, Column, Table, TableStyle, Tone};
use crate::control::Snapshot;
use crate::control::speculation::{DepthCounts, DraftModelView, SURVIVAL_DEPTHS, SpeculationView};
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// Show how each language model speculates: whether the gate is open and why, what it gains, how deep proposals hold.
///
/// Bars show which part of the last proposals held to depth 1, 2, 3 and so on; a full bar is all of them. `native` are
/// drafts of the model's own, `tail` are copies from the text. With -o wide, the totals since start and the self-check:
/// answers that were made with windows and computed again without.
#[derive(Debug, Args)]
pub struct SpeculationArgs {
    #[command(flatten)]
    of: ModelArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct Named {
    model: String,
    #[serde(flatten)]
    view: SpeculationView,
}

pub fn run(context: &Context, args: &SpeculationArgs) -> CliResult {
    let section = |s: &Snapshot| -> Vec<Named> {
        let of = |g: &crate::control::snapshot::Generation| {
            Some(Named { model: g.model.clone(), view: g.speculation.clone()? })
        };
        s.generation.iter().filter(|g| args.of.wants(&g.model)).filter_map(of).collect()
    };
    show_of(context, &args.watch, &args.of, section, |s, out, style| people(&section(s), out, style))
}

const COLUMNS: [Column; 15] = [
    Column::left("MODEL"),
    Column::left("POLICY").spare(1),
    Column::left("GATE"),
    Column::right("PREDICTED"),
    Column::right("MEASURED"),
    Column::right("WIDTH").spare(2),
    Column::right("ACCEPTED"),
    Column::left("NATIVE"),
    Column::left("TAIL"),
    Column::right("WINDOWS").wide(),
    Column::right("DRAFTED").wide(),
    Column::right("HELD").wide(),
    Column::right("TURNS").wide(),
    Column::right("CHECKED").wide(),
    Column::right("DIFFERED").wide(),
];

fn people(models: &[Named], out: &mut dyn Write, style: TableStyle) -> std::io::Result<()> {
    let mut table = Table::new(COLUMNS);
    let gain = |g: Option<f64>| known(g, |g| format!("x{g:.2}"));
    for Named { model, view } in models {
        let tone = if view.gate.on { Tone::Good } else { Tone::Plain };
        table.row([
            Cell::new(model).tone(Tone::Strong),
            view.policy.name().into(),
            Cell::new(view.gate.state()).tone(tone),
            gain(view.gate.predicted_gain).into(),
            gain(view.gate.measured_gain).into(),
            known(view.width_mean, |w| format!("{w:.1} of {}", view.width_max)).into(),
            known(view.accept_ratio, |r| format!("{:.0} %", r * 100.0)).into(),
            bars(&view.recent.survival.native).into(),
            bars(&view.recent.survival.tail).into(),
            view.totals.windows.into(),
            view.totals.drafted.into(),
            view.totals.accepted.into(),
            view.turns.into(),
            view.self_check.checked.into(),
            Cell::new(view.self_check.differed.to_string()).tone(if view.self_check.differed > 0 {
                Tone::Bad
            } else {
                Tone::Plain
            }),
        ]);
    }
    table.write(out, style)?;
    for Named { model, view } in models {
        writeln!(out, "{model}: {}.", view.gate.because.sentence())?;
        if let Some(draft) = &view.draft {
            writeln!(out, "{model}: {}", drafts(draft))?;
        }
        for d in &view.self_check.differences {
            writeln!(out, "{model}: {} came out differently from token {} of {}.", d.request, d.at, d.of)?;
        }
    }
    Ok(())
}

/// What the draft model does, in a sentence.
fn drafts(draft: &DraftModelView) -> String {
    let DraftModelView { model, passes, tokens, .. } = draft;
    match (&draft.why, draft.pass_ms) {
        (Some(why), _) => format!("{model} drafted {tokens} tokens and was turned off: {why}."),
        (None, Some(ms)) => format!("{model} drafted {tokens} tokens in {passes} passes, {ms:.1} ms each."),
        (None, None) => format!("{model} drafts, and has not been tried yet."),
    }
}

/// A bar per depth; `-` where nothing was proposed so deep.
fn bars(counts: &DepthCounts) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |depth| match counts.rate(depth) {
        Some(rate) => BARS[((rate * BARS.len() as f64) as usize).min(BARS.len() - 1)],
        None => '-',
    };
    if counts.rate(1).is_none() {
        return "-".to_string();
    }
    (1..=SURVIVAL_DEPTHS).map(bar).collect::<String>().trim_end_matches('-').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_rise_with_the_part_that_held() {
        let mut counts = DepthCounts::default();
        assert_eq!(bars(&counts), "-");
        for survived in [0, 1, 2, 2] {
            counts.count(3, survived);
        }
        // 3 of 4, 2 of 4, none of 4; nothing was proposed deeper.
        assert_eq!(bars(&counts), "▇▅▁");
    }
}
