//! The settings of a generation, as OpenAI's clients send them. What would change the answer and is not supported is
//! refused by name, never ignored.

use super::unsupported;
use crate::control::Fault;
use crate::engine::runtime::Sampling;
use crate::engine::serve::failure::clip;
use crate::engine::serve::fields::{Fields, Unsupported, kind};
use crate::engine::serve::http::options::Extensions;
use crate::engine::serve::http::texts;
use serde_json::Value;
use std::hash::{BuildHasher, Hasher};

/// Most answers to one prompt.
const MAX_N: i64 = 16;
/// Most stop texts.
const MAX_STOPS: usize = 4;
/// Longest stop text in bytes: text is held back while it may still become one.
const MAX_STOP_BYTES: usize = 1024;
/// Most stop tokens, and most biases.
const MAX_STOP_IDS: usize = 64;
const MAX_BIASES: usize = 1024;
/// Largest bias either way: as good as never, and as always.
const BIAS: std::ops::RangeInclusive<f64> = -100.0..=100.0;
/// Largest penalty either way.
const PENALTY: std::ops::RangeInclusive<f64> = -2.0..=2.0;

/// What both routes read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) sampling: Sampling,
    pub(crate) stop: Vec<String>,
    /// `None` = the model's default, or what fits.
    pub(crate) max_tokens: Option<usize>,
    /// The field that it came from.
    pub(super) length_field: &'static str,
    /// Tokens that end the answer.
    pub(crate) stop_ids: Vec<u32>,
    /// So many tokens come before anything ends the answer.
    pub(crate) min_tokens: usize,
    pub(crate) ignore_eos: bool,
    /// Answers per prompt.
    pub(crate) n: usize,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// Alternatives per token; set by the route, which spells it its own way.
    pub(crate) logprobs: Option<usize>,
    pub(crate) extensions: Extensions,
}

impl Settings {
    /// Reads what both routes share. `unsupported` are the route's own fields that it does not support.
    pub(crate) fn read(fields: &Fields<'_>, unsupported: &[Unsupported]) -> Result<Settings, Fault> {
        unsupported::refuse(fields, unsupported)?;
        let stream = fields.flag("stream")?;
        let stream_options = fields.opt_object("stream_options")?;
        if !stream && stream_options.is_some() {
            return Err(fields.refuse("stream_options", "needs `stream` to be true"));
        }
        let (max_tokens, length_field) = length(fields)?;
        let min_tokens = fields.opt_int("min_tokens", 0..=i64::from(u32::MAX))?.unwrap_or(0) as usize;
        if let Some(most) = max_tokens.filter(|most| *most < min_tokens) {
            return Err(fields.refuse("min_tokens", format_args!("is {min_tokens}, above the length limit of {most}")));
        }
        let include_usage = stream_options.map_or(Ok(false), |options| options.flag("include_usage"))?;
        let sampling = sampling(fields)?;
        let window = ["repeat_last_n", "penalty_last_n"].into_iter().find(|name| {
            // -1 is all of it.
            sampling.penalises() && fields.get(name).is_some_and(|value| value.as_i64() != Some(-1))
        });
        if let Some(window) = window {
            let why = "is not supported by this engine: penalties count the whole answer";
            return Err(fields.refuse(window, why).code("unsupported_field"));
        }
        let extensions = Extensions::read(fields)?;
        if extensions.truncate == Some(true) {
            let name = "lanekeeper.truncate";
            let message = format!("`{name}` is not supported here: a prompt is never cut");
            return Err(Fault::invalid(name, message).code("unsupported_field"));
        }
        Ok(Settings {
            sampling,
            stop: stop(fields)?,
            stop_ids: stop_ids(fields)?,
            max_tokens,
            length_field,
            min_tokens,
            ignore_eos: fields.flag("ignore_eos")?,
            n: fields.opt_int("n", 1..=MAX_N)?.unwrap_or(1) as usize,
            stream,
            include_usage,
            logprobs: None,
            extensions,
        })
    }
}

impl Settings {
    /// Checks the token ids that it names against the model's vocabulary.
    pub(super) fn check_ids(&self, vocabulary: usize) -> Result<(), Fault> {
        let refuse = |param: String, id: u32| {
            let message = format!("`{param}` names token {id}, the model has {vocabulary} tokens");
            Err(Fault::invalid(param, message))
        };
        let beyond = |id: u32| id as usize >= vocabulary;
        if let Some(at) = self.stop_ids.iter().position(|id| beyond(*id)) {
            return refuse(format!("stop_token_ids[{at}]"), self.stop_ids[at]);
        }
        match self.sampling.logit_bias.iter().find(|(id, _)| beyond(*id)) {
            Some((id, _)) => refuse(format!("logit_bias.{id}"), *id),
            None => Ok(()),
        }
    }
}

