//! Prompts that begin alike and are read at the same time: several answers to one prompt, chats behind one system text.
//!
//! Idle slots keep what they hold for requests that begin alike ([`slots`](super::slots)); this is the same for slots
//! that are taken. The older sequence reads, the younger waits and then takes a copy of its keys and values: a copy
//! costs a small part of a forward pass over the same tokens, and is the same to the bit.

use super::slots::common;
use super::step::Generator;

/// Fewest tokens that are worth waiting for.
const LEAST: usize = 16;

impl Generator {
    /// Gives each sequence that reads what an older one has read already of the same text, and has it wait while that
    /// still reads it. Decided anew before each iteration: when the older one goes, the younger reads for itself.
    pub(super) fn share_prompts(&mut self) {
        if !self.settings.prefix_cache {
            return;
        }
        for i in 0..self.active.len() {
            self.active[i].follows = false;
            let reader = &self.active[i];
            if reader.alone || reader.decodes() {
                continue;
            }
            // At least one token is left to compute, for its logits.
            let own = &reader.tokens[..reader.tokens.len().saturating_sub(1)];
            let alike = self.active[..i].iter().map(|older| (common(&older.tokens, own), older));
            let worth = alike.filter(|(n, _)| *n >= reader.computed + LEAST);
            let Some((n, older)) = worth.max_by_key(|(n, older)| (*n, older.computed)) else { continue };
            if older.computed < n {
                self.active[i].follows = true;
                continue;
            }
            let (from, to, had) = (older.slot, reader.slot, reader.computed);
            match self.model.fork(from, to, n) {
                Ok(()) => {
                    let reader = &mut self.active[i];
                    reader.computed = n;
                    if reader.generated() == 0 {
                        reader.cached += n - had;
                        self.cached_tokens += (n - had) as u64;
                        self.metrics.cached_tokens.inc_by((n - had) as u64);
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        model = %self.context.handle.name, from, to, n, %error,
                        "a prompt that another sequence has read could not be taken over; it is read again"
                    );
                    self.active[i].alone = true;
                    // What is left in the slot is not known to be sound.
                    if !self.rewind(to, had) {
                        self.active[i].computed = 0;
                    }
                }
            }
        }
    }
}
