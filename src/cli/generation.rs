//! What `chat` and `complete` share: the options of a generation, and writing it as it comes.

use super::OutputFormat;
use super::context::Context;
use super::error::CliResult;
use super::print::text::{millis, neutral_lines};
use crate::client::{ChatRequest, Client, GenerationPiece, Usage};
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::time::Instant;

/// Options of a generation.
#[derive(Debug, Clone, Args)]
pub struct GenerationArgs {
    /// Model to use [default: the first that generates].
    #[arg(short, long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Longest answer in tokens [default: the profile's].
    #[arg(short = 'n', long, value_name = "N")]
    pub max_tokens: Option<u32>,
    /// 0 always takes the likeliest token.
    #[arg(short, long, value_name = "T")]
    pub temperature: Option<f32>,
    /// Sample from the likeliest tokens that together have this probability.
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,
    /// Same seed, same prompt, same settings: same answer.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Text that ends the answer; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Wait for the whole answer instead of writing it as it comes.
    #[arg(long)]
    pub no_stream: bool,
}

impl GenerationArgs {
    /// A request with these options, still without its prompt.
    pub fn request(&self, model: String) -> ChatRequest {
        ChatRequest {
            model,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            stop: self.stop.clone(),
            ..ChatRequest::default()
        }
    }
}

/// Sends `ask` and writes the answer; returns its text.
pub async fn answer(context: &Context, client: &Client, ask: &ChatRequest, no_stream: bool) -> CliResult<String> {
    if no_stream || matches!(context.out.format, OutputFormat::Json | OutputFormat::Yaml) {
        let answer = client.generate(ask).await?;
        let choice = &answer.body["choices"][0];
        let text = choice["message"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default().to_string();
        context.out.result(&answer.body, |out, _| writeln!(out, "{}", neutral_lines(&text)))?;
        return Ok(text);
    }
    let began = Instant::now();
    let mut stream = client.generate_stream(ask).await?;
    let (mut text, mut usage, mut first) = (String::new(), Usage::default(), None);
    while let Some(piece) = stream.next().await? {
        let mut stdout = std::io::stdout().lock();
        match &piece {
            GenerationPiece::Text(delta) => {
                first.get_or_insert_with(|| began.elapsed());
                text.push_str(delta);
            }
            GenerationPiece::Usage(counts) => usage = *counts,
            GenerationPiece::Finished(_) => {}
        }
        if context.out.is_data() {
            let line = match piece {
                GenerationPiece::Text(delta) => json!({ "delta": delta }),
                GenerationPiece::Finished(reason) => json!({ "finish_reason": reason }),
                GenerationPiece::Usage(counts) => json!({ "usage": counts }),
            };
            context.out.data(&mut stdout, &line, true)?;
        } else if let GenerationPiece::Text(delta) = piece {
            stdout.write_all(neutral_lines(&delta).as_bytes())?;
            stdout.flush()?;
        }
    }
    if !context.out.is_data() {
        writeln!(std::io::stdout().lock())?;
    }
    if context.out.format == OutputFormat::Wide {
        let first_ms = first.map_or(f64::NAN, |f| f.as_secs_f64() * 1e3);
        context.out.note(&format!(
            "{} prompt tokens, {} answer tokens, first after {}, all after {}",
            usage.prompt_tokens,
            usage.completion_tokens,
            millis(first_ms),
            millis(began.elapsed().as_secs_f64() * 1e3)
        ));
    }
    Ok(text)
}
