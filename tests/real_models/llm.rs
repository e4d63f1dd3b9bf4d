//! SmolLM2 against llama.cpp on the same file (`tests/reference/llm.json`, made by `scripts/peers.d/llm.mjs`).

use crate::model as shipped;
use lanekeeper::engine::models::sampler::{argmax, log_sum_exp};
use lanekeeper::engine::models::{
    CausalLm, ChatMessage, LmFront, LmSpan, LoadedModel, LogitsFor, ModelBack, ModelFront, load,
};
use lanekeeper::profile::FileRole;
use serde::Deserialize;

/// A top-2 margin (natural log) up to which two engines may differ: both quantise activations, each in its own way.
const NEAR_TIE: f64 = 0.35;

#[derive(Deserialize)]
struct Reference {
    text: String,
    tokens: Vec<u32>,
    logprobs: Vec<f64>,
    generated: Vec<Generated>,
}

#[derive(Deserialize)]
struct Generated {
    prompt: String,
    tokens: Vec<u32>,
    ids: Vec<u32>,
    margins: Vec<f64>,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/llm.json")).expect("the committed reference is valid")
}

fn model(slots: usize) -> (LmFront, Box<dyn CausalLm>) {
    let (mut profile, files) = shipped("smollm2-135m");
    let generation = profile.generation.as_mut().expect("it generates");
    generation.slots = slots;
    generation.context_tokens = 1024;
    match load(&profile, &files).expect("the model loads") {
        LoadedModel { front: ModelFront::Lm(front), back: ModelBack::Lm(back) } => (front, back),
        _ => panic!("a language model was asked for"),
    }
}

fn last_logits(model: &mut dyn CausalLm, slot: usize, start: usize, tokens: &[u32]) -> Vec<f32> {
    let span = LmSpan { slot, start, tokens, logits: LogitsFor::Last };
    model.forward(&[span]).expect("runs").remove(0)
}

#[test]
fn tokens_are_llama_cpps() {
    let r = reference();
    let (front, _) = model(1);
    assert_eq!(front.encode_prompt(&r.text).expect("encodes"), r.tokens);
    for g in &r.generated {
        assert_eq!(front.encode_prompt(&g.prompt).expect("encodes"), g.tokens, "{:?}", g.prompt);
    }
}

#[test]
fn perplexity_is_llama_cpps_within_two_percent() {
    let r = reference();
    let (front, mut model) = model(1);
    let span = LmSpan { slot: 0, start: 0, tokens: &r.tokens, logits: LogitsFor::All };
    let logits = model.forward(&[span]).expect("runs").remove(0);
    let own: Vec<f64> = logits
        .chunks(front.config.vocab)
        .zip(&r.tokens[1..])
        .map(|(row, &id)| f64::from(row[id as usize]) - log_sum_exp(row))
        .collect();
    assert_eq!(own.len(), r.logprobs.len());
    let perplexity = |l: &[f64]| (-l.iter().sum::<f64>() / l.len() as f64).exp();
    let (ours, theirs) = (perplexity(&own), perplexity(&r.logprobs));
    let worst = own.iter().zip(&r.logprobs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    println!("perplexity {ours:.4}, llama.cpp {theirs:.4}, largest difference of a log-probability {worst:.3}");
    assert!((ours / theirs - 1.0).abs() < 0.02, "perplexity {ours} against {theirs}");
}

#[test]
fn greedy_text_is_llama_cpps_up_to_near_ties() {
    let r = reference();
    let (front, mut model) = model(1);
    let mut wide = Vec::new();
    for g in &r.generated {
        model.truncate(0, 0).expect("rewinds");
        let mut logits = last_logits(&mut *model, 0, 0, &g.tokens);
        let mut difference = None;
        for (i, &theirs) in g.ids.iter().enumerate() {
            let ours = argmax(&logits).expect("numbers");
            if ours != theirs {
                let margin = f64::from(logits[ours as usize] - logits[theirs as usize]);
                difference = Some((i, ours, theirs, margin, g.margins[i]));
                break;
            }
            logits = last_logits(&mut *model, 0, g.tokens.len() + i, &[ours]);
        }
        let Some((i, ours, theirs, own_margin, their_margin)) = difference else {
            println!("{:?}: 64 of 64 tokens equal", g.prompt);
            continue;
        };
        let (ours, theirs) = (front.vocabulary.shown(ours), front.vocabulary.shown(theirs));
        let line = format!(
            "{:?}: token {i} is {ours:?} by {own_margin:.3} here, {theirs:?} by {their_margin:.3} in llama.cpp",
            g.prompt
        );
        println!("{line}");
        if own_margin.max(their_margin) > NEAR_TIE {
            wide.push(line);
        }
    }
    assert!(wide.is_empty(), "differences at a wide margin:\n{}", wide.join("\n"));
}

#[test]
fn batches_and_windows_give_the_rows_of_single_steps() {
    let r = reference();
    let (front, mut model) = model(4);
    let vocab = front.config.vocab;
    let tokens = &r.tokens[..48];
    let single: Vec<Vec<f32>> = (0..tokens.len()).map(|i| last_logits(&mut *model, 0, i, &tokens[i..=i])).collect();
    for width in [2, 3, 8, 48] {
        model.truncate(1, 0).expect("rewinds");
        for (n, chunk) in tokens.chunks(width).enumerate() {
            // A neighbour rides along, at another position.
            let at = model.slot_len(2);
            let spans = [
                LmSpan { slot: 1, start: n * width, tokens: chunk, logits: LogitsFor::All },
                LmSpan { slot: 2, start: at, tokens: &tokens[at % 48..=at % 48], logits: LogitsFor::Last },
            ];
            let rows = model.forward(&spans).expect("runs").remove(0);
            for (j, row) in rows.chunks(vocab).enumerate() {
                let want = &single[n * width + j];
                assert_eq!(argmax(row), argmax(want), "width {width}, position {}", n * width + j);
                let worst = row.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-3, "width {width}, position {}: off by {worst}", n * width + j);
            }
        }
    }
}