fn sampling(fields: &Fields<'_>) -> Result<Sampling, Fault> {
    let number = |name, range, default| Ok::<f32, Fault>(fields.opt_num(name, range)?.unwrap_or(default) as f32);
    let top_p = number("top_p", 0.0..=1.0, 1.0)?;
    if top_p == 0.0 {
        return Err(fields.refuse("top_p", "is 0, it must be above 0").hint("temperature 0 is greedy"));
    }
    let repetition_penalty = number("repetition_penalty", 0.0..=10.0, 1.0)?;
    if repetition_penalty == 0.0 {
        return Err(fields.refuse("repetition_penalty", "is 0, it must be above 0"));
    }
    Ok(Sampling {
        temperature: number("temperature", 0.0..=2.0, 1.0)?,
        top_p,
        // -1 is off in some clients.
        top_k: fields.opt_int("top_k", -1..=1_000_000)?.map_or(0, |k| usize::try_from(k).unwrap_or(0)),
        min_p: number("min_p", 0.0..=1.0, 0.0)?,
        presence_penalty: number("presence_penalty", PENALTY, 0.0)?,
        frequency_penalty: number("frequency_penalty", PENALTY, 0.0)?,
        repetition_penalty,
        logit_bias: logit_bias(fields)?,
        // A negative seed is as good as any: its bits are the seed.
        seed: fields.opt_int("seed", i64::MIN..=i64::MAX)?.map_or_else(any_seed, |seed| seed as u64),
    })
}

