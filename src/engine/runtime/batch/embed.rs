//! A batch of embeddings, in chunks: between two chunks members may leave.

use super::fault;
use super::runner::Run;
use crate::control::Fault;
use crate::engine::models::{ModelError, TextEncoder};
use crate::engine::runtime::Live;
use crate::engine::runtime::job::{EmbedJob, Embedded};
use std::collections::BTreeMap;
use std::ops::Range;

/// Texts and tokens of one call into the model: small enough that a cancellation is seen and the device handed on
/// within a fraction of a second on a CPU, large enough to keep its matrix products full.
const CHUNK_TEXTS: usize = 64;
const CHUNK_TOKENS: usize = 2_048;

struct Member {
    live: Live<Embedded>,
    sequences: Vec<Vec<u32>>,
    vectors: Vec<Vec<f32>>,
}

/// Texts `range` of the member at `member`, and how often they have been tried.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    member: usize,
    range: Range<usize>,
    tries: usize,
}

impl Part {
    fn again(&self, range: Range<usize>) -> Part {
        Part { member: self.member, range, tries: self.tries + 1 }
    }
}

/// Runs the embeddings to their ends.
pub(super) fn run(model: &mut dyn TextEncoder, jobs: Vec<(Live<Embedded>, EmbedJob)>, run: &mut Run<'_>) {
    let mut members: Vec<Member> =
        jobs.into_iter().map(|(live, job)| Member { live, sequences: job.sequences, vectors: Vec::new() }).collect();
    loop {
        members = members.into_iter().filter_map(|member| keep(member, run)).collect();
        if members.is_empty() {
            return;
        }
        let parts = next_chunk(&members);
        let mut faults = compute(model, &mut members, &parts, run);
        let mut index = 0..;
        members = members
            .into_iter()
            .filter_map(|member| match index.next().and_then(|i| faults.remove(&i)) {
                None => Some(member),
                Some(fault) => {
                    run.tally.fault(&fault);
                    member.live.fail(fault, run.now());
                    None
                }
            })
            .collect();
    }
}

/// Ends a member that is complete or not wanted any more.
fn keep(mut member: Member, run: &mut Run<'_>) -> Option<Member> {
    let now = run.now();
    if member.vectors.len() == member.sequences.len() {
        let times = member.live.times(now);
        run.tally.serve(&times);
        member.live.done(Embedded { vectors: member.vectors, times }, now);
        return None;
    }
    match member.live.wanted(now) {
        Ok(()) => Some(member),
        Err(fault) => {
            run.tally.fault(&fault);
            member.live.fail(fault, now);
            None
        }
    }
}

/// The next texts in order, at least one.
fn next_chunk(members: &[Member]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut texts, mut tokens) = (0, 0);
    for (index, member) in members.iter().enumerate() {
        let begin = member.vectors.len();
        let mut end = begin;
        for sequence in &member.sequences[begin..] {
            let full = texts == CHUNK_TEXTS || tokens + sequence.len() > CHUNK_TOKENS;
            if full && texts > 0 {
                break;
            }
            texts += 1;
            tokens += sequence.len();
            end += 1;
        }
        if end > begin {
            parts.push(Part { member: index, range: begin..end, tries: 0 });
        }
        if end < member.sequences.len() {
            break;
        }
    }
    parts
}

/// Computes the parts together; where that fails, each member's alone, and what does not fit into memory in halves; none
/// more often than the profile allows. Returns the faults of the members that failed, by index.
fn compute(
    model: &mut dyn TextEncoder,
    members: &mut [Member],
    parts: &[Part],
    run: &mut Run<'_>,
) -> BTreeMap<usize, Fault> {
    let mut faults = BTreeMap::new();
    // The last pushed goes first: a member's vectors are kept in order.
    let mut todo = vec![parts.to_vec()];
    while let Some(parts) = todo.pop() {
        let tries = parts.iter().map(|part| part.tries).max().unwrap_or(0);
        let tried = match tries < run.max_attempts() {
            true => call(model, members, &parts, run),
            false => Err(Failure { out_of_memory: false, fault: fault::of_attempts(run.model(), tries) }),
        };
        let fault = match tried {
            Ok(vectors) => {
                let mut vectors = vectors.into_iter();
                for part in &parts {
                    members[part.member].vectors.extend(vectors.by_ref().take(part.range.len()));
                }
                continue;
            }
            Err(Failure { out_of_memory, fault }) => match parts.as_slice() {
                [part] if out_of_memory && part.range.len() > 1 => {
                    let Range { start, end } = part.range;
                    let middle = start + part.range.len() / 2;
                    let halves = [vec![part.again(middle..end)], vec![part.again(start..middle)]];
                    run.did_not_fit(halves.iter().map(|half| cost(members, half)).max().unwrap_or(0));
                    todo.extend(halves);
                    continue;
                }
                [_] => fault,
                several if out_of_memory => {
                    let again: Vec<Part> = several.iter().map(|part| part.again(part.range.clone())).collect();
                    let (first, second) = again.split_at(again.len() / 2);
                    run.did_not_fit(cost(members, first).max(cost(members, second)));
                    todo.extend([second.to_vec(), first.to_vec()]);
                    continue;
                }
                several => {
                    todo.extend(several.iter().rev().map(|part| vec![part.again(part.range.clone())]));
                    continue;
                }
            },
        };
        for part in &parts {
            todo.retain(|others| others.iter().all(|other| other.member != part.member));
            faults.insert(part.member, fault.clone());
        }
    }
    faults
}

/// Tokens of the parts.
fn cost(members: &[Member], parts: &[Part]) -> u64 {
    let texts = |part: &Part| members[part.member].sequences[part.range.clone()].iter().map(Vec::len).sum::<usize>();
    parts.iter().map(|part| texts(part) as u64).sum()
}

struct Failure {
    out_of_memory: bool,
    fault: Fault,
}

fn call(
    model: &mut dyn TextEncoder,
    members: &[Member],
    parts: &[Part],
    run: &mut Run<'_>,
) -> Result<Vec<Vec<f32>>, Failure> {
    let sequences: Vec<&[u32]> = parts
        .iter()
        .flat_map(|part| members[part.member].sequences[part.range.clone()].iter().map(Vec::as_slice))
        .collect();
    match run.step(|| model.embed(&sequences)) {
        Ok(Ok(vectors)) if vectors.len() == sequences.len() => Ok(vectors),
        Ok(Ok(vectors)) => {
            let why = format!("{} vectors for {} texts", vectors.len(), sequences.len());
            Err(Failure { out_of_memory: false, fault: fault::of_error(run.model(), "input", &ModelError::Other(why)) })
        }
        Ok(Err(error)) => Err(Failure {
            out_of_memory: matches!(error, ModelError::OutOfMemory { .. }),
            fault: fault::of_error(run.model(), "input", &error),
        }),
        Err(panic) => Err(Failure { out_of_memory: false, fault: fault::of_panic(run.model(), &*panic) }),
    }
}
