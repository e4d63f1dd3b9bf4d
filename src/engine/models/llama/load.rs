//! From a GGUF file to a model that can be served.

use super::config;
use super::forward::Llama;
use super::weights;
use crate::engine::models::backend::Backend;
use crate::engine::models::chat::ChatTemplate;
use crate::engine::models::gguf::tensors::{TensorReader, host_weight};
use crate::engine::models::gguf::{self, Metadata, TokenKind, Vocabulary, tokenizer};
use crate::engine::models::mtp::{Head, HeadFile};
use crate::engine::models::{LmFront, LoadedModel, ModelBack, ModelError, ModelFront};
use crate::profile::GenerationSettings;
use std::path::Path;
use std::sync::Arc;

/// Names under which models end a turn or a text, beside the tokens that their metadata name.
const END_NAMES: [&str; 9] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<|EOT|>",
    "</s>",
];

const OUTPUT: &str = "output.weight";

/// Loads the model in the file at `path`. Sequences get at most `settings.context_tokens`, and never more than the
/// model was trained for. `head`: the model's own draft head; a back end that cannot verify drafts leaves it. `progress`
/// gets the part done, 0..=1.
pub fn load<B: Backend>(
    path: &Path,
    settings: &GenerationSettings,
    head: Option<&HeadFile>,
    backend: Arc<B>,
    progress: &mut dyn FnMut(f64),
) -> Result<LoadedModel, ModelError> {
    let (front, model) = parts(path, settings, head, backend, progress)?;
    Ok(LoadedModel { front: ModelFront::Lm(front), back: ModelBack::Lm(Box::new(model)) })
}

/// The halves of the model in the file at `path`.
fn parts<B: Backend>(
    path: &Path,
    settings: &GenerationSettings,
    head: Option<&HeadFile>,
    backend: Arc<B>,
    progress: &mut dyn FnMut(f64),
) -> Result<(LmFront, Llama<B>), ModelError> {
    let file = gguf::open(path)?;
    let m = &file.metadata;
    let vocabulary = Vocabulary::from_metadata(m)?;
    let config = config::read(m, vocabulary.len())?;
    let tokenizer = tokenizer::build(m, &vocabulary)?;
    let mut reader = TensorReader::new(&file)?;
    let weights = weights::load(&mut reader, &config, &*backend, progress)?;
    let capacity = settings.context_tokens.min(config.lm.context);
    let lm = config.lm.clone();
    let head = match head.filter(|_| backend.rows_are_independent()) {
        Some(head) => {
            // Without an output table of its own the model's logits come from the embeddings.
            let name = if reader.has(OUTPUT) { OUTPUT } else { "token_embd.weight" };
            let shape = [lm.vocab, lm.hidden];
            let output = backend.load_table(host_weight(reader.read(name, &shape)?)?)?;
            Some(Head::load(head, &output, shape, &*backend)?)
        }
        None => None,
    };
    let mut model = Llama::new(backend, config, weights, settings.slots, capacity)?;
    if let Some(head) = head {
        model = model.with_head(head);
    }

    let bos_id = m.opt_token("tokenizer.ggml.bos_token_id", vocabulary.len())?;
    let eos_id = m.opt_token("tokenizer.ggml.eos_token_id", vocabulary.len())?;
    let spelled = |id: Option<u32>| id.map(|id| vocabulary.written(id).to_string());
    let (bos, eos) = (spelled(bos_id), spelled(eos_id));
    let chat_template = chat_template(m, &vocabulary, bos.as_deref(), eos.as_deref())?;
    let front = LmFront {
        end_ids: end_ids(m, &vocabulary, eos_id)?,
        // SentencePiece models were trained with a begin token; byte-level ones say so if they want it.
        add_bos: m
            .opt_bool("tokenizer.ggml.add_bos_token")?
            .unwrap_or(m.opt_text("tokenizer.ggml.model")? == Some("llama")),
        config: lm,
        tokenizer,
        vocabulary: Arc::new(vocabulary),
        chat_template: chat_template.map(Arc::new),
        bos,
        eos,
        bos_id,
    };
    Ok((front, model))
}

fn end_ids(m: &Metadata, vocabulary: &Vocabulary, eos: Option<u32>) -> Result<Vec<u32>, ModelError> {
    let mut ids: Vec<u32> = eos.into_iter().collect();
    for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
        ids.extend(m.opt_token(key, vocabulary.len())?);
    }
    ids.extend(vocabulary.of_kind(TokenKind::Control).filter(|&id| END_NAMES.contains(&vocabulary.written(id))));
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

