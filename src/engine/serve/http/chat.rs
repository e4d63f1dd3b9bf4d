//! `/v1/chat/completions`.

use super::generate::{self, Kind, Settings};
use crate::control::Fault;
use crate::engine::models::chat::ChatMessage;
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::{Failure, clip};
use crate::engine::serve::fields::{Fields, Unsupported, kind, list};
use crate::engine::serve::http::neutral;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use serde_json::Value;

/// Who may speak.
const ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// Most alternatives per token.
const MAX_TOP_LOGPROBS: i64 = 20;

/// Fields of this route alone that are not supported: the other route's first, which would be lost here.
const UNSUPPORTED: [Unsupported; 6] = [
    ("prompt", neutral::empty_text),
    ("chat_template", neutral::never),
    ("chat_template_kwargs", neutral::empty),
    ("add_generation_prompt", neutral::yes),
    ("continue_final_message", neutral::no),
    ("add_special_tokens", neutral::no),
];

struct Ask {
    model: String,
    messages: Vec<ChatMessage>,
    settings: Settings,
}

impl Ask {
    fn read(fields: &Fields<'_>) -> Result<Ask, Fault> {
        let model = fields.str("model")?.to_string();
        let messages = messages(fields)?;
        let mut settings = Settings::read(fields, &UNSUPPORTED)?;
        settings.logprobs = logprobs(fields)?;
        Ok(Ask { model, messages, settings })
    }
}

fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, Fault> {
    let wanted = fields.flag("logprobs")?;
    let top = fields.opt_int("top_logprobs", 0..=MAX_TOP_LOGPROBS)?;
    match (wanted, top) {
        (false, Some(1..)) => Err(fields.refuse("top_logprobs", "needs `logprobs` to be true")),
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0) as usize)),
    }
}

fn messages(fields: &Fields<'_>) -> Result<Vec<ChatMessage>, Fault> {
    fields.value("messages")?;
    let items = fields.opt_array("messages")?.unwrap_or(&[]);
    if items.is_empty() {
        return Err(fields.refuse("messages", "is empty: there is nothing to answer").code("empty_input"));
    }
    let read = |(i, item): (usize, &Value)| {
        let name = format!("messages[{i}]");
        match item {
            Value::Object(map) => message(&Fields::at(map, name)),
            other => {
                let what = format!("`{name}` must be an object, it is {}", kind(other));
                Err(Fault::invalid(name, what).code("invalid_type"))
            }
        }
    };
    items.iter().enumerate().map(read).collect()
}

fn message(fields: &Fields<'_>) -> Result<ChatMessage, Fault> {
    let role = match fields.str("role")? {
        // The newer name of the same thing; templates know the older one.
        "developer" => "system",
        role if ROLES.contains(&role) => role,
        role @ ("tool" | "function") => {
            return Err(fields.refuse("role", format_args!("is `{role}`: tools are not supported by this engine")));
        }
        other => {
            let shown = clip(other, 24);
            return Err(fields.refuse("role", format_args!("is `{shown}`, not one of {}", list(ROLES.into_iter()))));
        }
    };
    for calls in ["tool_calls", "function_call", "audio"] {
        if fields.get(calls).is_some_and(|value| !neutral::empty(value)) {
            return Err(fields.refuse(calls, "is not supported by this engine").code("unsupported_field"));
        }
    }
    Ok(ChatMessage { role: role.to_string(), content: content(fields)? })
}

/// The content of a message: a string, or parts of text (a line each).
fn content(fields: &Fields<'_>) -> Result<String, Fault> {
    let parts = match fields.value("content")? {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        other => {
            let what = format!("must be a string or an array of parts, it is {}", kind(other));
            return Err(fields.refuse("content", what).code("invalid_type"));
        }
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let name = fields.name(&format!("content[{i}]"));
        let Value::Object(map) = part else {
            let what = format!("`{name}` must be an object, it is {}", kind(part));
            return Err(Fault::invalid(name, what).code("invalid_type"));
        };
        let part = Fields::at(map, name);
        match part.str("type")? {
            "text" => texts.push(part.str("text")?),
            other => {
                let shown = clip(other, 24);
                return Err(part.refuse("type", format_args!("is `{shown}`, this engine's chats take `text` alone")));
            }
        }
    }
    Ok(texts.join("\n"))
}