#[test]
fn the_chat_template_of_the_file_is_used_and_typed_control_tokens_stay_text() {
    let (front, _) = model(1);
    let message = |content: &str| [ChatMessage { role: "user".into(), content: content.into() }];
    let text =
        |ids: &[u32]| ids.iter().map(|&id| String::from_utf8_lossy(front.vocabulary.shown(id))).collect::<String>();
    let plain = front.encode_chat(&message("Hi")).expect("renders");
    assert_eq!(
        text(&plain),
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
         <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
    let typed = front.encode_chat(&message("Hi<|im_end|>")).expect("renders");
    let ends = |ids: &[u32]| ids.iter().filter(|id| front.end_ids.contains(id)).count();
    assert_eq!(ends(&typed), ends(&plain));
    assert!(text(&typed).contains("Hi<|im_end|><|im_end|>"));
    assert_eq!(front.end_ids, [0, 2]);
}

/// Copies of the real file, cut or damaged, are refused within two seconds, naming what is wrong.
#[test]
fn damaged_copies_are_refused_by_name() {
    let whole = std::fs::read(&shipped("smollm2-135m").1[&FileRole::Weights]).expect("readable");
    let folder = std::env::temp_dir().join(format!("lanekeeper-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable temp folder");
    let refuse = |name: &str, data: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, data).expect("writable");
        let began = std::time::Instant::now();
        let text = lanekeeper::engine::models::gguf::open(&path).expect_err("refused").to_string();
        assert!(began.elapsed().as_secs_f64() < 2.0, "{name} took {:?}", began.elapsed());
        std::fs::remove_file(&path).expect("removable");
        text
    };
    for (name, len) in [("tenth", whole.len() / 10), ("half", whole.len() / 2), ("short", whole.len() - 1)] {
        let text = refuse(name, &whole[..len]);
        assert!(text.contains("tensor `") && text.contains("needs") && text.contains("are present"), "{text}");
    }
    let text = refuse("header", &whole[..100_000]);
    assert!(text.contains("metadata key `tokenizer.ggml.tokens`"), "{text}");
    assert!(refuse("empty", b"").contains("0 bytes"));
    let mut counted = whole[..1 << 20].to_vec();
    counted[16..24].copy_from_slice(&(1u64 << 60).to_le_bytes());
    assert!(refuse("count", &counted).contains("1152921504606846976"));
    std::fs::remove_dir(&folder).expect("empty by now");
}
