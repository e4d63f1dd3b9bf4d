//! `lanekeeper complete`.

use super::context::Context;
use super::error::CliResult;
use super::generation::{GenerationArgs, answer};
use super::input;
use crate::client::ChatRequest;
use crate::control::Op;
use clap::Args;

/// Continue a text, without a chat template.
///
/// The words are joined by blanks; a lone `-` reads stdin. The answer is written as it comes; `-o json` gives the
/// engine's whole answer, `-o ndjson` a line per piece.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The text to continue; `-` reads stdin.
    #[arg(required = true, value_name = "PROMPT")]
    prompt: Vec<String>,
    #[command(flatten)]
    generation: GenerationArgs,
}

pub fn run(context: &Context, args: &CompleteArgs) -> CliResult {
    let prompt = input::text(&args.prompt)?;
    let client = context.client()?;
    context.block_on(async {
        let model = context.model(&client, args.generation.model.as_deref(), Op::Generate).await?;
        let ask = ChatRequest { prompt: Some(prompt), ..args.generation.request(model) };
        answer(context, &client, &ask, args.generation.no_stream).await.map(drop)
    })
}
