//! `lanekeeper check`.

use super::args::BoxArg;
use super::context::Context;
use super::error::{CliError, CliResult};
use super::input;
use super::print::text::{bytes, millis, neutral};
use super::print::{TableStyle, Tone};
use crate::control::ExitCode;
use crate::engine::audio::{AudioVerdict, DecodeLimits, verdict};
use crate::profile::{Env, Limits, load_box};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Say what an audio file is and whether the engine would take it.
///
/// No engine is needed: the file is decoded here, by its content, within the limits of the profile. The exit code is 5
/// when a file would be refused.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    profile: BoxArg,
    /// Audio files; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Checked {
    file: String,
    #[serde(flatten)]
    verdict: AudioVerdict,
}

pub fn run(context: &Context, args: &CheckArgs) -> CliResult {
    let limits = load_box(args.profile.name(), &Env::from_process(), &[])?.value.limits;
    let mut all = Vec::new();
    let mut unreadable = None;
    for path in &args.files {
        match input::file(path) {
            Ok(content) => all.push(Checked { file: path.display().to_string(), verdict: within(&content, &limits) }),
            Err(e) => {
                context.out.error(&e);
                unreadable.get_or_insert(e.exit_code());
            }
        }
    }
    context.out.result(&all, |out, style| all.iter().try_for_each(|c| describe(c, out, style)))?;
    let refused = all.iter().any(|c| !c.verdict.accepted).then_some(ExitCode::Refused);
    match unreadable.or(refused) {
        Some(code) => Err(CliError::Silent(code)),
        None => Ok(()),
    }
}

/// What an engine with these limits would say.
fn within(content: &[u8], limits: &Limits) -> AudioVerdict {
    let mut said = verdict(content, DecodeLimits { max_seconds: limits.audio.max_seconds });
    if said.accepted && content.len() > limits.audio_bytes {
        said.accepted = false;
        said.reason = Some(format!("its size is beyond limits.audio_bytes ({})", bytes(limits.audio_bytes as u64)));
    }
    said
}

fn describe(checked: &Checked, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
    let Checked { file, verdict: v } = checked;
    let (word, tone) = match v.accepted {
        true if v.truncated => ("accepted, cut short", Tone::Warn),
        true => ("accepted", Tone::Good),
        false => ("refused", Tone::Bad),
    };
    write!(out, "{}: {}", neutral(file), tone.paint(word, style.colour))?;
    if let Some(reason) = &v.reason {
        write!(out, ": {}", neutral(reason))?;
    }
    writeln!(out)?;
    let mut facts = vec![bytes(v.bytes as u64)];
    facts.extend(v.container.clone());
    facts.extend(v.codec.clone());
    facts.extend(v.sample_rate.map(|r| format!("{r} Hz")));
    facts.extend(v.channels.map(|c| super::print::text::counted(c as u64, "channel", "channels")));
    facts.extend(v.bits.map(|b| format!("{b} bits")));
    facts.extend(v.duration_s.map(|s| millis(s * 1e3)));
    facts.extend(v.lane.map(|l| format!("goes as a {l}")));
    writeln!(out, "  {}", neutral(&facts.join(", ")))?;
    for warning in &v.warnings {
        writeln!(out, "  {} {}", Tone::Warn.paint("warning:", style.colour), neutral(warning))?;
    }
    Ok(())
}
