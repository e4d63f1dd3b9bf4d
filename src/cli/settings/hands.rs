//! `lanekeeper pause`, `resume`, `freeze` and `thaw`: changes that have a name of their own.

use super::super::context::Context;
use super::super::error::{CliError, CliResult};
use super::{ChangeArgs, refused, tell};
use crate::control::ExitCode;
use crate::control::knobs::Knob;
use clap::Args;

/// Hold lanes: what waits in them goes on waiting, what runs ends. `resume` lets them go.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Lanes: MODEL/clips, MODEL/recordings, or MODEL for all of a model's; a lane alone where one model has it.
    #[arg(required = true, value_name = "LANE")]
    lanes: Vec<String>,
    #[command(flatten)]
    options: ChangeArgs,
}

/// Let held lanes go again.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Lanes: MODEL/clips, MODEL/recordings, or MODEL for all of a model's; a lane alone where one model has it.
    #[arg(required = true, value_name = "LANE")]
    lanes: Vec<String>,
    #[command(flatten)]
    options: ChangeArgs,
}

/// Hold the controllers of models where they are: window and cost cap move no more by themselves.
#[derive(Debug, Args)]
pub struct FreezeArgs {
    /// Models that run batches.
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    options: ChangeArgs,
}

/// Let the controllers of models move window and cost cap again.
#[derive(Debug, Args)]
pub struct ThawArgs {
    /// Models that run batches.
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    #[command(flatten)]
    options: ChangeArgs,
}

pub fn pause(context: &Context, args: &PauseArgs) -> CliResult {
    switch(context, &args.options, &args.lanes, "true", paused)
}

pub fn resume(context: &Context, args: &ResumeArgs) -> CliResult {
    switch(context, &args.options, &args.lanes, "false", paused)
}

pub fn freeze(context: &Context, args: &FreezeArgs) -> CliResult {
    switch(context, &args.options, &args.models, "true", frozen)
}

pub fn thaw(context: &Context, args: &ThawArgs) -> CliResult {
    switch(context, &args.options, &args.models, "false", frozen)
}

/// Sets the knobs that `which` finds for each name. One that would come to its value anyway without a live setting has
/// that let go, so that nothing is left behind.
fn switch(
    context: &Context,
    options: &ChangeArgs,
    names: &[String],
    value: &str,
    which: fn(&[Knob], &str) -> CliResult<Vec<String>>,
) -> CliResult {
    let client = context.client()?;
    let mut request = options.request();
    let answer = context.block_on(async {
        let all = client.knobs().await?.knobs;
        for name in names {
            for found in which(&all, name)? {
                let below = all.iter().find(|k| k.name == found).and_then(|k| {
                    k.layers.iter().find(|l| l.layer != crate::control::knobs::Layer::Live)?.value.clone()
                });
                match below.as_deref() == Some(value) && request.ttl_s.is_none() {
                    true => request.unset.push(found),
                    false => drop(request.set.insert(found, value.to_string())),
                }
            }
        }
        request.unset.sort();
        request.unset.dedup();
        client.change(&request).await.map_err(refused)
    })?;
    tell(context, &request, &answer)
}

/// The knobs that hold the lanes of a name.
fn paused(all: &[Knob], name: &str) -> CliResult<Vec<String>> {
    let (model, lane) = name.split_once('/').map_or((name, None), |(model, lane)| (model, Some(lane)));
    let ends = |lane: &str| format!(".lanes.{lane}.paused");
    let holding = all.iter().map(|k| k.name.as_str()).filter(|k| k.starts_with("models.") && k.ends_with(".paused"));
    let of_model: Vec<&str> = holding
        .clone()
        .filter(|k| k["models.".len()..].strip_prefix(model).is_some_and(|r| r.starts_with('.')))
        .collect();
    let found: Vec<&str> = match (lane, of_model.is_empty()) {
        (Some(lane), _) => of_model.into_iter().filter(|k| k.ends_with(&ends(lane))).collect(),
        (None, false) => of_model,
        (None, true) => holding.clone().filter(|k| k.ends_with(&ends(name))).collect(),
    };
    let lanes = || {
        let short = |k: &str| {
            let rest = k["models.".len()..].trim_end_matches(".paused");
            rest.trim_end_matches(".generation").replace(".lanes.", "/")
        };
        format!("lanes here are {}", holding.clone().map(short).collect::<Vec<_>>().join(", "))
    };
    if found.is_empty() {
        return Err(CliError::new(ExitCode::Refused, format!("there is no lane `{name}` here")).hint(lanes()));
    }
    if of_several(&found) {
        return Err(CliError::usage(format!("several models have a lane `{name}`: say MODEL/{name}")).hint(lanes()));
    }
    Ok(found.into_iter().map(str::to_string).collect())
}

/// Whether knobs of more than one model are among these.
fn of_several(knobs: &[&str]) -> bool {
    let model = |knob: &str| {
        let end = knob.find(".lanes.").or_else(|| knob.find(".generation.")).unwrap_or(knob.len());
        knob[..end].to_string()
    };
    knobs.iter().any(|knob| model(knob) != model(knobs[0]))
}

/// The knob that freezes a model's controller.
fn frozen(all: &[Knob], model: &str) -> CliResult<Vec<String>> {
    let name = format!("models.{model}.adaptive.freeze");
    super::find(all, &name).map_err(|_| {
        let having = all.iter().filter_map(|k| k.name.strip_prefix("models.")?.strip_suffix(".adaptive.freeze"));
        CliError::new(ExitCode::Refused, format!("there is no model `{model}` here that has a controller"))
            .hint(format!("these have: {}", having.collect::<Vec<_>>().join(", ")))
    })?;
    Ok(vec![name])
}
