//! The command line as clap reads it. Each command's options stand in the command's own file.

use super::print::ColourChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Operations console, control CLI and local serving engine for speech, embeddings and language models.
///
/// `lanekeeper serve` starts an engine from a profile; every other command talks to a running one, over its socket on
/// this machine or over HTTP with a key. Results go to stdout, everything else to stderr; `-o json` (or yaml, ndjson)
/// makes results data. The exit code says how a command ended: see lanekeeper-exit-codes(7).
#[derive(Debug, Parser)]
#[command(name = "lanekeeper", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Common options")]
pub struct Globals {
    /// The engine to talk to: a name, a socket path, or http://HOST:PORT [default: the newest running here].
    #[arg(short = 'E', long, global = true, value_name = "TARGET", env = "LANEKEEPER_ENGINE", hide_env_values = true)]
    pub engine: Option<String>,
    /// File whose first line is the key for an engine that asks for one; LANEKEEPER_KEY may hold the key itself.
    #[arg(long, global = true, value_name = "FILE", env = "LANEKEEPER_KEY_FILE", hide_env_values = true)]
    pub key_file: Option<PathBuf>,
    /// How results are written.
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: OutputFormat,
    /// When to colour: auto does on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColourChoice,
    /// Leave out remarks and progress; errors and warnings stay.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The box that a command is about.
#[derive(Debug, Args)]
pub struct BoxArg {
    /// Box profile, by name or path.
    #[arg(
        short,
        long,
        value_name = "PROFILE",
        env = "LANEKEEPER_PROFILE",
        hide_env_values = true,
        default_value = "demo"
    )]
    profile: String,
}

impl BoxArg {
    pub fn name(&self) -> &str {
        &self.profile
    }
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns, for people.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON; one document per line with --watch.
    Json,
    /// YAML; documents parted by --- with --watch.
    Yaml,
    /// JSON without line breaks; a list is one line per item.
    Ndjson,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(super::serve::ServeArgs),
    Demo(super::demo::DemoArgs),
    Top(super::top::TopArgs),
    Status(super::status::StatusArgs),
    Models(super::models::ModelsArgs),
    Lanes(super::lanes::LanesArgs),
    Turns(super::turns::TurnsArgs),
    Caps(super::caps::CapsArgs),
    Speculation(super::speculation::SpeculationArgs),
    Routes(super::routes::RoutesArgs),
    Requests(super::requests::RequestsArgs),
    Wait(super::wait::WaitArgs),
    Why(super::why::WhyArgs),
    Cancel(super::cancel::CancelArgs),
    Hold(super::hold::HoldArgs),
    Release(super::hold::ReleaseArgs),
    Move(super::hold::MoveArgs),
    Knobs(super::settings::knobs::KnobsArgs),
    Get(super::settings::get::GetArgs),
    Set(super::settings::set::SetArgs),
    Try(super::settings::trial::TryArgs),
    Unset(super::settings::set::UnsetArgs),
    Diff(super::settings::diff::DiffArgs),
    Plan(super::simulate::plan::PlanArgs),
    Apply(super::settings::apply::ApplyArgs),
    Journal(super::settings::journal::JournalArgs),
    Pause(super::settings::hands::PauseArgs),
    Resume(super::settings::hands::ResumeArgs),
    Freeze(super::settings::hands::FreezeArgs),
    Thaw(super::settings::hands::ThawArgs),
    Drain(super::settings::drain::DrainArgs),
    Undrain(super::settings::drain::UndrainArgs),
    Transcribe(super::transcribe::TranscribeArgs),
    Embed(super::embed::EmbedArgs),
    Rerank(super::rerank::RerankArgs),
    Chat(super::chat::ChatArgs),
    Complete(super::complete::CompleteArgs),
    Check(super::check::CheckArgs),
    Pull(super::pull::PullArgs),
    Profile(super::profile::ProfileArgs),
    Doctor(super::doctor::DoctorArgs),
    Report(super::report::ReportArgs),
    Record(super::record::RecordArgs),
    Replay(super::replay::ReplayArgs),
    Simulate(super::simulate::SimulateArgs),
    Bench(super::bench::BenchArgs),
    Completions(super::completions::CompletionsArgs),
    Man(super::man::ManArgs),
    #[command(hide = true)]
    Generate(super::generate::GenerateArgs),
}
