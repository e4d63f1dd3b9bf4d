//! `lanekeeper try`.

use super::super::context::Context;
use super::super::error::{CliError, CliResult};
use super::set::{TakeBackArgs, pairs};
use super::{refused, tell};
use crate::client::Client;
use crate::control::changes::{Entry, EntryKind};
use crate::control::{ChangeRequest, ExitCode, Predicate, Snapshot};
use clap::Args;
use std::time::Duration;

/// Time between the snapshots that --follow looks at.
const INTERVAL: Duration = Duration::from_millis(250);

/// Try settings for a while: the engine undoes them by itself.
///
/// It does so when the time is over, and before that as soon as the guard does not hold: within a second, whatever has
/// become of this command. A guard is a condition such as 'models.whisper.lanes.clips.p95_ms<2000' (see
/// lanekeeper-conditions(7)); one that cannot be read, names nothing here or does not hold now is refused, and what is
/// unknown breaks none. With --follow the command stays: it exits with 0 when the time is over, with 8 when the guard broke,
/// and with 6 when somebody else changed what was tried.
#[derive(Debug, Args)]
pub struct TryArgs {
    /// Knobs and their values, as they would stand in a profile.
    #[arg(required = true, value_name = "KNOB=VALUE")]
    settings: Vec<String>,
    /// Undo them after so long: 90s, 10m, 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = super::super::duration::parse)]
    span: Duration,
    /// Undo them as soon as this does not hold.
    #[arg(long, value_name = "CONDITION", value_parser = Predicate::parse)]
    guard: Option<Predicate>,
    /// Stay until they are undone, and say why they were.
    #[arg(long, conflicts_with = "dry_run")]
    follow: bool,
    #[command(flatten)]
    options: TakeBackArgs,
}

impl TryArgs {
    /// The `KNOB=VALUE` pairs as they were typed.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }
}

pub fn run(context: &Context, args: &TryArgs) -> CliResult {
    let request = ChangeRequest {
        set: pairs(&args.settings)?,
        ttl_s: Some(args.span.as_secs_f64()),
        guard: args.guard.as_ref().map(|guard| guard.text().to_string()),
        ..args.options.request()
    };
    let client = context.client()?;
    context.block_on(async {
        let answer = client.change(&request).await.map_err(refused)?;
        tell(context, &request, &answer)?;
        if args.follow && answer.applied {
            return follow(context, &client, answer.revision).await;
        }
        Ok(())
    })
}

/// Until nothing of the change holds.
async fn follow(context: &Context, client: &Client, revision: u64) -> CliResult {
    let mut stream = client.watch(INTERVAL).await?;
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(snapshot) = stream.next().await? {
        let seen = entries.last().map_or(revision, |entry| entry.revision);
        entries.extend(snapshot.journal_tail.iter().filter(|entry| entry.revision > seen).cloned());
        if !holds(&snapshot, revision) {
            return over(context, &entries, revision);
        }
    }
    Err(CliError::new(ExitCode::Unreachable, "the engine ended, and with it what was tried"))
}

fn holds(snapshot: &Snapshot, revision: u64) -> bool {
    snapshot.revision < revision || snapshot.overrides.iter().any(|setting| setting.revision == revision)
}

/// How it ended, by what the journal says.
fn over(context: &Context, entries: &[Entry], revision: u64) -> CliResult {
    let broke = |entry: &&Entry| entry.kind == EntryKind::Breach && entry.reverts == Some(revision);
    if let Some(entry) = entries.iter().find(broke) {
        let why = entry.reason.as_deref().unwrap_or("the guard broke");
        return Err(CliError::new(ExitCode::Unhealthy, format!("undone: {why}")));
    }
    match entries.last() {
        Some(Entry { kind: EntryKind::Expiry, .. }) | None => {
            context.out.note("undone: the time is over");
            Ok(())
        }
        Some(entry) => Err(CliError::new(
            ExitCode::Conflict,
            format!("{} changed what was tried (revision {})", entry.actor, entry.revision),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::print::Out;

    fn entry(kind: &str, revision: u64, reverts: Option<u64>) -> Entry {
        let value = serde_json::json!({"revision": revision, "at_ms": 0, "kind": kind, "actor": "uid:7", "changes": [],
            "reverts": reverts});
        serde_json::from_value(value).expect("an entry")
    }

    #[test]
    fn the_end_of_a_trial_has_its_exit_code() {
        let out = Out::of_process(crate::cli::OutputFormat::Table, crate::cli::print::ColourChoice::Never, true);
        let context = Context { globals: crate::cli::Globals::default(), out };
        let code = |entries: &[Entry]| over(&context, entries, 4).err().map(|error| error.exit_code());
        assert_eq!(code(&[entry("expiry", 5, None)]), None);
        assert_eq!(code(&[entry("change", 5, None), entry("breach", 6, Some(4))]), Some(ExitCode::Unhealthy));
        assert_eq!(code(&[entry("breach", 5, Some(3)), entry("change", 6, None)]), Some(ExitCode::Conflict));
    }
}
