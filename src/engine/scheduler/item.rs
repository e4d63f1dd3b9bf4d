//! What waits to be batched: its cost and its lane.

use super::Micros;
use crate::control::{Lane, Op};

/// Audio of more samples than this (30 s at 16 kHz) is a recording and runs alone; exactly this many is a clip.
pub const RECORDING_SAMPLES: u64 = 480_000;

/// Identity of an item: the request's number. Members of turns and batches are known by it, never by an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub u64);

/// One request, as the scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    pub id: ItemId,
    pub op: Op,
    pub lane: Lane,
    /// In the operation's unit ([`Op::cost_unit`]); at least 1.
    pub cost: u64,
    /// When it was submitted.
    pub arrival: Micros,
    /// When its answer stops being of use.
    pub deadline: Option<Micros>,
}

impl Item {
    /// Speech of `samples` mono 16 kHz samples.
    pub fn transcribe(id: ItemId, samples: u64, arrival: Micros) -> Item {
        let (lane, cost) = (lane_of_audio(samples), audio_cost_ms(samples));
        Item { id, op: Op::Transcribe, lane, cost, arrival, deadline: None }
    }

    /// Texts of these many tokens each.
    pub fn embed(id: ItemId, tokens: impl IntoIterator<Item = usize>, arrival: Micros) -> Item {
        Item { id, op: Op::Embed, lane: Lane::Clips, cost: embed_cost(tokens), arrival, deadline: None }
    }

    /// A query against documents of these many tokens each.
    pub fn rerank(id: ItemId, query: usize, documents: impl IntoIterator<Item = usize>, arrival: Micros) -> Item {
        Item { id, op: Op::Rerank, lane: Lane::Clips, cost: rerank_cost(query, documents), arrival, deadline: None }
    }

    /// Sets when the answer stops being of use.
    pub fn until(mut self, deadline: Option<Micros>) -> Item {
        self.deadline = deadline;
        self
    }
}

/// Milliseconds of mono 16 kHz audio, rounded up, at least 1: 1 sample → 1, 480 001 → 30 001.
pub fn audio_cost_ms(samples: u64) -> u64 {
    samples.saturating_mul(1_000).div_ceil(16_000).max(1)
}

/// The lane of audio: samples are compared, not milliseconds.
pub fn lane_of_audio(samples: u64) -> Lane {
    if samples > RECORDING_SAMPLES { Lane::Recordings } else { Lane::Clips }
}

/// Tokens of all sequences, at least 1.
pub fn embed_cost(tokens: impl IntoIterator<Item = usize>) -> u64 {
    tokens.into_iter().fold(0u64, |sum, n| sum.saturating_add(n as u64)).max(1)
}

/// Per document tokens(query) + tokens(document), summed, at least 1: the query counts once per document.
pub fn rerank_cost(query: usize, documents: impl IntoIterator<Item = usize>) -> u64 {
    let pair = |n: usize| (query as u64).saturating_add(n as u64);
    documents.into_iter().fold(0u64, |sum, n| sum.saturating_add(pair(n))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_costs_round_up_and_are_never_zero() {
        assert_eq!(audio_cost_ms(0), 1);
        assert_eq!(audio_cost_ms(1), 1);
        assert_eq!(audio_cost_ms(16), 1);
        assert_eq!(audio_cost_ms(17), 2);
        assert_eq!(audio_cost_ms(480_000), 30_000);
        assert_eq!(audio_cost_ms(480_001), 30_001);
        assert_eq!(audio_cost_ms(u64::MAX), u64::MAX.div_ceil(16_000));
    }

    #[test]
    fn thirty_seconds_exactly_is_a_clip() {
        assert_eq!(lane_of_audio(480_000), Lane::Clips);
        assert_eq!(lane_of_audio(480_001), Lane::Recordings);
        // 479 990 samples round up to the same 30 000 ms: the samples decide, not the milliseconds.
        assert_eq!(audio_cost_ms(479_990), 30_000);
        assert_eq!(lane_of_audio(479_990), Lane::Clips);
    }

    #[test]
    fn text_costs_sum_and_empty_lists_cost_one() {
        assert_eq!(embed_cost([]), 1);
        assert_eq!(embed_cost([0]), 1);
        assert_eq!(embed_cost([3, 4]), 7);
        assert_eq!(rerank_cost(5, []), 1);
        assert_eq!(rerank_cost(5, [1, 2]), 13, "the query counts once per document");
        assert_eq!(embed_cost([usize::MAX, usize::MAX]), u64::MAX);
    }

    #[test]
    fn dear_text_stays_a_clip() {
        assert_eq!(Item::embed(ItemId(1), [1_000_000], Micros::ZERO).lane, Lane::Clips);
    }
}
