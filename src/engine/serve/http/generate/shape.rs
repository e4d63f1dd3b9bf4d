//! The JSON of answers: the envelope, choices whole and in pieces, log-probabilities, usage and timings.

use crate::control::speculation::SpeculationReport;
use crate::engine::runtime::GenerationTimes;
use crate::engine::runtime::{FinishReason, RequestId, TokenLogprob};
use crate::engine::serve::timing::round_ms;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Which route's words an answer is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    Text,
}

/// What all frames of an answer have in common.
pub(super) struct Head {
    pub(super) kind: Kind,
    id: String,
    created: u64,
    model: String,
}

impl Head {
    pub(super) fn new(kind: Kind, id: RequestId, model: &str) -> Head {
        let prefix = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let created = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_secs());
        Head { kind, id: format!("{prefix}-{id}"), created, model: model.to_string() }
    }

    /// An answer, or with `chunk` a piece of one.
    pub(super) fn around(&self, chunk: bool, choices: Vec<Value>) -> Map<String, Value> {
        let object = match (self.kind, chunk) {
            (Kind::Chat, true) => "chat.completion.chunk",
            (Kind::Chat, false) => "chat.completion",
            (Kind::Text, _) => "text_completion",
        };
        let mut map = Map::new();
        map.insert("id".into(), json!(self.id));
        map.insert("object".into(), json!(object));
        map.insert("created".into(), json!(self.created));
        map.insert("model".into(), json!(self.model));
        map.insert("system_fingerprint".into(), json!(concat!("lanekeeper-", env!("CARGO_PKG_VERSION"))));
        map.insert("choices".into(), Value::Array(choices));
        map
    }

    /// The opening piece of a streamed choice: chats say who speaks.
    pub(super) fn opening(&self, index: usize) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": ""});
        (self.kind == Kind::Chat)
            .then(|| json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null}))
    }

    /// A piece of text of a streamed choice.
    pub(super) fn piece(&self, index: usize, text: &str, logprobs: Option<Value>) -> Value {
        match self.kind {
            Kind::Chat => {
                json!({"index": index, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": null})
            }
            Kind::Text => json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": null}),
        }
    }

    /// The closing piece of a streamed choice.
    pub(super) fn closing(&self, index: usize, finish: FinishReason) -> Value {
        let finish = reason(finish);
        match self.kind {
            Kind::Chat => json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": finish}),
            Kind::Text => json!({"index": index, "text": "", "logprobs": null, "finish_reason": finish}),
        }
    }

    /// A whole choice.
    pub(super) fn choice(&self, index: usize, text: &str, logprobs: Option<Value>, finish: FinishReason) -> Value {
        let finish = reason(finish);
        match self.kind {
            Kind::Chat => {
                let message = json!({"role": "assistant", "content": text, "refusal": null});
                json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish})
            }
            Kind::Text => json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}),
        }
    }

    /// Log-probabilities in this route's form.
    pub(super) fn logprobs(&self, tokens: &[TokenLogprob]) -> Option<Value> {
        if tokens.is_empty() {
            return None;
        }
        Some(match self.kind {
            Kind::Chat => json!({"content": tokens.iter().map(chat_logprob).collect::<Vec<_>>(), "refusal": null}),
            Kind::Text => text_logprobs(tokens),
        })
    }
}

fn reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

fn chat_logprob(token: &TokenLogprob) -> Value {
    let top = |(_, bytes, logprob): &(u32, Vec<u8>, f32)| entry(bytes, *logprob);
    let mut value = entry(&token.bytes, token.logprob);
    value["top_logprobs"] = token.top.iter().map(top).collect();
    value
}

fn entry(bytes: &[u8], logprob: f32) -> Value {
    json!({"token": written(bytes), "logprob": finite(logprob), "bytes": bytes})
}

fn text_logprobs(tokens: &[TokenLogprob]) -> Value {
    json!({
        "tokens": tokens.iter().map(|token| written(&token.bytes)).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|token| finite(token.logprob)).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(top_logprobs).collect::<Vec<_>>(),
        "text_offset": tokens.iter().map(|token| token.offset).collect::<Vec<_>>(),
    })
}

