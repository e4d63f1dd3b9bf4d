//! From logits to a committed token, its text, and the end of an answer.

use super::sequence::{HeldToken, Sequence};
use crate::control::{ErrorKind, Fault};
use crate::engine::models::gguf::Vocabulary;
use crate::engine::models::sampler::log_probabilities;
use crate::engine::models::stream_text::Released;
use crate::engine::runtime::job::{FinishReason, GenerationEvent, TokenLogprob};
use crate::engine::scheduler::Micros;

/// What a committed token did to its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    GoesOn,
    Finished(FinishReason),
}

impl Sequence {
    /// Chooses the next token from `logits`, commits it and sends the text that it releases.
    pub(super) fn advance(
        &mut self,
        logits: &mut [f32],
        vocabulary: &Vocabulary,
        end_ids: &[u32],
        now: Micros,
    ) -> Result<Committed, Fault> {
        // Log-probabilities are the model's own: before penalties.
        let own = self.logprobs.map(|_| logits.to_vec());
        let position = self.prompt.len() + self.generated;
        let id = self
            .sampler
            .choose(logits, position)
            .map_err(|e| Fault::new(ErrorKind::Internal, format!("request {}: {e} at token {position}", self.id)))?;
        let logprob = own.zip(self.logprobs).map(|(own, n)| describe(&own, id, n, vocabulary));
        self.sampler.commit(id);
        self.generated += 1;
        self.last = id;
        self.first_token.get_or_insert(now);

        let ends = !self.ignore_eos && end_ids.contains(&id);
        if ends {
            let rest = self.text.finish();
            self.send(rest, true)?;
            return Ok(Committed::Finished(FinishReason::Stop));
        }
        self.held.push(HeldToken { id, start: self.text.decoded(), logprob });
        let released = self.text.push(vocabulary.bytes(id));
        if released.stopped {
            self.send(released, false)?;
            return Ok(Committed::Finished(FinishReason::Stop));
        }
        let full = self.generated >= self.max_tokens;
        self.send(released, false)?;
        if full {
            let rest = self.text.finish();
            self.send(rest, true)?;
            return Ok(Committed::Finished(FinishReason::Length));
        }
        Ok(Committed::GoesOn)
    }

    /// Sends released text with the tokens whose text it holds; with `all`, also those that are left at the end.
    fn send(&mut self, released: Released, all: bool) -> Result<(), Fault> {
        let out = self.text.released();
        let ready = if all { self.held.len() } else { self.held.iter().take_while(|t| t.start < out).count() };
        if released.text.is_empty() && ready == 0 {
            return Ok(());
        }
        let mut tokens = Vec::with_capacity(ready);
        let mut logprobs = Vec::new();
        for token in self.held.drain(..ready) {
            tokens.push(token.id);
            logprobs.extend(token.logprob);
        }
        self.live.send(GenerationEvent::Delta { text: released.text, tokens, logprobs })
    }
}

fn describe(logits: &[f32], id: u32, n: usize, vocabulary: &Vocabulary) -> TokenLogprob {
    let (logprob, top) = log_probabilities(logits, id, n);
    TokenLogprob {
        id,
        text: vocabulary.shown(id),
        logprob,
        top: top.into_iter().map(|(id, l)| (id, vocabulary.shown(id), l)).collect(),
    }
}
