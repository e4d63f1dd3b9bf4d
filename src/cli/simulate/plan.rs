//! `lanekeeper plan`: what a change would have made of what arrived lately.

use super::table::lanes;
use super::trace::{compared, fits, settings_of, values_of};
use crate::cli::context::Context;
use crate::cli::error::CliResult;
use crate::cli::print::TableStyle;
use crate::cli::print::text::millis;
use crate::cli::settings;
use crate::control::changes::KnobChange;
use crate::control::knobs::Knobs;
use crate::control::{Arrivals, ChangeAnswer, ChangeRequest};
use crate::profile::{WorkloadOverrides, workload_keys, workload_of_values};
use crate::simulate::{self, Report, Trace};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// Show what a change of settings would do before it is made: what is set to what, and how long requests would have waited.
///
/// It is checked as by `set --dry-run`; then what arrived lately is replayed in virtual time with the settings as they are
/// and as they would be. Beside it stands how far the replay of the present settings is from what was measured: trust the
/// figures so far and no further. A replay knows batches; what a change does to generation it cannot tell.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Knobs and their values, as `set` takes them.
    #[arg(required_unless_present = "unset", value_name = "KNOB=VALUE")]
    settings: Vec<String>,
    /// Knobs whose live setting would be let go.
    #[arg(long, value_name = "KNOB")]
    unset: Vec<String>,
    /// Replay what arrived in the last minutes.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::cli::duration::parse)]
    last: Duration,
}

/// A change with its replays.
#[derive(Debug, Serialize)]
struct Plan {
    change: ChangeAnswer,
    /// One per model that the change concerns: first as it is, then as planned.
    replays: Vec<Report>,
    /// What could not be replayed, and why.
    remarks: Vec<String>,
}

pub fn run(context: &Context, args: &PlanArgs) -> CliResult {
    let request = ChangeRequest {
        set: settings::set::pairs(&args.settings)?,
        unset: args.unset.clone(),
        dry_run: true,
        ..ChangeRequest::default()
    };
    let client = context.client()?;
    let (change, knobs, arrivals) = context.block_on(async {
        let change = client.change(&request).await?;
        Ok((change, client.knobs().await?, client.arrivals(args.last, None).await?))
    })?;
    let plan = Plan::of(change, &knobs, &arrivals)?;
    context.out.result(&plan, |out, style| plan.write(out, style))
}

impl Plan {
    fn of(change: ChangeAnswer, knobs: &Knobs, arrivals: &Arrivals) -> CliResult<Plan> {
        let mut plan = Plan { change, replays: Vec::new(), remarks: Vec::new() };
        if !arrivals.complete {
            plan.remarks.push("the engine has forgotten a part of the span: early arrivals are missing".to_string());
        }
        let mut models: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for change in &plan.change.changes {
            match replayed(change, arrivals) {
                Some((model, set)) => models.entry(model).or_default().push(set),
                None => plan.remarks.push(format!("{}: a replay cannot tell what it does", change.knob)),
            }
        }
        for (model, set) in models {
            let trace = match Trace::of(arrivals, Some(&model)) {
                Ok(trace) => trace,
                Err(why) => {
                    plan.remarks.push(format!("{model}: nothing to replay in {}: {why}", millis(arrivals.span_ms)));
                    continue;
                }
            };
            let mut values = trace.queue.as_ref().map(values_of).unwrap_or_default();
            for key in workload_keys::SETTINGS.iter().filter(|key| key.path != "name") {
                let knob = knobs.knobs.iter().find(|knob| knob.name == format!("models.{model}.{}", key.path));
                let known = values.iter().any(|(name, _)| *name == key.path);
                if let (false, Some(value)) = (known, knob.and_then(|knob| knob.value.clone())) {
                    values.push((key.path, value));
                }
            }
            let runs = |name: &str, overrides: &WorkloadOverrides| -> CliResult<Vec<simulate::Settings>> {
                let mut runs = settings_of(&workload_of_values(&model, &values, overrides)?.value)?;
                runs.iter_mut().for_each(|run| run.name = name.to_string());
                Ok(runs)
            };
            let mut tried = runs("now", &WorkloadOverrides::default())?;
            tried.extend(runs("planned", &WorkloadOverrides { set, ..WorkloadOverrides::default() })?);
            plan.replays.push(simulate::replay(&trace, &tried));
        }
        Ok(plan)
    }

