//! `lanekeeper transcribe`.

use super::context::Context;
use super::error::{CliError, CliResult};
use super::print::text::neutral_lines;
use super::{OutputFormat, input};
use crate::client::{Answered, Client, Transcription};
use crate::control::{ExitCode, Op};
use clap::{Args, ValueEnum};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Transcribe audio files.
///
/// The engine looks at the content of a file, not at its name: WAV, FLAC, MP3, M4A, Ogg Vorbis and WebM of any rate are
/// welcome. `-` reads stdin. Several files are sent at once, so that the engine can batch them, and answered in order.
/// With -o json, yaml or ndjson each file gives its segments and times.
#[derive(Debug, Args)]
pub struct TranscribeArgs {
    /// Audio files; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Model to use [default: the first that transcribes].
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Form of the transcript.
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    format: TranscriptFormat,
    /// Language of the speech, as a code such as en [default: detected, where the model can].
    #[arg(short, long, value_name = "CODE")]
    language: Option<String>,
    /// Text that came before, or words to expect.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Ask for the times of words too (with a form that shows them).
    #[arg(long)]
    words: bool,
    /// Translate into English instead of transcribing.
    #[arg(long)]
    translate: bool,
    /// Write text as it is found instead of at the end.
    #[arg(long, conflicts_with = "format")]
    stream: bool,
    /// Files sent at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
}

/// Forms of a transcript, as the API names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum TranscriptFormat {
    /// The words alone.
    #[default]
    Text,
    /// A JSON object with the text.
    Json,
    /// Subtitles for players.
    Srt,
    /// Subtitles for the web.
    Vtt,
    /// A JSON object with segments, times and measures.
    #[value(name = "verbose_json")]
    VerboseJson,
}

impl TranscriptFormat {
    fn name(self) -> &'static str {
        match self {
            TranscriptFormat::Text => "text",
            TranscriptFormat::Json => "json",
            TranscriptFormat::Srt => "srt",
            TranscriptFormat::Vtt => "vtt",
            TranscriptFormat::VerboseJson => "verbose_json",
        }
    }
}

pub fn run(context: &Context, args: &TranscribeArgs) -> CliResult {
    let client = context.client()?;
    context.block_on(async {
        let model = context.model(&client, args.model.as_deref(), Op::Transcribe).await?;
        if args.stream {
            return streamed(context, &client, &model, args).await;
        }
        // Data formats say all there is; a form asked for by name is passed on as it is.
        let form = if context.out.is_data() { TranscriptFormat::VerboseJson } else { args.format };
        let ask = |path: PathBuf| {
            let (client, model) = (&client, &model);
            async move { (one(client, model, &path, form, args).await, path) }
        };
        let mut answers = stream::iter(args.files.clone()).map(ask).buffered(args.jobs.into());
        let (mut failures, mut all) = (Failures::default(), Vec::new());
        while let Some((answer, path)) = answers.next().await {
            match answer {
                Ok(answer) if context.out.is_data() => {
                    let value = as_value(&path, answer)?;
                    if context.out.format == OutputFormat::Ndjson {
                        context.out.data(&mut std::io::stdout().lock(), &value, true)?;
                    } else {
                        all.push(value);
                    }
                }
                Ok(answer) => write_text(&path, &answer.body, form, args.files.len() > 1)?,
                Err(e) => failures.add(context, &path, args.files.len() > 1, e),
            }
        }
        if context.out.is_data() && context.out.format != OutputFormat::Ndjson {
            context.out.data(&mut std::io::stdout().lock(), &all, false)?;
        }
        failures.end()
    })
}

async fn one(
    client: &Client,
    model: &str,
    path: &Path,
    form: TranscriptFormat,
    args: &TranscribeArgs,
) -> CliResult<Answered<String>> {
    Ok(client.transcribe(&ask(model, path, form, args)?).await?)
}

fn ask(model: &str, path: &Path, form: TranscriptFormat, args: &TranscribeArgs) -> CliResult<Transcription> {
    Ok(Transcription {
        model: model.to_string(),
        file_name: path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|| "audio".into()),
        audio: input::file(path)?,
        format: form.name().to_string(),
        language: args.language.clone(),
        prompt: args.prompt.clone(),
        word_times: args.words,
        translate: args.translate,
    })
}

async fn streamed(context: &Context, client: &Client, model: &str, args: &TranscribeArgs) -> CliResult {
    let mut failures = Failures::default();
    for path in &args.files {
        let mut words = match client.transcribe_stream(&ask(model, path, TranscriptFormat::Json, args)?).await {
            Ok(words) => words,
            Err(e) => {
                failures.add(context, path, args.files.len() > 1, e.into());
                continue;
            }
        };
        loop {
            match words.next().await {
                Ok(Some(delta)) => {
                    let mut stdout = std::io::stdout().lock();
                    if context.out.is_data() {
                        let piece = json!({ "file": path.display().to_string(), "delta": delta });
                        context.out.data(&mut stdout, &piece, true)?;
                    } else {
                        stdout.write_all(neutral_lines(&delta).as_bytes())?;
                        stdout.flush()?;
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    failures.add(context, path, args.files.len() > 1, e.into());
                    break;
                }
            }
        }
        if !context.out.is_data() {
            writeln!(std::io::stdout().lock())?;
        }
    }
    failures.end()
}

/// Errors of single files: said at once, the rest of the files goes on, the first decides the exit code.
#[derive(Default)]
struct Failures {
    first: Option<ExitCode>,
}

impl Failures {
    fn add(&mut self, context: &Context, path: &Path, several: bool, error: CliError) {
        let code = error.exit_code();
        let named = match error {
            CliError::Failed { code, message, hints } if several => {
                CliError::Failed { code, message: format!("{}: {message}", path.display()), hints }
            }
            other => other,
        };
        context.out.error(&named);
        self.first.get_or_insert(code);
    }

    fn end(self) -> CliResult {
        self.first.map_or(Ok(()), |code| Err(CliError::Silent(code)))
    }
}

fn as_value(path: &Path, answer: Answered<String>) -> CliResult<Value> {
    let mut value: Value = serde_json::from_str(&answer.body)
        .map_err(|e| CliError::new(ExitCode::Internal, format!("the transcript is not JSON: {e}")))?;
    value["file"] = json!(path.display().to_string());
    value["request_id"] = json!(answer.request_id);
    value["queue_ms"] = json!(answer.queue_ms);
    value["run_ms"] = json!(answer.run_ms);
    Ok(value)
}

fn write_text(path: &Path, body: &str, form: TranscriptFormat, several: bool) -> CliResult {
    let mut stdout = std::io::stdout().lock();
    if several {
        // As head(1) does: a line that no transcript has.
        writeln!(stdout, "==> {} <==", super::print::text::neutral(&path.display().to_string()))?;
    }
    let body = neutral_lines(body);
    stdout.write_all(if form == TranscriptFormat::Text { body.trim() } else { &body }.as_bytes())?;
    if form == TranscriptFormat::Text || !body.ends_with('\n') {
        writeln!(stdout)?;
    }
    stdout.flush()?;
    Ok(())
}
