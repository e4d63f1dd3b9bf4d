//! Fields that would change the answer and are not supported: those of OpenAI's API, and those that clients of other
//! servers know. A value that asks for what is done anyway passes.
//!
//! Not here: what has no effect without another field that is (`mirostat_tau`, `dry_base`), and what changes no answer
//! (`cache_prompt`, `priority`, `keep_alive`).

use crate::control::Fault;
use crate::engine::serve::fields::{Fields, Unsupported};
use crate::engine::serve::http::neutral::{empty, empty_text, never, no, off, one, yes, zero};
use serde_json::{Value, json};

/// OpenAI's, on both routes.
const OPENAI: &[Unsupported] = &[
    ("best_of", one),
    ("echo", no),
    ("suffix", empty_text),
    ("tools", empty),
    ("tool_choice", none_or_auto),
    ("functions", empty),
    ("function_call", none_or_auto),
    ("response_format", |value| *value == json!({"type": "text"})),
    ("modalities", |value| *value == json!(["text"])),
    ("audio", never),
    ("web_search_options", never),
    ("reasoning_effort", |value| value == "none"),
    ("verbosity", |value| value == "medium"),
];

/// Of llama.cpp's server.
const LLAMA_CPP: &[Unsupported] = &[
    ("n_predict", never),
    ("n_indent", off),
    ("n_probs", off),
    ("n_cmpl", one),
    ("min_keep", at_most_one),
    ("t_max_predict_ms", not_above_zero),
    ("typical_p", one),
    ("tfs_z", one),
    ("top_n_sigma", not_above_zero),
    ("repeat_penalty", one),
    ("dry_multiplier", off),
    ("xtc_probability", off),
    ("dynatemp_range", off),
    ("mirostat", off),
    ("adaptive_target", |value| value.as_f64().is_some_and(|target| target < 0.0)),
    ("samplers", never),
    ("grammar", empty_text),
    ("json_schema", never),
    ("lora", empty),
    ("image_data", empty),
    ("return_tokens", no),
    ("post_sampling_probs", no),
];

/// Of vLLM and SGLang.
const VLLM: &[Unsupported] = &[
    ("bad_words", empty),
    ("allowed_token_ids", empty),
    ("use_beam_search", no),
    ("length_penalty", one),
    ("early_stopping", no),
    ("include_stop_str_in_output", no),
    ("no_stop_trim", no),
    ("stop_regex", off),
    ("skip_special_tokens", yes),
    ("prompt_logprobs", zero),
    ("prompt_embeds", never),
    ("truncate_prompt_tokens", never),
    ("guided_json", never),
    ("guided_regex", never),
    ("guided_choice", never),
    ("guided_grammar", never),
    ("structured_outputs", never),
    ("structural_tag", never),
    ("regex", empty_text),
    ("ebnf", empty_text),
    ("logits_processors", empty),
    ("documents", empty),
    ("lora_path", never),
    ("return_token_ids", no),
    ("return_tokens_as_token_ids", no),
    ("vllm_xargs", empty),
];

/// Of ollama.
const OLLAMA: &[Unsupported] = &[
    ("num_predict", never),
    ("num_ctx", never),
    ("options", empty),
    ("system", empty_text),
    ("template", empty_text),
    ("format", empty_text),
    ("context", empty),
    ("images", empty),
    ("think", off),
];

/// Of text-generation-inference and transformers.
const HUGGING_FACE: &[Unsupported] = &[
    ("inputs", empty_text),
    ("parameters", empty),
    ("max_new_tokens", never),
    ("max_length", never),
    ("min_new_tokens", off),
    ("do_sample", yes),
    ("num_beams", one),
    ("num_return_sequences", one),
    ("no_repeat_ngram_size", off),
    ("penalty_alpha", off),
    ("guidance_scale", one),
    ("negative_prompt", empty_text),
    ("stop_sequences", empty),
    ("truncate", off),
    ("watermark", no),
    ("return_full_text", no),
    ("details", no),
    ("decoder_input_details", no),
    ("top_n_tokens", off),
    ("adapter_id", never),
    ("tool_prompt", empty_text),
];

