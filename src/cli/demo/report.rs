//! The demo's result: a table per kind, and a verdict per check. Pure.

use super::record::{CHECKS, Kind, Seen, quantile};
use crate::cli::print::text::{figure, known, millis};
use crate::cli::print::{Cell, Column, Table, TableStyle, Tone};
use serde::Serialize;
use std::io::{self, Write};

/// Share of the clips' words that must be right.
const WORDS_RIGHT: f64 = 0.9;

/// One kind of request.
#[derive(Debug, Clone, Serialize)]
pub struct KindReport {
    pub kind: &'static str,
    pub requests: usize,
    pub errors: usize,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub queue_p50_ms: Option<f64>,
    /// Work per second, from the first request of this kind to the last answer; absent when none was answered.
    pub rate: Option<f64>,
    pub unit: &'static str,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub check: &'static str,
    /// Absent when the demo ended before it could be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
    pub detail: String,
}

/// The whole result.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub seconds: f64,
    pub ended_early: bool,
    pub kinds: Vec<KindReport>,
    pub words_right_ratio: Option<f64>,
    pub first_token_p50_ms: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub checks: Vec<Verdict>,
    pub right: bool,
}

/// Facts of the engine that the load cannot see.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineFacts {
    pub chat_queue_p50_ms: Option<f64>,
    pub resident_bytes: Option<u64>,
}

impl Report {
    pub fn new(seen: &Seen, seconds: f64, ended_early: bool, facts: EngineFacts) -> Report {
        let kinds = Kind::ALL.map(|kind| kind_report(seen, kind, facts)).to_vec();
        let checks = verdicts(seen, ended_early);
        let right =
            checks.iter().all(|c| c.right != Some(false)) && (ended_early || checks.iter().all(|c| c.right.is_some()));
        Report {
            seconds,
            ended_early,
            kinds,
            words_right_ratio: seen.words_right(),
            first_token_p50_ms: quantile(&mut seen.first_piece_ms.clone(), 0.5),
            resident_bytes: facts.resident_bytes,
            checks,
            right,
        }
    }

    /// Writes the result for people.
    pub fn write(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let mut table = Table::new([
            Column::left("KIND"),
            Column::right("REQUESTS"),
            Column::right("ERRORS"),
            Column::right("P50"),
            Column::right("P95"),
            Column::right("QUEUED P50"),
            Column::right("RATE"),
            Column::left(""),
        ]);
        for k in &self.kinds {
            table.row([
                Cell::new(k.kind).tone(Tone::Strong),
                k.requests.into(),
                Cell::from(k.errors).tone(if k.errors > 0 { Tone::Bad } else { Tone::Plain }),
                known(k.p50_ms, millis).into(),
                known(k.p95_ms, millis).into(),
                known(k.queue_p50_ms, millis).into(),
                known(k.rate, figure).into(),
                k.unit.into(),
            ]);
        }
        table.write(out, style)?;
        writeln!(out)?;
        for c in &self.checks {
            let (word, tone) = match c.right {
                Some(true) => ("ok", Tone::Good),
                Some(false) => ("WRONG", Tone::Bad),
                None => ("not run", Tone::Dim),
            };
            writeln!(out, "{} {}: {}", tone.paint(&format!("{word:<7}"), style.colour), c.check, c.detail)?;
        }
        writeln!(out)?;
        let memory = self.resident_bytes.map(|b| format!(", {} resident", crate::cli::print::text::bytes(b)));
        let first = self.first_token_p50_ms.map(|ms| format!(", first token after {}", millis(ms)));
        let word = match (self.right, self.ended_early) {
            (true, false) => "all right",
            (true, true) => "ended early; all right so far",
            (false, _) => "not all right",
        };
        let tone = if self.right { Tone::Good } else { Tone::Bad };
        writeln!(
            out,
            "{} after {}{}{}",
            tone.paint(word, style.colour),
            millis(self.seconds * 1e3),
            first.unwrap_or_default(),
            memory.unwrap_or_default()
        )
    }
}

fn kind_report(seen: &Seen, kind: Kind, facts: EngineFacts) -> KindReport {
    let of_kind = || seen.samples.iter().filter(|s| s.kind == kind);
    let answered = || of_kind().filter(|s| s.error.is_none());
    let mut latencies: Vec<f64> = answered().map(|s| s.latency.as_secs_f64() * 1e3).collect();
    let mut queues: Vec<f64> = answered().filter_map(|s| s.queue_ms).collect();
    let queue_p50_ms = quantile(&mut queues, 0.5);
    let first = of_kind().map(|s| s.ended.saturating_sub(s.latency)).min().unwrap_or_default();
    let last = of_kind().map(|s| s.ended).max().unwrap_or_default();
    let span = last.saturating_sub(first).as_secs_f64();
    KindReport {
        kind: kind.name(),
        requests: of_kind().count(),
        errors: of_kind().filter(|s| s.error.is_some()).count(),
        p50_ms: quantile(&mut latencies, 0.5),
        p95_ms: quantile(&mut latencies, 0.95),
        // A stream's head is sent before its queue time is worth telling: the engine's own figure stands in.
        queue_p50_ms: if kind == Kind::Chat { facts.chat_queue_p50_ms } else { queue_p50_ms },
        rate: answered().next().map(|_| answered().map(|s| s.work).sum::<f64>() / span.max(1e-9)),
        unit: kind.unit(),
    }
}