/// The likeliest tokens by their text, the chosen one always among them. Of two that are written alike the chosen one
/// counts, else the likelier.
fn top_logprobs(token: &TokenLogprob) -> Value {
    let mut map = Map::new();
    map.insert(written(&token.bytes).into_owned(), json!(finite(token.logprob)));
    for (_, bytes, logprob) in &token.top {
        map.entry(written(bytes)).or_insert_with(|| json!(finite(*logprob)));
    }
    map.into()
}

/// A token as text: its own, or for one whose bytes are no whole characters these, as in `bytes:\xf0\x9f`.
fn written(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(
        |_| {
            let hex = |text: String, byte: &u8| text + &format!("\\x{byte:02x}");
            bytes.iter().fold(String::from("bytes:"), hex).into()
        },
        Cow::from,
    )
}

/// JSON has no infinity: an impossible token gets the value that the OpenAI API gives one.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}

/// Tokens and times of a request, over all its choices.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Totals {
    pub(super) prompt_tokens: usize,
    /// Of these, what the KV cache held already.
    pub(super) cached_tokens: usize,
    pub(super) completion_tokens: usize,
    pub(super) times: GenerationTimes,
    /// Over all choices; the gate is that of the last.
    pub(super) speculation: Option<SpeculationReport>,
}

impl Totals {
    pub(super) fn new(prompt_tokens: usize) -> Totals {
        Totals { prompt_tokens, ..Totals::default() }
    }

    /// A choice has ended; `cached_tokens` is given for one choice of each prompt. Choices run side by side: the longest
    /// of each time is the request's.
    pub(super) fn add(
        &mut self,
        cached_tokens: Option<usize>,
        completion_tokens: usize,
        times: GenerationTimes,
        speculation: Option<SpeculationReport>,
    ) {
        self.cached_tokens += cached_tokens.unwrap_or(0);
        self.completion_tokens += completion_tokens;
        self.times.queue_ms = self.times.queue_ms.max(times.queue_ms);
        self.times.prompt_ms = self.times.prompt_ms.max(times.prompt_ms);
        self.times.predicted_ms = self.times.predicted_ms.max(times.predicted_ms);
        self.speculation = match (self.speculation, speculation) {
            (Some(before), Some(mut report)) => {
                report.tally.add(&before.tally);
                Some(report)
            }
            (before, report) => report.or(before),
        };
    }

    pub(super) fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        })
    }

    pub(super) fn timings(&self) -> Value {
        let computed = self.prompt_tokens.saturating_sub(self.cached_tokens);
        let rate = |tokens: usize, ms: f64| (ms > 0.0).then(|| round_ms(tokens as f64 * 1000.0 / ms));
        let mut timings = json!({
            "queue_ms": round_ms(self.times.queue_ms),
            "cache_n": self.cached_tokens,
            "prompt_n": computed,
            "prompt_ms": round_ms(self.times.prompt_ms),
            "prompt_per_second": rate(computed, self.times.prompt_ms),
            "predicted_n": self.completion_tokens,
            "predicted_ms": round_ms(self.times.predicted_ms),
            "predicted_per_second": rate(self.completion_tokens, self.times.predicted_ms),
        });
        if let (Some(report), Some(timings)) = (&self.speculation, timings.as_object_mut()) {
            timings.extend(speculated(report));
        }
        timings
    }
}