/// What to ask for in place of some of them.
const INSTEAD: &[(&str, &str)] = &[
    ("n_predict", "`max_tokens` is the longest answer"),
    ("num_predict", "`max_tokens` is the longest answer"),
    ("max_new_tokens", "`max_tokens` is the longest answer"),
    ("max_length", "`max_tokens` is the longest answer"),
    ("min_new_tokens", "`min_tokens` is the shortest answer"),
    ("repeat_penalty", "`repetition_penalty` is one"),
    ("stop_sequences", "`stop` takes them"),
    ("n_cmpl", "`n` is the number of answers"),
    ("num_return_sequences", "`n` is the number of answers"),
    ("n_probs", "`logprobs` gives the likeliest tokens"),
    ("top_n_tokens", "`logprobs` gives the likeliest tokens"),
    ("do_sample", "`temperature` 0 is greedy"),
    ("system", "send it as a message of the role `system`, or in the prompt"),
    ("options", "send its fields beside `model`, by the names that docs/api.md has"),
    ("parameters", "send its fields beside `model`, by the names that docs/api.md has"),
    ("num_ctx", "the context is a setting of the engine: `generation.context_tokens`"),
];

fn none_or_auto(value: &Value) -> bool {
    value == "none" || value == "auto"
}

fn not_above_zero(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number <= 0.0)
}

/// At least one token is always kept.
fn at_most_one(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number <= 1.0)
}

/// Refuses the first field that would change the answer, of these and of the `route`'s own.
pub(super) fn refuse(fields: &Fields<'_>, route: &[Unsupported]) -> Result<(), Fault> {
    let hinted = |fault: Fault| match INSTEAD.iter().find(|(field, _)| fault.param.as_deref() == Some(*field)) {
        Some((_, hint)) => fault.hint(*hint),
        None => fault,
    };
    let mut all = [OPENAI, LLAMA_CPP, VLLM, OLLAMA, HUGGING_FACE, route].into_iter();
    all.try_for_each(|theirs| fields.unsupported(theirs).map_err(hinted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn read(body: Value) -> Result<(), Fault> {
        refuse(&Fields::root(body.as_object().unwrap()), &[])
    }

    #[test]
    fn what_asks_for_another_answer_is_refused_by_name() {
        for (field, value) in [
            ("n_predict", json!(4)),
            ("num_predict", json!(4)),
            ("max_new_tokens", json!(4)),
            ("num_ctx", json!(4096)),
            ("options", json!({"temperature": 0})),
            ("system", json!("be brief")),
            ("include_stop_str_in_output", json!(true)),
            ("skip_special_tokens", json!(false)),
            ("dry_multiplier", json!(0.8)),
            ("xtc_probability", json!(0.5)),
            ("top_n_sigma", json!(1)),
            ("adaptive_target", json!(0)),
            ("tools", json!([{"type": "function"}])),
            ("functions", json!([{"name": "f"}])),
            ("response_format", json!({"type": "json_object"})),
            ("do_sample", json!(false)),
            ("stop_sequences", json!(["\n"])),
            ("format", json!("json")),
            ("verbosity", json!("low")),
            // Neither does a value of another type pass.
            ("options", json!("x")),
            ("mirostat", json!("2")),
        ] {
            let fault = read(json!({field: value})).unwrap_err();
            assert_eq!((fault.param.as_deref(), fault.code), (Some(field), Some("unsupported_field")), "{value}");
        }
        assert!(read(json!({"n_predict": 4})).unwrap_err().hint.unwrap().contains("`max_tokens`"));
    }

    #[test]
    fn what_asks_for_what_is_done_anyway_passes() {
        let body = json!({
            "response_format": {"type": "text"}, "tools": [], "functions": [], "tool_choice": "none", "echo": false,
            "options": {}, "system": "", "format": "", "context": [], "think": false, "num_ctx": null,
            "include_stop_str_in_output": false, "skip_special_tokens": true, "stop_sequences": [],
            "dry_multiplier": 0, "dry_base": 1.75, "xtc_probability": 0.0, "xtc_threshold": 0.1, "mirostat": 0,
            "mirostat_tau": 5, "typical_p": 1, "top_n_sigma": -1, "adaptive_target": -1.0, "n_probs": 0, "min_keep": 1,
            "t_max_predict_ms": 0, "do_sample": true, "watermark": false, "cache_prompt": true, "priority": 1
        });
        read(body).unwrap();
    }

    #[test]
    fn every_field_stands_once_and_hints_are_of_fields_that_are_there() {
        let all: Vec<&str> =
            [OPENAI, LLAMA_CPP, VLLM, OLLAMA, HUGGING_FACE].into_iter().flatten().map(|(name, _)| *name).collect();
        let names: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(names.len(), all.len());
        assert!(INSTEAD.iter().all(|(name, _)| names.contains(name)));
    }
}