/// A seed for a request that names none: the hasher of the standard library is seeded by the system.
fn any_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// The longest answer, and the field that it came from.
fn length(fields: &Fields<'_>) -> Result<(Option<usize>, &'static str), Fault> {
    let mut found: Option<(usize, &'static str)> = None;
    for name in ["max_completion_tokens", "max_tokens"] {
        let Some(length) = fields.opt_int(name, 1..=i64::from(u32::MAX))? else { continue };
        let length = length as usize;
        match found {
            Some((other, first)) if other != length => {
                return Err(fields.refuse(name, format_args!("is {length}, but `{first}` is {other}")));
            }
            _ => found = Some((length, name)),
        }
    }
    Ok(found.map_or((None, "max_tokens"), |(length, name)| (Some(length), name)))
}

/// Biases by token id; JSON has the ids as text.
fn logit_bias(fields: &Fields<'_>) -> Result<Vec<(u32, f32)>, Fault> {
    let Some(biases) = fields.opt_object("logit_bias")? else { return Ok(Vec::new()) };
    let names = biases.names();
    if names.len() > MAX_BIASES {
        return Err(fields.refuse("logit_bias", format_args!("has {} entries, the limit is {MAX_BIASES}", names.len())));
    }
    let read = |name: &str| {
        let id = name.parse::<u32>().map_err(|_| {
            let shown = clip(name, 24);
            fields
                .refuse("logit_bias", format_args!("has the key `{shown}`, keys must be token ids"))
                .code("invalid_type")
        })?;
        Ok((id, biases.opt_num(name, BIAS)?.unwrap_or(0.0) as f32))
    };
    names.into_iter().map(read).collect()
}

fn stop_ids(fields: &Fields<'_>) -> Result<Vec<u32>, Fault> {
    let Some(items) = fields.opt_array("stop_token_ids")? else { return Ok(Vec::new()) };
    if items.len() > MAX_STOP_IDS {
        return Err(
            fields.refuse("stop_token_ids", format_args!("has {} items, the limit is {MAX_STOP_IDS}", items.len()))
        );
    }
    texts::ids(items, "stop_token_ids")
}

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, Fault> {
    let check = |name: &str, text: &str| match text.len() {
        0 => Err(Fault::invalid(name, format!("`{name}` is an empty string, which would end every answer at once"))),
        bytes if bytes > MAX_STOP_BYTES => {
            Err(Fault::invalid(name, format!("`{name}` has {bytes} bytes, the limit is {MAX_STOP_BYTES}")))
        }
        _ => Ok(text.to_string()),
    };
    let mistyped = |name: &str, value: &Value, wanted: &str| {
        Fault::invalid(name, format!("`{name}` must be {wanted}, it is {}", kind(value))).code("invalid_type")
    };
    match fields.get("stop") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![check("stop", text)?]),
        Some(Value::Array(items)) if items.len() > MAX_STOPS => {
            Err(fields.refuse("stop", format_args!("has {} items, the limit is {MAX_STOPS}", items.len())))
        }
        Some(Value::Array(items)) => {
            let read = |(i, item): (usize, &Value)| {
                let name = format!("stop[{i}]");
                check(&name, item.as_str().ok_or_else(|| mistyped(&name, item, "a string"))?)
            };
            items.iter().enumerate().map(read).collect()
        }
        Some(other) => Err(mistyped("stop", other, "a string or an array of strings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Settings, Fault> {
        Settings::read(&Fields::root(value.as_object().unwrap()), &[])
    }

    #[test]
    fn an_empty_body_is_the_api_default() {
        let mut settings = read(json!({})).unwrap();
        settings.sampling.seed = 0;
        assert_eq!(settings.sampling, Sampling::default());
        assert_eq!((settings.n, settings.max_tokens, settings.stream), (1, None, false));
        assert_eq!(read(json!({"max_tokens": null, "stop": null, "n": null})).unwrap().max_tokens, None);
    }

    #[test]
    fn a_missing_seed_varies_and_a_given_one_stays() {
        assert_ne!(read(json!({})).unwrap().sampling.seed, read(json!({})).unwrap().sampling.seed);
        assert_eq!(read(json!({"seed": 42})).unwrap().sampling.seed, 42);
        assert!(read(json!({"seed": -1})).is_ok());
    }

    #[test]
    fn bad_values_are_named() {
        for (body, param) in [
            (json!({"max_tokens": -1}), "max_tokens"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_tokens": "5"}), "max_tokens"),
            (json!({"max_tokens": 5, "max_completion_tokens": 6}), "max_tokens"),
            (json!({"n": 0}), "n"),
            (json!({"n": 17}), "n"),
            (json!({"temperature": 2.1}), "temperature"),
            (json!({"top_p": 0}), "top_p"),
            (json!({"presence_penalty": -3}), "presence_penalty"),
            (json!({"stop": ""}), "stop"),
            (json!({"stop": ["a", ""]}), "stop[1]"),
            (json!({"stop": ["a", 1]}), "stop[1]"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
            (json!({"stop": 1}), "stop"),
            (json!({"stop_token_ids": [1, -1]}), "stop_token_ids[1]"),
            (json!({"stop_token_ids": "x"}), "stop_token_ids"),
            (json!({"stop_token_ids": vec![1; 65]}), "stop_token_ids"),
            (json!({"min_tokens": 4, "max_tokens": 3}), "min_tokens"),
            (json!({"min_tokens": -1}), "min_tokens"),
            (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
            (json!({"logit_bias": {"x": 1}}), "logit_bias"),
            (json!({"logit_bias": [1]}), "logit_bias"),
            (json!({"best_of": 2}), "best_of"),
            (json!({"presence_penalty": 1, "repeat_last_n": 64}), "repeat_last_n"),
            (json!({"lanekeeper": {"truncate": true}}), "lanekeeper.truncate"),
            (json!({"stream_options": {"include_usage": true}}), "stream_options"),
            (json!({"stream": true, "stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
        ] {
            let fault = read(body.clone()).unwrap_err();
            assert_eq!(fault.param.as_deref(), Some(param), "{body}: {fault}");
        }
    }

    #[test]
    fn token_ids_must_be_the_models() {
        let settings = read(json!({"stop_token_ids": [1, 96], "logit_bias": {"95": -100, "3": 0.5}})).unwrap();
        assert_eq!((&settings.stop_ids[..], settings.sampling.logit_bias.len()), (&[1, 96][..], 2));
        assert!(settings.check_ids(97).is_ok());
        assert_eq!(settings.check_ids(96).unwrap_err().param.as_deref(), Some("stop_token_ids[1]"));
        let settings = read(json!({"logit_bias": {"95": 1}})).unwrap();
        assert_eq!(settings.check_ids(95).unwrap_err().param.as_deref(), Some("logit_bias.95"));
    }

    #[test]
    fn neutral_values_of_unsupported_fields_pass() {
        let body = json!({
            "logit_bias": {}, "min_tokens": 0, "stop_token_ids": [], "best_of": 1, "use_beam_search": false,
            "grammar": "", "user": "someone", "store": true, "a_new_field": {"x": 1}, "length_penalty": 1.0,
            "repeat_last_n": 64, "lanekeeper": {"truncate": false}
        });
        assert!(read(body).is_ok());
        assert!(read(json!({"presence_penalty": 1, "repeat_last_n": -1})).is_ok());
    }

    #[test]
    fn the_length_goes_by_two_names() {
        let of = |body| read(body).map(|settings| (settings.max_tokens, settings.length_field)).unwrap();
        assert_eq!(of(json!({"max_tokens": 5})), (Some(5), "max_tokens"));
        assert_eq!(of(json!({"max_completion_tokens": 6, "max_tokens": null})), (Some(6), "max_completion_tokens"));
    }
}
