//! `lanekeeper embed`.

use super::context::Context;
use super::error::CliResult;
use super::input;
use super::print::text::neutral;
use super::print::{Cell, Column, Table};
use crate::client::Usage;
use crate::control::Op;
use clap::Args;
use serde::Serialize;

/// Turn texts into vectors.
///
/// Each argument is a text; a lone `-` reads stdin, one text per line. The vectors have length 1. With -o ndjson each
/// text gives one line; the table shows only how each vector begins.
#[derive(Debug, Args)]
pub struct EmbedArgs {
    /// Texts; `-` reads lines from stdin.
    #[arg(required = true, value_name = "TEXT")]
    texts: Vec<String>,
    /// Model to use [default: the first that embeds].
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Keep only so many dimensions.
    #[arg(long, value_name = "N")]
    dimensions: Option<usize>,
}

/// Texts sent in one request: small enough for the default limit of an engine's door.
const PER_REQUEST: usize = 128;

#[derive(Serialize)]
struct Vector {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Serialize)]
struct Result {
    model: String,
    vectors: Vec<Vector>,
    usage: Usage,
}

pub fn run(context: &Context, args: &EmbedArgs) -> CliResult {
    let texts = input::texts(&args.texts)?;
    let client = context.client()?;
    context.block_on(async {
        let model = context.model(&client, args.model.as_deref(), Op::Embed).await?;
        let mut result = Result { model, vectors: Vec::new(), usage: Usage::default() };
        for some in texts.chunks(PER_REQUEST) {
            let answer = client.embed(&result.model, some, args.dimensions).await?.body;
            result.usage.prompt_tokens += answer.usage.prompt_tokens;
            result.usage.total_tokens += answer.usage.total_tokens;
            let first = result.vectors.len();
            result.vectors.extend(
                answer.vectors.into_iter().enumerate().map(|(i, embedding)| Vector { index: first + i, embedding }),
            );
        }
        if context.out.format == super::OutputFormat::Ndjson {
            return context.out.result(&result.vectors, |_, _| Ok(()));
        }
        context.out.result(&result, |out, style| {
            let mut table = Table::new([
                Column::right("#"),
                Column::right("DIMENSIONS"),
                Column::left("BEGINS"),
                Column::left("TEXT"),
            ]);
            for (vector, text) in result.vectors.iter().zip(&texts) {
                let begins: Vec<String> = vector.embedding.iter().take(4).map(|x| format!("{x:+.3}")).collect();
                table.row([
                    Cell::from(vector.index + 1),
                    vector.embedding.len().into(),
                    begins.join(" ").into(),
                    Cell::new(shortened(text)),
                ]);
            }
            table.write(out, style)
        })
    })
}

/// A text as one short line.
pub fn shortened(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(60).collect();
    let dots = if short.len() < line.len() { "…" } else { "" };
    format!("{}{dots}", neutral(&short))
}
