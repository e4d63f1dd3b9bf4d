//! `/v1/completions`.

use super::generate::{self, Kind, Lm, Prompt, Settings};
use super::texts;
use crate::control::Fault;
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use crate::engine::serve::fields::{Fields, Unsupported, kind};
use crate::engine::serve::http::neutral;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use serde_json::Value;

/// Most alternatives per token.
const MAX_LOGPROBS: i64 = 20;

/// Fields of this route alone that are not supported: the other route's first, which would be lost here.
const UNSUPPORTED: [Unsupported; 3] =
    [("messages", neutral::empty), ("top_logprobs", neutral::zero), ("add_special_tokens", neutral::yes)];

struct Ask {
    model: String,
    prompts: Vec<(String, Source)>,
    settings: Settings,
}

/// A prompt as it came.
#[derive(Debug, PartialEq)]
enum Source {
    Text(String),
    Ids(Vec<u32>),
}

impl Ask {
    fn read(fields: &Fields<'_>) -> Result<Ask, Fault> {
        let model = fields.str("model")?.to_string();
        let prompts = prompts(fields)?;
        let mut settings = Settings::read(fields, &UNSUPPORTED)?;
        settings.logprobs = fields.opt_int("logprobs", 0..=MAX_LOGPROBS)?.map(|n| n as usize);
        Ok(Ask { model, prompts, settings })
    }
}

/// The `prompt` field: a text, texts, token ids, or arrays of token ids; each with its name.
fn prompts(fields: &Fields<'_>) -> Result<Vec<(String, Source)>, Fault> {
    let mistyped = |name: &str, value: &Value| {
        let wanted = "a string, an array of strings, or arrays of token ids";
        Fault::invalid(name, format!("`{name}` must be {wanted}, it is {}", kind(value))).code("invalid_type")
    };
    let items = match fields.value("prompt")? {
        Value::String(text) => return Ok(vec![("prompt".into(), Source::Text(text.clone()))]),
        Value::Array(items) => items,
        other => return Err(mistyped("prompt", other)),
    };
    match items.first() {
        None => Err(fields.refuse("prompt", "is an empty array: there is nothing to continue").code("empty_input")),
        Some(Value::Number(_)) => Ok(vec![("prompt".into(), Source::Ids(texts::ids(items, "prompt")?))]),
        Some(first) => {
            let texts_wanted = first.is_string();
            let read = |(i, item): (usize, &Value)| {
                let name = format!("prompt[{i}]");
                let source = match item {
                    Value::String(text) if texts_wanted => Source::Text(text.clone()),
                    Value::Array(ids) if !texts_wanted => Source::Ids(texts::ids(ids, &name)?),
                    other => return Err(mistyped(&name, other)),
                };
                Ok((name, source))
            };
            items.iter().enumerate().map(read).collect()
        }
    }
}

fn encode(lm: &Lm, (name, source): (String, Source)) -> Result<Prompt, Fault> {
    let tokens = match source {
        Source::Text(text) => {
            lm.front().encode_prompt(&text).map_err(|fault| Fault { param: Some(name.clone()), ..fault })?
        }
        Source::Ids(ids) => {
            let vocabulary = lm.front().config.vocab;
            if let Some(at) = ids.iter().position(|&id| id as usize >= vocabulary) {
                let param = format!("{name}[{at}]");
                let message = format!("`{param}` is {}, the model has {vocabulary} tokens", ids[at]);
                return Err(Fault::invalid(param, message));
            }
            ids
        }
    };
    Ok((name, tokens))
}

pub(crate) async fn completions(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Failure> {
    let (map, bytes) = app.object(request).await?;
    let Ask { model, prompts, settings } = Ask::read(&Fields::root(&map))?;
    texts::check_count(&app, "prompt", prompts.len())?;
    let lm = generate::model(&app, &model)?;
    let encode = move || {
        let tokens = prompts.into_iter().map(|prompt| encode(&lm, prompt)).collect::<Result<Vec<_>, _>>()?;
        Ok((lm, tokens))
    };
    let (lm, prompts) = app.tokenising(bytes, encode).await?;
    generate::answer(&app, &client, &lm, Kind::Text, settings, prompts).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(extra: Value) -> Result<Ask, Fault> {
        let mut body = json!({"model": "m", "prompt": "x"});
        for (key, value) in extra.as_object().unwrap() {
            body[key] = value.clone();
        }
        Ask::read(&Fields::root(body.as_object().unwrap()))
    }

    #[test]
    fn every_form_of_prompt_is_read() {
        let of = |prompt: Value| ask(json!({"prompt": prompt})).unwrap().prompts;
        assert_eq!(of(json!("a")), [("prompt".to_string(), Source::Text("a".into()))]);
        assert_eq!(of(json!([1, 2])), [("prompt".to_string(), Source::Ids(vec![1, 2]))]);
        assert_eq!(of(json!(["a", "b"])).len(), 2);
        assert_eq!(of(json!([[1], [2]]))[1], ("prompt[1]".to_string(), Source::Ids(vec![2])));
    }

    #[test]
    fn bad_fields_are_named() {
        for (extra, param) in [
            (json!({"prompt": []}), "prompt"),
            (json!({"prompt": null}), "prompt"),
            (json!({"prompt": ["a", 1]}), "prompt[1]"),
            (json!({"prompt": [1, "a"]}), "prompt[1]"),
            (json!({"echo": true, "max_tokens": 0, "logprobs": 1}), "echo"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"suffix": "x"}), "suffix"),
            (json!({"logprobs": true}), "logprobs"),
            (json!({"logprobs": -1}), "logprobs"),
            (json!({"best_of": 2}), "best_of"),
            (json!({"max_completion_tokens": 0}), "max_completion_tokens"),
            (json!({"max_completion_tokens": 3, "max_tokens": 4}), "max_tokens"),
            (json!({"tools": [{"type": "function"}]}), "tools"),
            (json!({"response_format": {"type": "json_object"}}), "response_format"),
            (json!({"messages": [{"role": "user", "content": "x"}]}), "messages"),
            (json!({"logprobs": 1, "top_logprobs": 2}), "top_logprobs"),
        ] {
            let fault = ask(extra.clone()).err().unwrap();
            assert_eq!(fault.param.as_deref(), Some(param), "{extra}: {fault}");
        }
        assert!(ask(json!({"echo": false, "suffix": "", "best_of": 1, "logprobs": 0, "max_tokens": null})).is_ok());
        assert!(ask(json!({"response_format": {"type": "text"}, "tools": [], "messages": []})).is_ok());
        assert_eq!(ask(json!({"max_completion_tokens": 3})).unwrap().settings.max_tokens, Some(3));
    }
}
