//! `lanekeeper why`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::noun::{WatchArgs, try_show};
use super::print::text::{counted, known, millis, neutral};
use super::print::{TableStyle, Tone};
use crate::control::snapshot::{EstimateError, Outcome, Request, RequestState, Snapshot};
use crate::control::{ExitCode, Lane, WaitCode};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};

/// Say why a request waits: the reason, what it waits for, how long it can still take, and what to do about it.
///
/// The bound holds whatever else arrives: it counts the turns of the request's lane that can still begin before it is
/// taken. The estimate is measured: what runs, what goes first, and how long such batches took so far.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The request's id, as `lanekeeper requests` lists it (req-17).
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    watch: WatchArgs,
}

/// A request and the reason for its wait.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Why {
    #[serde(flatten)]
    request: Request,
    /// Absent when it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// Requests that wait in its lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    lane_pending: Option<u64>,
    /// How good estimates in its lane were.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate_error: Option<EstimateError>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Reason {
    code: WaitCode,
    sentence: &'static str,
    way_out: &'static str,
}

pub fn run(context: &Context, args: &WhyArgs) -> CliResult {
    let section = |s: &Snapshot| Why::of(s, &args.id);
    try_show(context, &args.watch, section, |s, out, style| match Why::of(s, &args.id) {
        Ok(why) => why.write(out, style),
        Err(_) => Ok(()),
    })
}

impl Why {
    fn of(s: &Snapshot, id: &str) -> CliResult<Why> {
        let Some(request) = s.requests.shown.iter().find(|r| r.id == id) else {
            let message = format!("there is no request `{}` in the engine, and none that ended lately", neutral(id));
            let hint = match s.requests.total as usize > s.requests.shown.len() {
                true => format!("{} requests are alive; the engine shows {}", s.requests.total, s.requests.shown.len()),
                false => "`lanekeeper requests` lists those that it knows".to_string(),
            };
            return Err(CliError::new(ExitCode::Refused, message).hint(hint));
        };
        let queue =
            s.models.iter().find(|m| m.id == request.model).and_then(|m| m.queues.iter().find(|q| q.op == request.op));
        let lane = queue.and_then(|q| q.lanes.iter().find(|l| Some(l.lane) == request.lane));
        let reason = request.wait.as_ref().map(|wait| Reason {
            code: wait.code,
            sentence: wait.code.sentence(),
            way_out: wait.code.way_out(),
        });
        Ok(Why {
            request: request.clone(),
            reason,
            lane_pending: lane.map(|l| l.pending + l.put_aside),
            estimate_error: lane.and_then(|l| l.estimate_error),
        })
    }

    fn write(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let r = &self.request;
        let strong = |text: &str| Tone::Strong.paint(&neutral(text), style.colour).to_string();
        let (Some(reason), Some(wait)) = (&self.reason, &r.wait) else { return self.write_moving(out, style) };
        let started = if r.running_ms.is_some() { ", put aside between two slices" } else { "" };
        writeln!(out, "{} waits: {}{started}", strong(&r.id), Tone::Warn.paint(reason.code.name(), style.colour))?;
        writeln!(out, "  {}", reason.sentence)?;
        let mut line = |head: &str, text: String| writeln!(out, "  {head:<9} {}", neutral(&text));
        if let Some(on) = &wait.on {
            line("for", on.clone())?;
        }
        let of = known(self.lane_pending.filter(|n| *n > 0), |n| format!(" of {n}"));
        let of = if of == "-" { String::new() } else { of };
        let place = known(r.position, |p| format!("{p}{of}"));
        let queue = r.lane.map_or("queue", Lane::name);
        line("place", format!("{place} in the {queue} of {} ({})", r.model, r.op))?;
        line(
            "bound",
            match wait.turns_left {
                Some(0) => "in the turn under way or the one that is due: no other turn goes first".to_string(),
                Some(n) => format!("taken within {} from now, whatever arrives", counted(n, "turn", "turns")),
                None => "no turns while the lanes do not compete: it goes in its order".to_string(),
            },
        )?;
        let error = self.estimate_error.map(|e| {
            let requests = counted(e.window, "request", "requests");
            format!(" (estimates of this lane were {:.0} % off in the median of {requests})", e.median_ratio * 100.0)
        });
        line(
            "estimate",
            match wait.estimate_ms {
                Some(ms) => format!("about {} more{}", millis(ms), error.unwrap_or_default()),
                None => "none: nothing of the kind has been measured yet".to_string(),
            },
        )?;
        line("so far", millis(r.queued_ms))?;
        if let Some(ms) = r.held_left_ms {
            line("held", format!("for {} more, then the engine lets it go", millis(ms)))?;
        }
        if let Some(ms) = r.deadline_ms {
            line("deadline", format!("in {}", millis(ms)))?;
        }
        line("to do", reason.way_out.to_string())
    }

    /// It does not wait.
    fn write_moving(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let r = &self.request;
        let id = Tone::Strong.paint(&neutral(&r.id), style.colour).to_string();
        let (queued, ran) = (millis(r.queued_ms), known(r.running_ms, millis));
        match (r.state, r.outcome) {
            (RequestState::Decoding, _) => {
                writeln!(out, "{id} does not wait for a model yet: its audio has been decoded for {queued}")
            }
            (RequestState::Done, Some(Outcome::Served)) => {
                writeln!(out, "{id} does not wait: it was served after {queued} in the queue and {ran} of work")
            }
            (RequestState::Done, outcome) => {
                let how = outcome.map_or("ended", Outcome::name);
                writeln!(out, "{id} does not wait: it {how} after {queued} in the queue")
            }
            _ => {
                let done = r.done_ratio.map(|d| format!(", {:.0} % done", d * 100.0)).unwrap_or_default();
                writeln!(out, "{id} does not wait: it has run for {ran}{done}, after {queued} in the queue")
            }
        }
    }
}