    fn write(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        settings::table(&self.change.changes).write(out, style)?;
        for report in &self.replays {
            writeln!(out, "\n{}: the last {} replayed", report.load, millis(report.duration_s * 1_000.0))?;
            lanes(&report.runs).write(out, style)?;
            if let Some(recorded) = &report.recorded {
                writeln!(out, "\nhow far the replay of the present settings is from what was measured")?;
                compared(recorded, report).write(out, style)?;
                if style.wide {
                    writeln!(out)?;
                    fits(recorded).write(out, style)?;
                }
            }
        }
        if !self.remarks.is_empty() {
            writeln!(out)?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(out, "{remark}"))
    }
}

/// The model that a change is about, and the change as a load's key takes it; `None` for what no replay knows.
fn replayed(change: &KnobChange, arrivals: &Arrivals) -> Option<(String, String)> {
    let queue = arrivals.queues.iter().find_map(|queue| {
        let key = change.knob.strip_prefix("models.")?.strip_prefix(queue.model.as_str())?.strip_prefix('.')?;
        Some((queue.model.clone(), key))
    });
    let (model, key) = queue?;
    let known = workload_keys::SETTINGS.iter().any(|row| row.path == key && row.path != "name");
    let to = change.to.as_ref().filter(|_| known)?;
    Some((model, format!("{key}={to}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::arrivals::{Arrival, BatchRun, RecordedQueue, SCHEMA};
    use crate::control::knobs::TakesEffect;
    use crate::control::snapshot::{Caps, Outcome};
    use crate::control::{Lane, Op};

    fn recorded() -> Arrivals {
        let caps: Caps = serde_json::from_value(serde_json::json!({
            "max_batch_cost_effective": 16384, "max_batch_cost": 16384, "max_batch_cost_source": "default",
            "max_batch_requests": 1, "wait_ms": 5.0, "coalesce_ms": 1.0, "depth": 1, "max_queue": 9
        }))
        .unwrap();
        let queue =
            RecordedQueue { model: "m".into(), op: Op::Embed, caps, slice_windows: None, recordings_share: None };
        let arrival = |n: u64| Arrival {
            at_ms: n as f64 * 10.0,
            model: "m".into(),
            op: Op::Embed,
            lane: Lane::Clips,
            cost: 100,
            outcome: Some(Outcome::Served),
            queue_ms: 5.0,
            run_ms: Some(20.0),
            windows: None,
            model_ms: None,
        };
        let batch = |n: u64| BatchRun {
            ended_ms: 25.0 + n as f64 * 20.0,
            model: "m".into(),
            op: Op::Embed,
            lane: Lane::Clips,
            items: 1,
            windows: None,
            cost: 100,
            run_ms: 20.0,
        };
        Arrivals {
            schema: SCHEMA.to_string(),
            node: "n".into(),
            version: "0".into(),
            at_ms: 0,
            span_ms: 2_000.0,
            complete: true,
            queues: vec![queue],
            arrivals: (0..40).map(arrival).collect(),
            batches: (0..40).map(batch).collect(),
        }
    }

    fn planned(knob: &str, to: &str) -> Plan {
        let change = KnobChange {
            knob: knob.to_string(),
            from: None,
            to: Some(to.to_string()),
            takes: TakesEffect::Live,
            was: None,
            now: None,
        };
        let change = ChangeAnswer { changes: vec![change], ..ChangeAnswer::new(1, false) };
        let knobs =
            Knobs { schema: String::new(), node: String::new(), revision: 1, read_only: false, knobs: Vec::new() };
        Plan::of(change, &knobs, &recorded()).unwrap()
    }

    #[test]
    fn old_and_new_are_replayed_side_by_side() {
        let plan = planned("models.m.max_batch_requests", "8");
        let [report] = plan.replays.as_slice() else { panic!("one model: {:?}", plan.remarks) };
        let of = |run: usize| report.runs[run].lane(Lane::Clips).expect("it has work").batches;
        assert_eq!((report.runs[0].settings.name.as_str(), of(0)), ("now", 40));
        assert!(report.runs[1].settings.name == "planned" && of(1) < 40, "several at once");
        assert!(report.recorded.is_some() && plan.remarks.is_empty());
    }

    #[test]
    fn what_no_replay_knows_is_said() {
        for knob in ["models.m.max_queue", "limits.max_items", "models.other.depth"] {
            let plan = planned(knob, "3");
            assert!(plan.replays.is_empty() && plan.remarks[0].starts_with(knob), "{:?}", plan.remarks);
        }
    }
}