fn chat_template(
    m: &Metadata,
    vocabulary: &Vocabulary,
    bos: Option<&str>,
    eos: Option<&str>,
) -> Result<Option<ChatTemplate>, ModelError> {
    const KEY: &str = "tokenizer.chat_template";
    if let Some(source) = m.opt_text(KEY)? {
        let parsed = ChatTemplate::new(source, bos, eos);
        return parsed.map(Some).map_err(|e| m.bad(KEY, format!("is not a template: {e}")));
    }
    let chatml = vocabulary.of_kind(TokenKind::Control).any(|id| vocabulary.written(id) == "<|im_start|>");
    Ok(chatml.then(ChatTemplate::chatml))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::backend::candle::CandleBackend;
    use crate::engine::models::backend::cpu::CpuBackend;
    use crate::engine::models::gguf::testing::FileBuilder;
    use crate::engine::models::mtp::testing::{self, Written};
    use crate::engine::models::{CausalLm, DraftAfter, LmSpan, LogitsFor};
    use crate::profile::DraftHead;
    use candle_core::Device;
    use proptest::prelude::*;

    const WIDTH: usize = 16;
    const FFN: usize = 24;
    const VOCAB: usize = 12;
    const KV: usize = 8;

    /// A tiny model with random weights: 2 layers, 4 heads of 4, 2 KV heads, tied head.
    fn tiny() -> FileBuilder {
        let mut state = 0x1234_5678u32;
        let mut random = move |n: usize| -> Vec<f32> {
            (0..n)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 8) as f32 / (1 << 24) as f32 - 0.5
                })
                .collect()
        };
        let tokens: Vec<String> =
            ["<|im_start|>", "<|im_end|>"].into_iter().map(String::from).chain(('a'..='j').map(String::from)).collect();
        let kinds: Vec<i32> = (0..VOCAB).map(|i| if i < 2 { 3 } else { 1 }).collect();
        let mut f = FileBuilder::new()
            .text("general.architecture", "llama")
            .u32("llama.embedding_length", WIDTH as u32)
            .u32("llama.attention.head_count", 4)
            .u32("llama.attention.head_count_kv", 2)
            .u32("llama.block_count", 2)
            .u32("llama.feed_forward_length", FFN as u32)
            .u32("llama.context_length", 32)
            .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
            .f32("llama.rope.freq_base", 1e4)
            .text("tokenizer.ggml.model", "gpt2")
            .texts("tokenizer.ggml.tokens", &tokens)
            .i32s("tokenizer.ggml.token_type", &kinds)
            .texts::<&str>("tokenizer.ggml.merges", &[])
            .bool("tokenizer.ggml.add_bos_token", true)
            .u32("tokenizer.ggml.bos_token_id", 0)
            .u32("tokenizer.ggml.eos_token_id", 1);
        let (w, kv, ffn) = (WIDTH as u64, KV as u64, FFN as u64);
        for i in 0..2 {
            for (name, out, input) in [
                ("attn_q", w, w),
                ("attn_k", kv, w),
                ("attn_v", kv, w),
                ("attn_output", w, w),
                ("ffn_gate", ffn, w),
                ("ffn_up", ffn, w),
                ("ffn_down", w, ffn),
            ] {
                let values = random((out * input) as usize);
                f = f.floats(&format!("blk.{i}.{name}.weight"), &[out, input], &values);
            }
            f = f.floats(&format!("blk.{i}.attn_norm.weight"), &[w], &[1.0; WIDTH]);
            f = f.floats(&format!("blk.{i}.ffn_norm.weight"), &[w], &[1.0; WIDTH]);
        }
        f = f.floats("token_embd.weight", &[VOCAB as u64, w], &random(VOCAB * WIDTH));
        f.floats("output_norm.weight", &[w], &[1.0; WIDTH])
    }

    fn settings() -> GenerationSettings {
        GenerationSettings {
            slots: 3,
            context_tokens: 64,
            kv_tokens: 96,
            kv_reserve: 16,
            prefix_cache: true,
            paused: false,
            queue: 4,
            iteration_tokens: 32,
            prefill_chunk: 8,
            default_max_tokens: 8,
            speculation: Default::default(),
        }
    }

    fn load_bytes(data: &[u8]) -> Result<(LmFront, Box<dyn CausalLm>), ModelError> {
        load_on(data, CandleBackend::new(Device::Cpu))
    }

    fn load_on<B: Backend>(data: &[u8], backend: B) -> Result<(LmFront, Box<dyn CausalLm>), ModelError> {
        load_with(data, None, backend)
    }

    fn load_with<B: Backend>(
        data: &[u8],
        head: Option<&HeadFile>,
        backend: B,
    ) -> Result<(LmFront, Box<dyn CausalLm>), ModelError> {
        parts_on(data, head, backend).map(|(front, model)| -> (LmFront, Box<dyn CausalLm>) { (front, Box::new(model)) })
    }

    fn parts_on<B: Backend>(
        data: &[u8],
        head: Option<&HeadFile>,
        backend: B,
    ) -> Result<(LmFront, Llama<B>), ModelError> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lanekeeper-tiny-{}-{n}.gguf", std::process::id()));
        std::fs::write(&path, data).expect("a writable temp folder");
        let mut told = vec![0.0];
        let loaded = parts(&path, &settings(), head, Arc::new(backend), &mut |done| told.push(done));
        assert!(told.is_sorted() && (loaded.is_err() || told.last() == Some(&1.0)), "{told:?}");
        std::fs::remove_file(&path).expect("the file is there");
        loaded
    }

    fn model() -> Box<dyn CausalLm> {
        load_bytes(&tiny().build()).expect("loads").1
    }

    fn span(slot: usize, start: usize, tokens: &[u32], logits: LogitsFor) -> LmSpan<'_> {
        LmSpan { slot, start, tokens, logits }
    }

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() <= 1e-5)
    }

    #[test]
    fn the_front_says_what_the_file_says() {
        let (front, back) = load_bytes(&tiny().build()).expect("loads");
        assert_eq!(front.end_ids, [1]);
        assert_eq!(front.encode_prompt("ab").expect("encodes"), [0, 2, 3]);
        assert!(front.chat_template.is_some());
        assert_eq!(back.slots(), 3);
        assert!(back.weights_bytes() > 0);
    }

    #[test]
    fn a_rewound_slot_forgets() {
        let mut m = model();
        let clean = m.forward(&[span(0, 0, &[2, 3, 4], LogitsFor::Last)]).expect("runs");
        m.forward(&[span(1, 0, &[2, 3, 9, 9], LogitsFor::None)]).expect("runs");
        m.truncate(1, 2).expect("rewinds");
        let again = m.forward(&[span(1, 2, &[4], LogitsFor::Last)]).expect("runs");
        assert!(close(&clean[0], &again[0]));
        assert!(m.truncate(1, 9).is_err());
        assert_eq!(m.slot_len(1), 3);
    }

    /// On the CPU a row's bits do not depend on what is computed beside it, nor on what its slot held before: an answer
    /// behind a kept start, and one out of verify windows, are those of a cold start.
    #[test]
    fn a_kept_start_and_a_window_give_the_bits_of_a_cold_start() {
        let (_, mut m) = load_on(&tiny().build(), CpuBackend::new(2)).expect("loads");
        let tokens = [2, 3, 4, 5, 6, 7, 8, 9, 10];
        let cold = m.forward(&[span(0, 0, &tokens, LogitsFor::All)]).expect("runs").remove(0);
        let bits = |rows: &[f32]| rows.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
        // Another request's tokens, of which five stay.
        m.forward(&[span(1, 0, &[2, 3, 4, 5, 6, 11, 11, 11], LogitsFor::None)]).expect("runs");
        m.truncate(1, 5).expect("rewinds");
        let warm = m
            .forward(&[span(2, 0, &[7, 7, 7], LogitsFor::Last), span(1, 5, &tokens[5..], LogitsFor::All)])
            .expect("runs");
        assert_eq!(bits(&warm[1]), bits(&cold[5 * VOCAB..]));
        // A window whose drafts are wrong from the second on, and the right tokens written over them.
        m.forward(&[span(1, 0, &tokens[..4], LogitsFor::None)]).expect("runs");
        let window = m.forward(&[span(1, 4, &[6, 7, 11, 11], LogitsFor::All)]).expect("runs").remove(0);
        assert_eq!(bits(&window[..2 * VOCAB]), bits(&cold[4 * VOCAB..6 * VOCAB]));
        m.truncate(1, 6).expect("rewinds");
        for i in 6..tokens.len() {
            let row = m.forward(&[span(1, i, &tokens[i..=i], LogitsFor::Last)]).expect("runs").remove(0);
            assert_eq!(bits(&row), bits(&cold[i * VOCAB..(i + 1) * VOCAB]));
        }
    }

    fn cut_in_two<B: Backend>(backend: B) {
        let mut m = parts_on(&tiny().build(), None, backend).expect("loads").1;
        let bits = |all: Vec<Vec<f32>>| -> Vec<u32> { all.into_iter().flatten().map(f32::to_bits).collect() };
        let tokens = [3, 4, 5, 6, 7, 8, 9];
        // Prompts, then a window of one beside a chunk of the other: every kind of row crosses the cut.
        let passes = [
            vec![span(0, 0, &tokens, LogitsFor::All), span(2, 0, &tokens[..4], LogitsFor::None)],
            vec![span(0, 7, &[5, 6, 2], LogitsFor::All), span(2, 4, &tokens[4..], LogitsFor::Last)],
        ];
        let whole: Vec<_> = passes.iter().map(|p| bits(m.forward(p).expect("runs"))).collect();
        for cut in 0..=2 {
            m.truncate(0, 0).and_then(|()| m.truncate(2, 0)).expect("rewinds");
            let stages = [0..cut, cut..2];
            for (pass, whole) in passes.iter().zip(&whole) {
                assert_eq!(&bits(m.forward_stages(&stages, pass).expect("runs")), whole, "cut at {cut}");
            }
        }
    }

    /// Layers that run as two ranges give the same bits as in one go: what a model split over hosts rests on.
    #[test]
    fn layers_in_two_ranges_are_layers_in_one() {
        cut_in_two(CpuBackend::new(2));
        cut_in_two(CandleBackend::new(Device::Cpu));
    }

    fn forked<B: Backend>(backend: B) {
        // Where a row depends on its neighbours, what was read beside others is the same but for roundings.
        let exact = backend.rows_are_independent();
        let mut m = load_on(&tiny().build(), backend).expect("loads").1;
        let bits = |l: &[f32]| l.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let tokens: Vec<u32> = (0..21).map(|i| 2 + i % 10).collect();
        m.forward(&[span(0, 0, &tokens, LogitsFor::None), span(2, 0, &[9; 30], LogitsFor::None)]).expect("runs");
        // In the middle of a tile of keys, and at its edge; over what was there.
        for n in [5, 16, 20] {
            m.fork(0, 2, n).expect("copies");
            assert_eq!((m.slot_len(0), m.slot_len(2)), (21, n));
            let own = m.forward(&[span(2, n, &tokens[n..], LogitsFor::Last)]).expect("runs").remove(0);
            let all = m.forward(&[span(1, 0, &tokens[..n], LogitsFor::None)]);
            assert!(all.is_ok());
            let cold = m.forward(&[span(1, n, &tokens[n..], LogitsFor::Last)]).expect("runs").remove(0);
            assert!(if exact { bits(&own) == bits(&cold) } else { close(&own, &cold) }, "{n}");
        }
        for (from, to, len) in [(0, 0, 3), (0, 1, 22), (3, 1, 1), (0, 3, 1)] {
            assert!(matches!(m.fork(from, to, len), Err(ModelError::BadInput(_))), "{from} {to} {len}");
        }
        assert_eq!((m.slot_len(0), m.slot_len(1)), (21, 21));
    }

    #[test]
    fn a_copied_start_is_as_good_as_one_that_was_read() {
        forked(CpuBackend::new(2));
        forked(CandleBackend::new(Device::Cpu));
    }

    /// A head drafts behind rows of the last pass that logits were asked of, and changes no logits.
    #[test]
    fn a_head_drafts_behind_the_rows_of_the_last_pass() {
        let written = Written::new(&testing::head("ab", WIDTH, 8, &[2, 5, 7, 11]));
        let file = HeadFile::open(&DraftHead::File(written.0.clone()), "ab").expect("opens");
        let (_, mut m) = load_with(&tiny().build(), Some(&file), CpuBackend::new(2)).expect("loads");
        let (_, mut plain) = load_on(&tiny().build(), CpuBackend::new(2)).expect("loads");
        assert!(m.drafts() && !plain.drafts() && m.weights_bytes() > plain.weights_bytes());
        let after = |slot, at, token| DraftAfter { slot, at, token };
        assert_eq!(m.draft(&[after(0, 1, 2)], 2).expect("runs"), [Vec::<u32>::new()], "no pass yet");
        let spans = [
            span(1, 0, &[2, 3, 4], LogitsFor::All),
            span(0, 0, &[5, 6], LogitsFor::Last),
            span(2, 0, &[7, 8], LogitsFor::None),
        ];
        assert_eq!(m.forward(&spans).expect("runs"), plain.forward(&spans).expect("runs"));
        let asked = [after(0, 2, 9), after(1, 2, 9), after(1, 3, 9), after(0, 1, 9), after(2, 2, 9), after(1, 4, 9)];
        let drafts = m.draft(&asked, 3).expect("runs");
        let lengths: Vec<usize> = drafts.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3, 3, 3, 0, 0, 0], "of the second slot's first row and the third slot nothing is known");
        assert!(drafts.iter().flatten().all(|t| [2, 5, 7, 11].contains(t)), "{drafts:?}");
        // Alone as together, and the first drafts do not depend on how many follow.
        for (a, draft) in asked.iter().zip(&drafts) {
            assert_eq!(m.draft(&[*a], 2).expect("runs")[0], draft[..draft.len().min(2)]);
        }
        m.forward(&[span(0, 2, &[9], LogitsFor::None)]).expect("runs");
        assert_eq!(m.draft(&asked[..1], 1).expect("runs"), [Vec::<u32>::new()], "that pass is over");
        // Where windows are not verified no head is held.
        let (_, twin) = load_with(&tiny().build(), Some(&file), CandleBackend::new(Device::Cpu)).expect("loads");
        assert!(!twin.drafts());
    }

    #[test]
    fn bad_spans_are_refused_and_change_nothing() {
        let mut m = model();
        m.forward(&[span(0, 0, &[2, 3], LogitsFor::None)]).expect("runs");
        for bad in [
            vec![span(3, 0, &[2], LogitsFor::Last)],
            vec![span(0, 0, &[], LogitsFor::Last)],
            vec![span(0, 3, &[2], LogitsFor::Last)],
            vec![span(0, 0, &[VOCAB as u32], LogitsFor::Last)],
            vec![span(0, 0, &[2; 33], LogitsFor::Last)],
            vec![span(1, 0, &[2], LogitsFor::Last), span(1, 0, &[2], LogitsFor::Last)],
        ] {
            assert!(matches!(m.forward(&bad), Err(ModelError::BadInput(_))));
        }
        assert_eq!(m.slot_len(0), 2);
    }

    #[test]
    fn a_missing_or_misshapen_tensor_is_named() {
        let data = tiny().build();
        let refuse = |from: &str, to: &str| {
            let mut data = data.clone();
            let at = data.windows(from.len()).position(|w| w == from.as_bytes()).expect("the name is there");
            data[at..at + to.len()].copy_from_slice(to.as_bytes());
            load_bytes(&data).err().expect("refused").to_string()
        };
        assert!(refuse("blk.1.ffn_up.weight", "blk.7.ffn_up.weight").contains("`blk.1.ffn_up.weight` is missing"));
        let odd = tiny().u32("llama.attention.key_length", 8).build();
        let text = load_bytes(&odd).err().expect("refused").to_string();
        assert!(text.contains("`blk.0.attn_q.weight` has shape [16, 16]"), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// However a sequence is cut into passes and whoever shares them, its logits are those of one pass alone.
        #[test]
        fn chunks_and_neighbours_change_nothing(
            tokens in prop::collection::vec(2u32..12, 2..14),
            other in prop::collection::vec(2u32..12, 14),
            cuts in prop::collection::vec(1usize..5, 14),
        ) {
            let mut m = model();
            let whole = m.forward(&[span(0, 0, &tokens, LogitsFor::All)]).expect("runs").remove(0);
            let mut at = 0;
            for n in cuts {
                let n = n.min(tokens.len() - at);
                if n == 0 {
                    break;
                }
                let spans = [
                    span(2, at, &other[at..at + 1], LogitsFor::Last),
                    span(1, at, &tokens[at..at + n], LogitsFor::All),
                ];
                m.truncate(2, at.min(m.slot_len(2))).expect("rewinds");
                if m.slot_len(2) < at {
                    let from = m.slot_len(2);
                    m.forward(&[span(2, from, &other[from..at], LogitsFor::None)]).expect("runs");
                }
                let got = m.forward(&spans).expect("runs");
                prop_assert_eq!(got[0].len(), VOCAB);
                prop_assert!(close(&got[1], &whole[at * VOCAB..(at + n) * VOCAB]));
                at += n;
            }
        }
    }
}
