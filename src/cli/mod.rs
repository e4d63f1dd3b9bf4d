//! The command line: one file per subcommand; its doc comment is its help.
//!
//! Nobody owns state here: a command reads its arguments, talks to an engine through [`crate::client`] (or starts one:
//! `serve`, `demo`, `bench`), and writes a result. It runs on the main thread, with a tokio runtime only where it needs
//! one. It fails with a [`CliError`], which knows its exit code; errors and remarks go to stderr, results to stdout, and
//! a reader that goes away is success.

mod args;
mod bench;
mod cancel;
mod caps;
mod chat;
mod check;
mod complete;
mod completions;
mod context;
mod demo;
mod doctor;
mod duration;
mod embed;
mod error;
mod fetch;
mod generate;
mod generation;
mod hold;
mod input;
mod lanes;
mod log;
mod man;
mod models;
mod noun;
mod pages;
mod palette;
mod print;
mod profile;
mod pull;
mod record;
mod replay;
mod report;
mod requests;
mod rerank;
mod routes;
mod serve;
mod settings;
mod simulate;
mod speculation;
mod status;
mod top;
mod transcribe;
mod turns;
mod wait;
mod why;

pub use args::{Cli, Command, Globals, OutputFormat};
pub use error::{CliError, CliResult};

use crate::control::ExitCode;
use clap::Parser;
use context::Context;
use print::text::neutral_lines;
use std::io::Write;

/// Parses the process's arguments, runs the command and says how it ended.
pub fn main() -> std::process::ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        // A stderr that cannot be written is no reason to end: a panic in here would be the process's end.
        let _ = std::io::stderr().write_all(panic_line(panic).as_bytes());
    }));
    let code = std::panic::catch_unwind(|| match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(e) => {
            // Help and version are successes on stdout, the rest is usage on stderr. clap knows which.
            let _ = e.print();
            if e.exit_code() == 0 { ExitCode::Ok } else { ExitCode::Usage }
        }
    });
    code.unwrap_or(ExitCode::Internal).into()
}

/// What is told of a panic.
fn panic_line(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let at = panic.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
    let what = panic.payload_as_str().unwrap_or("a panic without a message");
    format!("internal error: {}{at}\n", neutral_lines(what))
}

fn run(cli: Cli) -> ExitCode {
    let context = Context::new(cli.globals);
    match dispatch(&context, &cli.command) {
        Ok(()) => ExitCode::Ok,
        Err(e) => {
            context.out.error(&e);
            e.exit_code()
        }
    }
}

fn dispatch(context: &Context, command: &Command) -> CliResult {
    match command {
        Command::Serve(args) => serve::run(context, args),
        Command::Demo(args) => demo::run(context, args),
        Command::Top(args) => top::run(context, args),
        Command::Status(args) => status::run(context, args),
        Command::Models(args) => models::run(context, args),
        Command::Lanes(args) => lanes::run(context, args),
        Command::Turns(args) => turns::run(context, args),
        Command::Caps(args) => caps::run(context, args),
        Command::Speculation(args) => speculation::run(context, args),
        Command::Routes(args) => routes::run(context, args),
        Command::Requests(args) => requests::run(context, args),
        Command::Wait(args) => wait::run(context, args),
        Command::Why(args) => why::run(context, args),
        Command::Cancel(args) => cancel::run(context, args),
        Command::Hold(args) => hold::hold(context, args),
        Command::Release(args) => hold::release(context, args),
        Command::Move(args) => hold::move_to(context, args),
        Command::Knobs(args) => settings::knobs::run(context, args),
        Command::Get(args) => settings::get::run(context, args),
        Command::Set(args) => settings::set::run(context, args),
        Command::Try(args) => settings::trial::run(context, args),
        Command::Unset(args) => settings::set::unset(context, args),
        Command::Diff(args) => settings::diff::run(context, args),
        Command::Plan(args) => simulate::plan::run(context, args),
        Command::Apply(args) => settings::apply::run(context, args),
        Command::Journal(args) => settings::journal::run(context, args),
        Command::Pause(args) => settings::hands::pause(context, args),
        Command::Resume(args) => settings::hands::resume(context, args),
        Command::Freeze(args) => settings::hands::freeze(context, args),
        Command::Thaw(args) => settings::hands::thaw(context, args),
        Command::Drain(args) => settings::drain::drain(context, args),
        Command::Undrain(args) => settings::drain::undrain(context, args),
        Command::Transcribe(args) => transcribe::run(context, args),
        Command::Embed(args) => embed::run(context, args),
        Command::Rerank(args) => rerank::run(context, args),
        Command::Chat(args) => chat::run(context, args),
        Command::Complete(args) => complete::run(context, args),
        Command::Check(args) => check::run(context, args),
        Command::Pull(args) => pull::run(context, args),
        Command::Profile(args) => profile::run(context, args),
        Command::Doctor(args) => doctor::run(context, args),
        Command::Report(args) => report::run(context, args),
        Command::Record(args) => record::run(context, args),
        Command::Replay(args) => replay::run(context, args),
        Command::Simulate(args) => simulate::run(context, args),
        Command::Bench(args) => bench::run(context, args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(context, args),
        Command::Generate(args) => generate::run(context, args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_says_what_it_is() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {} has no help", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
