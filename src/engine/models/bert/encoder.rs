//! Batches of texts → unit vectors and relevance scores.

use super::config::BertConfig;
use super::forward::{Sequence, hidden};
use super::weights::{CrossHead, Weights};
use crate::engine::models::backend::Backend;
use crate::engine::models::{ModelError, TextEncoder};
use std::ops::Range;
use std::sync::Arc;

/// A BERT on a back end.
pub(super) struct BertEncoder<B: Backend> {
    pub backend: Arc<B>,
    pub config: BertConfig,
    pub weights: Weights<B>,
    /// Longest accepted sequence.
    pub max_tokens: usize,
}

impl<B: Backend> TextEncoder for BertEncoder<B> {
    fn embed(&mut self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        if self.weights.cross.is_some() {
            return Err(ModelError::BadInput(
                "this model is a cross-encoder: it scores pairs, it has no embeddings".into(),
            ));
        }
        let longest = sequences.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let first_type = vec![0u32; longest];
        let sequences: Vec<_> = sequences.iter().map(|ids| Sequence { ids, types: &first_type[..ids.len()] }).collect();
        self.check(&sequences)?;
        let width = self.config.hidden_size;
        let mut vectors = Vec::with_capacity(sequences.len());
        for chunk in chunks(&sequences, self.backend.rows_at_once()) {
            let (states, spans) = hidden(self.backend.as_ref(), &self.weights, &self.config, &sequences[chunk])?;
            let states = self.backend.download(states)?;
            vectors
                .extend(spans.into_iter().map(|rows| mean_unit(&states[rows.start * width..rows.end * width], width)));
        }
        Ok(vectors)
    }

    fn score(&mut self, query: &[u32], documents: &[&[u32]]) -> Result<Vec<f32>, ModelError> {
        if self.weights.cross.is_some() {
            return self.score_pairs(query, documents);
        }
        let mut texts = Vec::with_capacity(documents.len() + 1);
        texts.push(query);
        texts.extend_from_slice(documents);
        let vectors = self.embed(&texts)?;
        // Of two equal vectors rounding makes a little more than 1, which no cosine is.
        let cosine =
            |vector: &Vec<f32>| vectors[0].iter().zip(vector).map(|(a, b)| a * b).sum::<f32>().clamp(-1.0, 1.0);
        Ok(vectors[1..].iter().map(cosine).collect())
    }

    fn weights_bytes(&self) -> u64 {
        self.weights.bytes
    }
}

impl<B: Backend> BertEncoder<B> {
    /// Refuses what the model cannot take, naming the place in the batch.
    fn check(&self, sequences: &[Sequence<'_>]) -> Result<(), ModelError> {
        for (index, sequence) in sequences.iter().enumerate() {
            let length = sequence.ids.len();
            if length == 0 {
                return Err(ModelError::BadInput(format!("text {index} has no tokens")));
            }
            if length > self.max_tokens {
                let message = format!("text {index} has {length} tokens, the model takes {}", self.max_tokens);
                return Err(ModelError::BadInput(message));
            }
            if let Some(id) = sequence.ids.iter().find(|id| **id as usize >= self.config.vocab_size) {
                let message =
                    format!("text {index}: token {id} is not in the vocabulary of {}", self.config.vocab_size);
                return Err(ModelError::BadInput(message));
            }
        }
        Ok(())
    }

    /// `[CLS] query [SEP]` and `[CLS] document [SEP]` → one sequence `[CLS] query [SEP] document [SEP]`.
    fn score_pairs(&self, query: &[u32], documents: &[&[u32]]) -> Result<Vec<f32>, ModelError> {
        let Some(head) = &self.weights.cross else { return Ok(Vec::new()) };
        let pairs: Vec<(Vec<u32>, Vec<u32>)> = documents
            .iter()
            .map(|document| {
                let tail = document.get(1..).unwrap_or_default();
                let ids = [query, tail].concat();
                let types = (0..ids.len()).map(|at| u32::from(at >= query.len())).collect();
                (ids, types)
            })
            .collect();
        let sequences: Vec<_> = pairs.iter().map(|(ids, types)| Sequence { ids, types }).collect();
        self.check(&sequences)?;
        let mut scores = Vec::with_capacity(documents.len());
        for chunk in chunks(&sequences, self.backend.rows_at_once()) {
            let (states, spans) = hidden(self.backend.as_ref(), &self.weights, &self.config, &sequences[chunk])?;
            let firsts: Vec<_> = spans.iter().map(|rows| rows.start).collect();
            scores.extend(self.head_scores(head, &states, &firsts)?);
        }
        Ok(scores)
    }

    /// Logistic of the head's logit for each of the `rows`.
    fn head_scores(&self, head: &CrossHead<B>, states: &B::Mat, rows: &[usize]) -> Result<Vec<f32>, ModelError> {
        let backend = self.backend.as_ref();
        let pooled = backend.linear(&backend.gather_rows(states, rows)?, &head.pooler)?;
        let pooled = backend.download(pooled)?.into_iter().map(f32::tanh).collect();
        let pooled = backend.upload(rows.len(), self.config.hidden_size, pooled)?;
        let logits = backend.download(backend.linear(&pooled, &head.classifier)?)?;
        Ok(logits.into_iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect())
    }
}

/// Consecutive sequences of at most `max_rows` rows together, which also bounds the memory of activations; a longer one
/// goes alone.
fn chunks(sequences: &[Sequence<'_>], max_rows: usize) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut rows) = (0, 0);
    for (index, sequence) in sequences.iter().enumerate() {
        if index > start && rows + sequence.ids.len() > max_rows {
            chunks.push(start..index);
            (start, rows) = (index, 0);
        }
        rows += sequence.ids.len();
    }
    if start < sequences.len() {
        chunks.push(start..sequences.len());
    }
    chunks
}

/// The mean of the rows, scaled to length 1.
fn mean_unit(states: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0f32; width];
    for row in states.chunks_exact(width) {
        for (total, value) in sum.iter_mut().zip(row) {
            *total += value;
        }
    }
    // The number of rows falls out of a unit vector.
    let length = sum.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt().max(1e-12);
    sum.iter().map(|x| (f64::from(*x) / length) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_keep_order_and_bounds() {
        let ids = [1u32; 10];
        let sequence = |n: usize| Sequence { ids: &ids[..n], types: &ids[..n] };
        let lengths = [4, 4, 1, 9, 2, 10, 1];
        let sequences: Vec<_> = lengths.iter().map(|n| sequence(*n)).collect();
        assert_eq!(chunks(&sequences, 9), [0..3, 3..4, 4..5, 5..6, 6..7]);
        assert_eq!(chunks(&[], 9), Vec::<Range<usize>>::new());
    }

    #[test]
    fn a_mean_is_a_unit_vector() {
        assert_eq!(mean_unit(&[3.0, 0.0, 3.0, 8.0], 2), [0.6, 0.8]);
        assert_eq!(mean_unit(&[0.0, 0.0], 2), [0.0, 0.0]);
    }
}
