//! From logits to committed tokens, their text, and the end of an answer.

use super::draft::Verified;
use super::sequence::{HeldToken, Sequence};
use crate::control::{ErrorKind, Fault};
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::sampler::log_probabilities;
use crate::engine::models::stream_text::Place;
use crate::engine::runtime::job::{FinishReason, GenerationEvent, TokenLogprob};
use crate::engine::scheduler::Micros;

/// What a pass did to a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Advanced {
    pub verified: Verified,
    pub finish: Option<FinishReason>,
}

/// What all sequences of a model share.
pub(super) struct Words<'a> {
    pub vocabulary: &'a Vocabulary,
    /// Logits of one row.
    pub vocab: usize,
    /// Tokens that end an answer.
    pub end_ids: &'a [u32],
}

impl Sequence {
    /// Takes the logits of its rows, one after the other (`rows × vocab`): a token each, as long as the drafts behind
    /// are what the model says. Commits them and sends the text that they release, at once.
    ///
    /// Before the call the slot's cache holds the newest token and all drafts; afterwards `computed` says how much of
    /// it is still of use.
    pub(super) fn advance(&mut self, logits: &mut [f32], words: &Words<'_>, now: Micros) -> Result<Advanced, Fault> {
        let drafts: Vec<u32> = self.window.drain(..).skip(1).collect();
        if logits.len() != (drafts.len() + 1) * words.vocab {
            let message = format!("request {}: {} logits for {} rows", self.id, logits.len(), drafts.len() + 1);
            return Err(Fault::new(ErrorKind::Internal, message));
        }
        self.first_token.get_or_insert(now);
        let mut verified = Verified { drafted: drafts.len(), ..Verified::default() };
        let mut released = String::new();
        let mut finish = None;
        for (i, row) in logits.chunks_exact_mut(words.vocab.max(1)).enumerate() {
            let (id, text, end) = self.commit(row, words)?;
            verified.committed += 1;
            released.push_str(&text);
            let confirmed = drafts.get(i) == Some(&id);
            verified.accepted += usize::from(confirmed);
            finish = end;
            if end.is_some() || !confirmed {
                break;
            }
        }
        // The cache has the newest token, and drafts behind it of which the accepted ones stay.
        self.computed += verified.accepted;
        verified.stopped = finish.is_some();
        self.send(released, finish.is_some())?;
        Ok(Advanced { verified, finish })
    }

    /// Chooses the token that follows from a row and adds it; gives the text that it releases, and the end if it is one.
    fn commit(&mut self, row: &mut [f32], words: &Words<'_>) -> Result<(u32, String, Option<FinishReason>), Fault> {
        // Log-probabilities are the model's own: before penalties.
        let own = self.logprobs.map(|_| row.to_vec());
        let early = self.generated() < self.min_tokens;
        if early {
            self.forbid_ends(row, words);
        }
        let position = self.tokens.len();
        let id = self
            .sampler
            .choose(row, position)
            .map_err(|e| Fault::new(ErrorKind::Internal, format!("request {}: {e} at token {position}", self.id)))?;
        self.sampler.commit(id);
        self.tokens.push(id);

        if (!self.ignore_eos && words.end_ids.contains(&id)) || self.stop_ids.contains(&id) {
            return Ok((id, self.text.finish().text, Some(FinishReason::Stop)));
        }
        let bytes = words.vocabulary.bytes(id);
        let mut released = if early { self.text.pass(bytes) } else { self.text.push(bytes) };
        let Place { bytes: start, chars } = self.text.newest();
        let logprob = own.zip(self.logprobs).map(|(own, n)| describe(&own, id, n, chars, words.vocabulary));
        self.held.push(HeldToken { id, start, logprob });
        if released.stopped {
            // Tokens whose text lies behind the cut are not part of the answer.
            let out = self.text.released();
            self.held.retain(|t| t.start < out);
            return Ok((id, released.text, Some(FinishReason::Stop)));
        }
        if self.generated() >= self.max_tokens {
            released.text.push_str(&self.text.finish().text);
            return Ok((id, released.text, Some(FinishReason::Length)));
        }
        Ok((id, released.text, None))
    }

    /// Makes every token impossible that would end the answer.
    fn forbid_ends(&self, row: &mut [f32], words: &Words<'_>) {
        let own = if self.ignore_eos { &[] } else { words.end_ids };
        for &id in own.iter().chain(&self.stop_ids) {
            if let Some(l) = row.get_mut(id as usize) {
                *l = f32::NEG_INFINITY;
            }
        }
    }

    /// Sends released text with the tokens whose text it holds; at the end, with all that are left.
    fn send(&mut self, text: String, all: bool) -> Result<(), Fault> {
        let out = self.text.released();
        let ready = if all { self.held.len() } else { self.held.iter().take_while(|t| t.start < out).count() };
        if text.is_empty() && ready == 0 {
            return Ok(());
        }
        let mut tokens = Vec::with_capacity(ready);
        let mut logprobs = Vec::new();
        for token in self.held.drain(..ready) {
            tokens.push(token.id);
            logprobs.extend(token.logprob);
        }
        self.live.send(GenerationEvent::Delta { text, tokens, logprobs })
    }
}

fn describe(logits: &[f32], id: u32, n: usize, offset: usize, vocabulary: &Vocabulary) -> TokenLogprob {
    let (logprob, top) = log_probabilities(logits, id, n);
    TokenLogprob {
        id,
        bytes: vocabulary.shown(id).to_vec(),
        logprob,
        offset,
        top: top.into_iter().map(|(id, l)| (id, vocabulary.shown(id).to_vec(), l)).collect(),
    }
}