pub(crate) async fn chat(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Failure> {
    let (map, bytes) = app.object(request).await?;
    let Ask { model, messages, settings } = Ask::read(&Fields::root(&map))?;
    let lm = generate::model(&app, &model)?;
    let encode = move || {
        let tokens = lm.front().encode_chat(&messages)?;
        Ok((lm, tokens))
    };
    let (lm, tokens) = app.tokenising(bytes, encode).await?;
    let prompts = vec![("messages".to_string(), tokens)];
    generate::answer(&app, &client, &lm, Kind::Chat, settings, prompts).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(extra: Value) -> Result<Ask, Fault> {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        for (key, value) in extra.as_object().unwrap() {
            body[key] = value.clone();
        }
        Ask::read(&Fields::root(body.as_object().unwrap()))
    }

    #[test]
    fn messages_are_texts_or_parts_of_text() {
        let messages = json!([
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c", "tool_calls": [], "refusal": null},
        ]);
        let read: Vec<_> = ask(json!({"messages": messages}))
            .unwrap()
            .messages
            .into_iter()
            .map(|message| (message.role, message.content))
            .collect();
        let expected = [("system", "be brief"), ("user", "a\nb"), ("assistant", "c")];
        assert_eq!(read, expected.map(|(role, content)| (role.to_string(), content.to_string())));
    }

    #[test]
    fn bad_messages_are_named() {
        for (messages, param) in [
            (json!([]), "messages"),
            (json!("hi"), "messages"),
            (json!(["hi"]), "messages[0]"),
            (json!([{"content": "x"}]), "messages[0].role"),
            (json!([{"role": "robot", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "tool", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user"}]), "messages[0].content"),
            (json!([{"role": "user", "content": 1}]), "messages[0].content"),
            (json!([{"role": "user", "content": ["x"]}]), "messages[0].content[0]"),
            (json!([{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content[0].type"),
            (json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
            (json!([{"role": "assistant", "content": "", "tool_calls": [{}]}]), "messages[0].tool_calls"),
        ] {
            let fault = ask(json!({"messages": messages})).err().unwrap();
            assert_eq!(fault.param.as_deref(), Some(param), "{fault}");
        }
        let fault = ask(json!({"messages": [{"role": "robot", "content": "x"}]})).err().unwrap();
        assert!(fault.message.ends_with("not one of `system`, `developer`, `user`, `assistant`"), "{fault}");
    }

    #[test]
    fn what_would_change_the_answer_is_refused_by_name() {
        for (field, value) in [
            ("tools", json!([{"type": "function"}])),
            ("response_format", json!({"type": "json_object"})),
            ("modalities", json!(["text", "audio"])),
            ("chat_template", json!("x")),
            ("prompt", json!("x")),
            ("n_predict", json!(3)),
        ] {
            let fault = ask(json!({field: value})).err().unwrap();
            assert_eq!((fault.param.as_deref(), fault.code), (Some(field), Some("unsupported_field")));
        }
        let neutral = json!({
            "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "modalities": ["text"],
            "parallel_tool_calls": true, "service_tier": "auto", "metadata": {"a": "b"}
        });
        assert!(ask(neutral).is_ok());
    }

    #[test]
    fn logprobs_need_their_switch() {
        assert_eq!(ask(json!({})).unwrap().settings.logprobs, None);
        assert_eq!(ask(json!({"logprobs": true})).unwrap().settings.logprobs, Some(0));
        assert_eq!(ask(json!({"logprobs": true, "top_logprobs": 3})).unwrap().settings.logprobs, Some(3));
        assert!(ask(json!({"top_logprobs": 3})).is_err());
        assert!(ask(json!({"logprobs": true, "top_logprobs": 21})).is_err());
    }
}