fn verdicts(seen: &Seen, ended_early: bool) -> Vec<Verdict> {
    let done = |kind| seen.samples.iter().any(|s| s.kind == kind && s.error.is_none());
    let by_faults = |index: usize, kind: Kind, good: String| {
        let faults = seen.faults.get(CHECKS[index]).map(Vec::as_slice).unwrap_or_default();
        match faults {
            [only] => verdict(index, Some(false), only.clone()),
            [first, rest @ ..] => verdict(index, Some(false), format!("{first}, and {} more", rest.len())),
            [] if done(kind) => verdict(index, Some(true), good),
            // A kind of which nothing was answered proves nothing.
            [] => verdict(index, if ended_early { None } else { Some(false) }, "none was answered".into()),
        }
    };
    let errors = seen.errors();
    let first_error = seen.samples.iter().find_map(|s| s.error.clone()).unwrap_or_default();
    let answered = match errors {
        0 => verdict(0, Some(true), format!("{} requests", seen.samples.len())),
        n => verdict(0, Some(false), format!("{n} of {} failed: {first_error}", seen.samples.len())),
    };
    let words = match seen.words_right() {
        Some(share) => {
            let detail =
                format!("{} of {} ({:.1}%)", seen.words_said - seen.word_errors, seen.words_said, share * 100.0);
            verdict(1, Some(share >= WORDS_RIGHT), detail)
        }
        None => verdict(1, if ended_early { None } else { Some(false) }, "no clip was answered".into()),
    };
    vec![
        answered,
        words,
        by_faults(2, Kind::Recording, "all 13".into()),
        by_faults(3, Kind::Embedding, "finite, of length 1".into()),
        by_faults(4, Kind::Embedding, "for every text".into()),
        by_faults(5, Kind::Rerank, "for every query".into()),
        by_faults(6, Kind::Chat, format!("{} questions", seen.answers.len())),
    ]
}

fn verdict(index: usize, right: Option<bool>, detail: String) -> Verdict {
    Verdict { check: CHECKS[index], right, detail }
}

#[cfg(test)]
mod tests {
    use super::super::record::Sample;
    use super::*;
    use std::time::Duration;

    fn seen_all() -> Seen {
        let mut seen = Seen::default();
        for kind in Kind::ALL {
            let (latency, ended) = (Duration::from_millis(20), Duration::from_secs(4));
            seen.samples.push(Sample { kind, latency, ended, queue_ms: Some(1.0), work: 10.0, error: None });
        }
        seen.hear("one two", "one two");
        seen
    }

    #[test]
    fn all_right_needs_every_kind() {
        let report = Report::new(&seen_all(), 5.0, false, EngineFacts::default());
        assert!(report.right, "{:?}", report.checks);
        assert_eq!((report.kinds[0].rate.map(f64::round), report.kinds[0].p50_ms), (Some(500.0), Some(20.0)));
        for kind in Kind::ALL {
            let mut seen = seen_all();
            seen.samples.retain(|s| s.kind != kind);
            if kind == Kind::Clip {
                seen.words_said = 0;
            }
            assert!(!Report::new(&seen, 5.0, false, EngineFacts::default()).right, "{kind:?}");
            assert!(Report::new(&seen, 5.0, true, EngineFacts::default()).right, "{kind:?} when ended early");
        }
    }

    #[test]
    fn any_fault_or_error_is_wrong() {
        for check in CHECKS.iter().skip(2) {
            let mut seen = seen_all();
            seen.fault(check, "x".into());
            assert!(!Report::new(&seen, 5.0, false, EngineFacts::default()).right, "{check}");
        }
        let mut seen = seen_all();
        seen.samples[0].error = Some("broke".into());
        let report = Report::new(&seen, 5.0, true, EngineFacts::default());
        assert!(!report.right);
        assert!(report.checks[0].detail.contains("1 of 5 failed: broke"));
        let mut seen = seen_all();
        seen.hear("a b c d e f g h", "");
        assert!(!Report::new(&seen, 5.0, false, EngineFacts::default()).right, "too few words right");
    }

    #[test]
    fn the_table_has_a_line_per_kind_and_check() {
        let mut out = Vec::new();
        Report::new(&seen_all(), 5.0, false, EngineFacts::default()).write(&mut out, TableStyle::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("clips"), "{text}");
        assert!(text.contains("audio-s/s") && text.contains("ok      rerank puts"), "{text}");
        assert!(text.ends_with("all right after 5.00 s\n"), "{text}");
    }
}
