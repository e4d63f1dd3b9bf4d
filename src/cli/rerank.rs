//! `lanekeeper rerank`.

use super::context::Context;
use super::embed::shortened;
use super::error::{CliError, CliResult};
use super::input;
use super::print::{Cell, Column, Table};
use crate::control::Op;
use clap::Args;
use serde::Serialize;

/// Order documents by their relevance to a query.
///
/// Each further argument is a document; a lone `-` reads stdin, one document per line.
#[derive(Debug, Args)]
pub struct RerankArgs {
    /// What is looked for.
    query: String,
    /// Documents; `-` reads lines from stdin.
    #[arg(required = true, value_name = "DOCUMENT")]
    documents: Vec<String>,
    /// Model to use [default: the first that reranks].
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Show only the best N.
    #[arg(short = 'n', long, value_name = "N")]
    top: Option<usize>,
}

#[derive(Serialize)]
struct Ranked {
    index: usize,
    relevance_score: f64,
    document: String,
}

pub fn run(context: &Context, args: &RerankArgs) -> CliResult {
    let documents = input::texts(&args.documents)?;
    let client = context.client()?;
    context.block_on(async {
        let model = context.model(&client, args.model.as_deref(), Op::Rerank).await?;
        let answer = client.rerank(&model, &args.query, &documents, args.top).await?.body;
        let mut ranked = Vec::new();
        for r in answer.results {
            let document = documents.get(r.index).cloned().ok_or_else(|| {
                let text = format!("the engine ranked document {} of {}", r.index, documents.len());
                CliError::new(crate::control::ExitCode::Internal, text)
            })?;
            ranked.push(Ranked { index: r.index, relevance_score: r.relevance_score, document });
        }
        context.out.result(&ranked, |out, style| {
            let mut table = Table::new([
                Column::right("RANK"),
                Column::right("SCORE"),
                Column::right("#"),
                Column::left("DOCUMENT"),
            ]);
            for (rank, r) in ranked.iter().enumerate() {
                table.row([
                    Cell::from(rank + 1),
                    format!("{:.4}", r.relevance_score).into(),
                    (r.index + 1).into(),
                    Cell::new(shortened(&r.document)),
                ]);
            }
            table.write(out, style)
        })
    })
}
