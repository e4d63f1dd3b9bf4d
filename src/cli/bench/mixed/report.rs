//! A run for people: the table, and how it compares with one before.

use super::tally::{Quantiles, Run};
use crate::cli::print::text::{counted, figure, known, millis, neutral};
use crate::cli::print::{Cell, Column, Table, TableStyle, Tone};
use serde::Serialize;
use std::io::{self, Write};

/// A run, beside another one if asked.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub run: Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Run>,
}

impl Report {
    pub fn write(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let mut table = Table::new([
            Column::left("KIND"),
            Column::left("PACE"),
            Column::right("SENT"),
            Column::right("FAILED"),
            Column::right("P50"),
            Column::right("P95"),
            Column::right("P99"),
            Column::right("MAX"),
            Column::right("QUEUE P50"),
            Column::right("FIRST P50").wide(),
            Column::right("UNSENT").wide(),
            Column::right("OPEN").wide(),
            Column::right("ANSWERS/S").wide(),
        ]);
        let time = |q: Option<Quantiles>, of: fn(&Quantiles) -> f64| known(q, |q| millis(of(&q)));
        for k in &self.run.kinds {
            let failed = Cell::new(k.failed.to_string());
            table.row([
                Cell::new(k.kind.name()).tone(Tone::Strong),
                k.pace.clone().into(),
                k.sent.into(),
                if k.failed > 0 { failed.tone(Tone::Bad) } else { failed },
                time(k.latency_ms, |q| q.p50).into(),
                time(k.latency_ms, |q| q.p95).into(),
                time(k.latency_ms, |q| q.p99).into(),
                time(k.latency_ms, |q| q.max).into(),
                time(k.queue_ms, |q| q.p50).into(),
                time(k.first_ms, |q| q.p50).into(),
                k.unsent.into(),
                k.open.into(),
                figure(k.answers_per_s).into(),
            ]);
        }
        table.write(out, style)?;
        for k in &self.run.kinds {
            for error in &k.errors {
                writeln!(out, "{}: {}", k.kind.name(), neutral(error))?;
            }
            if k.unsent > 0 {
                let what = counted(k.unsent, "request was", "requests were");
                writeln!(out, "{}: {what} not sent: too many were open, the engine falls behind", k.kind.name())?;
            }
        }
        self.before.as_ref().map_or(Ok(()), |before| self.compare(before, out, style))
    }

    /// The same figures of a run before, and the ratio of this one to it.
    fn compare(&self, before: &Run, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        writeln!(out, "\nagainst the run before ({} on {}):\n", millis(before.seconds * 1e3), neutral(&before.engine))?;
        let mut table = Table::new([
            Column::left("KIND"),
            Column::right("P50"),
            Column::right("BEFORE"),
            Column::right("RATIO"),
            Column::right("P95"),
            Column::right("BEFORE"),
            Column::right("RATIO"),
            Column::right("FAILED"),
            Column::right("BEFORE"),
        ]);
        for k in &self.run.kinds {
            let Some(old) = before.kind(k.kind) else { continue };
            let pair = |of: fn(&Quantiles) -> f64| {
                let (now, then) = (k.latency_ms.as_ref().map(of), old.latency_ms.as_ref().map(of));
                let ratio = now.zip(then).filter(|(_, then)| *then > 0.0).map(|(now, then)| now / then);
                [known(now, millis), known(then, millis), known(ratio, |r| format!("{r:.2}"))]
            };
            let [p50, p50_before, p50_ratio] = pair(|q| q.p50);
            let [p95, p95_before, p95_ratio] = pair(|q| q.p95);
            table.row([
                Cell::new(k.kind.name()).tone(Tone::Strong),
                p50.into(),
                p50_before.into(),
                p50_ratio.into(),
                p95.into(),
                p95_before.into(),
                p95_ratio.into(),
                k.failed.into(),
                old.failed.into(),
            ]);
        }
        table.write(out, style)
    }
}