/// What speculation did, as fields of `timings`.
fn speculated(report: &SpeculationReport) -> Map<String, Value> {
    let SpeculationReport { tally, policy, gate } = report;
    let fields = json!({
        "draft_n": tally.draft_n,
        "draft_n_accepted": tally.draft_n_accepted,
        "windows": tally.windows,
        "width_mean": tally.width_mean().map(round_ms),
        "width_max": tally.width_max,
        "in_flight_max": tally.in_flight_max,
        "stale_discarded": tally.stale_discarded,
        "gate": {"policy": policy, "state": gate.state(), "because": gate.because.name()},
        "survival": tally.survival,
    });
    match fields {
        Value::Object(fields) => fields,
        // It was made an object four lines above.
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(bytes: impl AsRef<[u8]>, logprob: f32, offset: usize) -> TokenLogprob {
        let bytes = bytes.as_ref().to_vec();
        TokenLogprob { id: 1, bytes: bytes.clone(), logprob, offset, top: vec![(1, bytes, logprob)] }
    }

    #[test]
    fn text_logprobs_have_offsets_in_characters() {
        let head = Head::new(Kind::Text, RequestId(3), "m");
        let value = head.logprobs(&[token("é", -0.5, 4), token("b", f32::NEG_INFINITY, 5)]).unwrap();
        assert_eq!(
            value,
            json!({"tokens": ["é", "b"], "token_logprobs": [-0.5, -9999.0],
                   "top_logprobs": [{"é": -0.5}, {"b": -9999.0}], "text_offset": [4, 5]})
        );
    }

    #[test]
    fn parts_of_characters_are_told_apart_and_keep_their_bytes() {
        let mut part = token(b"\xf0\x9f", -1.5, 2);
        part.top = vec![(7, b"\xc3".to_vec(), -0.5), (8, b" \xe2".to_vec(), -1.0)];
        let value = Head::new(Kind::Text, RequestId(3), "m").logprobs(std::slice::from_ref(&part)).unwrap();
        let top = json!({r"bytes:\xf0\x9f": -1.5, r"bytes:\xc3": -0.5, r"bytes:\x20\xe2": -1.0});
        assert_eq!((&value["tokens"][0], &value["top_logprobs"][0]), (&json!(r"bytes:\xf0\x9f"), &top));
        let value = Head::new(Kind::Chat, RequestId(3), "m").logprobs(&[part]).unwrap();
        let entry = &value["content"][0];
        assert_eq!((&entry["token"], &entry["bytes"]), (&json!(r"bytes:\xf0\x9f"), &json!([0xf0, 0x9f])));
        assert_eq!(entry["top_logprobs"][0], json!({"token": r"bytes:\xc3", "logprob": -0.5, "bytes": [0xc3]}));
    }

    #[test]
    fn the_chosen_token_is_among_the_likeliest() {
        let mut chosen = token("c", -4.5, 0);
        let top = |chosen: &TokenLogprob| {
            Head::new(Kind::Text, RequestId(3), "m").logprobs(std::slice::from_ref(chosen)).unwrap()["top_logprobs"][0]
                .clone()
        };
        chosen.top = vec![(7, b"a".to_vec(), -0.5), (8, b"a".to_vec(), -1.5)];
        assert_eq!(top(&chosen), json!({"a": -0.5, "c": -4.5}));
        chosen.top = vec![(7, b"c".to_vec(), -0.5)];
        assert_eq!(top(&chosen), json!({"c": -4.5}), "another token that is written alike");
        chosen.top = vec![];
        assert_eq!(top(&chosen), json!({"c": -4.5}));
    }

    #[test]
    fn chat_logprobs_have_bytes() {
        let head = Head::new(Kind::Chat, RequestId(3), "m");
        let value = head.logprobs(&[token("é", -0.5, 0)]).unwrap();
        assert_eq!(value["content"][0]["bytes"], json!([195, 169]));
        assert_eq!(value["content"][0]["top_logprobs"][0]["logprob"], -0.5);
        assert_eq!(head.logprobs(&[]), None);
    }

    #[test]
    fn totals_add_tokens_and_keep_the_longest_times() {
        let mut totals = Totals::new(10);
        totals.add(Some(2), 4, GenerationTimes { queue_ms: 1.0, prompt_ms: 50.0, predicted_ms: 100.0 }, None);
        totals.add(None, 6, GenerationTimes { queue_ms: 3.0, prompt_ms: 10.0, predicted_ms: 200.0 }, None);
        assert_eq!(
            totals.usage(),
            json!({"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20,
                   "prompt_tokens_details": {"cached_tokens": 2}})
        );
        let timings = totals.timings();
        assert_eq!((&timings["queue_ms"], &timings["prompt_per_second"]), (&json!(3.0), &json!(160.0)));
        assert_eq!((&timings["prompt_n"], &timings["cache_n"]), (&json!(8), &json!(2)));
        assert_eq!(timings["predicted_per_second"], 50.0);
        assert_eq!(Totals::new(1).timings()["predicted_per_second"], Value::Null, "unknown is not zero");
    }
}
