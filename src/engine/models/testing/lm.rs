//! The language model.

use super::Gate;
use crate::engine::models::chat::ChatTemplate;
use crate::engine::models::gguf::testing::FileBuilder;
use crate::engine::models::gguf::vocabulary::Scheme;
use crate::engine::models::gguf::{Vocabulary, header, tokenizer};
use crate::engine::models::{
    CausalLm, DraftAfter, LmConfig, LmFront, LmSpan, LoadedModel, LogitsFor, ModelBack, ModelError, ModelFront,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The end token.
pub(crate) const END: u32 = 0;
/// The backquote: a pass that has it panics.
pub(crate) const PANIC: u32 = 64;

/// The token of a printable character: the vocabulary is the end, then these in order, then blank and line break.
pub(crate) fn letter(c: char) -> u32 {
    u32::from(c) - u32::from('!') + 1
}

/// Goes on with the alphabet: `b` follows `a`, the end follows `z`, and `a` follows anything else.
pub(crate) fn alphabet(tokens: &[u32]) -> u32 {
    match tokens.last().copied().unwrap_or(END) {
        z if z == letter('z') => END,
        l if (letter('a')..letter('z')).contains(&l) => l + 1,
        _ => letter('a'),
    }
}

/// A letter that depends on all tokens before, so that text shows what the model saw. The end follows a nine.
pub(crate) fn hashed(tokens: &[u32]) -> u32 {
    if tokens.last() == Some(&9) {
        return END;
    }
    let mix = |h: u64, (i, t): (usize, &u32)| h.wrapping_mul(31).wrapping_add(u64::from(*t) + i as u64);
    letter('a') + (tokens.iter().enumerate().fold(7u64, mix) % 26) as u32
}

/// What a model was asked, and what it is to do wrong.
#[derive(Default)]
pub(crate) struct Probe {
    /// Rows of each pass: (slot, start, tokens).
    pub(crate) passes: Mutex<Vec<Vec<(usize, usize, usize)>>>,
    /// So many rewinds fail from now on.
    pub(crate) failing_rewinds: AtomicUsize,
    /// So many copies of slots fail from now on.
    pub(crate) failing_forks: AtomicUsize,
    /// So many passes fail from now on.
    pub(crate) failing_passes: AtomicUsize,
    /// So many passes panic from now on.
    pub(crate) panicking_passes: AtomicUsize,
    /// Rows that are computed with others in a span come out wrong now and then, as on a device whose sums depend on the
    /// batch.
    pub(crate) rows_depend_on_neighbours: AtomicBool,
    /// How tokens are written in its vocabulary, if not as printable characters.
    pub(crate) written: Option<fn(u32) -> &'static str>,
    /// What its draft head says, if it is to have one: the token that it expects behind these.
    pub(crate) head: Option<fn(&[u32]) -> u32>,
    /// Sequences and depth of each run of the head.
    pub(crate) drafted: Mutex<Vec<(usize, usize)>>,
    /// So many runs of the head panic from now on.
    pub(crate) panicking_drafts: AtomicUsize,
}

impl Probe {
    pub(crate) fn passes(&self) -> Vec<Vec<(usize, usize, usize)>> {
        self.passes.lock().expect("not poisoned").clone()
    }
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
}

/// The next token is a function of all tokens before.
pub(crate) struct FakeLm {
    config: LmConfig,
    slots: Vec<Vec<u32>>,
    next: fn(&[u32]) -> u32,
    gate: Arc<Gate>,
    probe: Arc<Probe>,
}

impl FakeLm {
    /// A loaded model with a context of `context` tokens.
    pub(crate) fn load(
        slots: usize,
        context: usize,
        next: fn(&[u32]) -> u32,
        gate: Arc<Gate>,
        probe: Arc<Probe>,
    ) -> LoadedModel {
        let mut front = front(context);
        if let Some(written) = probe.written {
            let ids = 0..front.vocabulary.len() as u32;
            let kinds = ids.clone().map(|id| front.vocabulary.kind(id)).collect();
            let tokens = ids.map(|id| written(id).to_string()).collect();
            front.vocabulary = Arc::new(Vocabulary::new(Scheme::ByteLevel, tokens, kinds));
        }
        let fake = FakeLm { config: front.config.clone(), slots: vec![Vec::new(); slots], next, gate, probe };
        LoadedModel { front: ModelFront::Lm(front), back: ModelBack::Lm(Box::new(fake)) }
    }

    fn row(&self, tokens: &[u32]) -> Vec<f32> {
        let mut row = vec![0.0; self.config.vocab];
        row[(self.next)(tokens) as usize] = 9.0;
        row
    }
}

impl CausalLm for FakeLm {
    fn config(&self) -> &LmConfig {
        &self.config
    }

    fn forward(&mut self, spans: &[LmSpan<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.gate.pass();
        let rows = spans.iter().map(|s| (s.slot, s.start, s.tokens.len())).collect();
        self.probe.passes.lock().expect("not poisoned").push(rows);
        assert!(!take_one(&self.probe.panicking_passes), "told to panic");
        if take_one(&self.probe.failing_passes) {
            return Err(ModelError::Other("told to fail".into()));
        }
        let mut answers = Vec::with_capacity(spans.len());
        for s in spans {
            assert!(!s.tokens.contains(&PANIC), "told to panic");
            let mut slot = std::mem::take(&mut self.slots[s.slot]);
            assert!(s.start <= slot.len(), "a hole in the cache: {} of {}", s.start, slot.len());
            slot.truncate(s.start);
            slot.extend_from_slice(s.tokens);
            answers.push(match s.logits {
                LogitsFor::None => Vec::new(),
                LogitsFor::Last => self.row(&slot),
                LogitsFor::All => (s.start..slot.len())
                    .flat_map(|i| {
                        let wrong = self.probe.rows_depend_on_neighbours.load(Ordering::Acquire) && i % 3 == 0;
                        self.row(if wrong { &slot[..1] } else { &slot[..=i] })
                    })
                    .collect(),
            });
            self.slots[s.slot] = slot;
        }
        Ok(answers)
    }

    fn slot_len(&self, slot: usize) -> usize {
        self.slots[slot].len()
    }

    fn truncate(&mut self, slot: usize, len: usize) -> Result<(), ModelError> {
        let have = self.slots[slot].len();
        if len > have || take_one(&self.probe.failing_rewinds) {
            return Err(ModelError::BadInput(format!("slot {slot} holds {have} tokens, cannot rewind to {len}")));
        }
        self.slots[slot].truncate(len);
        Ok(())
    }

    fn fork(&mut self, from: usize, to: usize, len: usize) -> Result<(), ModelError> {
        if len > self.slots[from].len() || take_one(&self.probe.failing_forks) {
            return Err(ModelError::BadInput(format!("slot {from} has no {len} tokens to copy")));
        }
        self.slots[to] = self.slots[from][..len].to_vec();
        Ok(())
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn weights_bytes(&self) -> u64 {
        1
    }

    fn rows_are_independent(&self) -> bool {
        true
    }

    fn kv_bytes(&self) -> u64 {
        2
    }

    fn drafts(&self) -> bool {
        self.probe.head.is_some()
    }

    fn draft(&mut self, after: &[DraftAfter], n: usize) -> Result<Vec<Vec<u32>>, ModelError> {
        self.probe.drafted.lock().expect("not poisoned").push((after.len(), n));
        assert!(!take_one(&self.probe.panicking_drafts), "told to panic");
        let head = self.probe.head.expect("asked of a model with a head only");
        let draft = |a: &DraftAfter| {
            assert_eq!(self.slots[a.slot].len(), a.at, "the newest token is not in the cache yet");
            let mut tokens = [&self.slots[a.slot][..], &[a.token]].concat();
            (0..n).for_each(|_| tokens.push(head(&tokens)));
            tokens.split_off(a.at + 1)
        };
        Ok(after.iter().map(draft).collect())
    }
}

/// A front whose tokens are printable characters.
pub(crate) fn front(context: usize) -> LmFront {
    let mut tokens = vec!["</s>".to_string()];
    tokens.extend(('!'..='~').map(String::from));
    tokens.extend(["Ġ", "Ċ"].map(String::from));
    let kinds: Vec<i32> = (0..tokens.len()).map(|i| if i == 0 { 3 } else { 1 }).collect();
    let file = FileBuilder::new()
        .text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &kinds)
        .texts::<&str>("tokenizer.ggml.merges", &[])
        .build();
    let gguf = header::read(&file[..], Path::new("fake.gguf"), file.len() as u64).expect("whole");
    let vocabulary = Vocabulary::from_metadata(&gguf.metadata).expect("a vocabulary");
    let config = LmConfig {
        architecture: "fake".into(),
        vocab: tokens.len(),
        hidden: 1,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        feed_forward: 1,
        rope_base: 1.0,
        norm_eps: 0.0,
        context,
    };
    LmFront {
        tokenizer: tokenizer::build(&gguf.metadata, &vocabulary).expect("a tokenizer"),
        vocabulary: Arc::new(vocabulary),
        config,
        chat_template: Some(Arc::new(ChatTemplate::chatml())),
        bos: None,
        eos: None,
        bos_id: None,
        add_bos: false,
        end_ids: vec![END],
    }
}
