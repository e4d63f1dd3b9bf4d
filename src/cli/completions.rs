//! `lanekeeper completions`.

use super::args::Cli;
use super::error::CliResult;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Write a completion script for a shell.
///
/// bash: lanekeeper completions bash > ~/.local/share/bash-completion/completions/lanekeeper; zsh: into a folder of
/// $fpath as _lanekeeper; fish: into ~/.config/fish/completions/lanekeeper.fish.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell to write for.
    shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> CliResult {
    // Into memory first: the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lanekeeper", &mut script);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&script)?;
    stdout.flush()?;
    Ok(())
}
