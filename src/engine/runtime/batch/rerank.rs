//! A batch of reranks: one query at a time, its documents in chunks; between two chunks a request may leave.

use super::fault;
use super::runner::Run;
use crate::control::Fault;
use crate::engine::models::{ModelError, TextEncoder};
use crate::engine::runtime::Live;
use crate::engine::runtime::job::{RerankJob, Reranked};
use crate::engine::scheduler::rerank_cost;

/// Documents and tokens of one call into the model; see the chunks of embeddings.
const CHUNK_DOCUMENTS: usize = 64;
const CHUNK_TOKENS: usize = 2_048;

/// Runs the reranks to their ends.
pub(super) fn run(model: &mut dyn TextEncoder, jobs: Vec<(Live<Reranked>, RerankJob)>, run: &mut Run<'_>) {
    for (mut live, job) in jobs {
        match score(model, &mut live, &job, run) {
            Ok(scores) => {
                let now = run.now();
                let times = live.times(now);
                run.tally.serve(&times);
                live.done(Reranked { scores, times }, now);
            }
            Err(fault) => {
                run.tally.fault(&fault);
                live.fail(fault, run.now());
            }
        }
    }
}

fn score(
    model: &mut dyn TextEncoder,
    live: &mut Live<Reranked>,
    job: &RerankJob,
    run: &mut Run<'_>,
) -> Result<Vec<f32>, Fault> {
    let mut scores = Vec::with_capacity(job.documents.len());
    let mut largest = CHUNK_DOCUMENTS;
    let mut tries = 0;
    while scores.len() < job.documents.len() {
        live.wanted(run.now())?;
        if tries >= run.max_attempts() {
            return Err(fault::of_attempts(run.model(), tries));
        }
        tries += 1;
        let documents = chunk(job, scores.len(), largest);
        match run.step(|| model.score(&job.query, &documents)) {
            Ok(Ok(some)) if some.len() == documents.len() => {
                scores.extend(some);
                tries = 0;
            }
            Ok(Ok(some)) => {
                let why = ModelError::Other(format!("{} scores for {} documents", some.len(), documents.len()));
                return Err(fault::of_error(run.model(), "documents", &why));
            }
            Ok(Err(ModelError::OutOfMemory { .. })) if documents.len() > 1 => {
                largest = documents.len() / 2;
                let lengths = |half: &[&[u32]]| rerank_cost(job.query.len(), half.iter().map(|d| d.len()));
                let (first, second) = documents.split_at(largest);
                run.did_not_fit(lengths(first).max(lengths(second)));
            }
            Ok(Err(error)) => return Err(fault::of_error(run.model(), "documents", &error)),
            Err(panic) => return Err(fault::of_panic(run.model(), &*panic)),
        }
    }
    Ok(scores)
}

/// The next documents in order: at least one, at most `largest`, within the tokens of a call where more than one.
fn chunk(job: &RerankJob, from: usize, largest: usize) -> Vec<&[u32]> {
    let mut documents: Vec<&[u32]> = Vec::new();
    let mut tokens = 0u64;
    for document in job.documents[from..].iter().take(largest) {
        tokens += rerank_cost(job.query.len(), [document.len()]);
        if !documents.is_empty() && tokens > CHUNK_TOKENS as u64 {
            break;
        }
        documents.push(document);
    }
    documents
}
