//! Texts into tokens, for the routes that read them: length checks, truncation, and token ids given as such.

use crate::control::{ErrorKind, Fault, Op};
use crate::engine::models::{ModelFront, TextFront};
use crate::engine::runtime::ModelHandle;
use crate::engine::serve::app::App;
use crate::engine::serve::fields::kind;
use serde_json::Value;
use std::sync::Arc;

/// One text as the model takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tokenised {
    /// Special tokens included.
    pub(super) ids: Vec<u32>,
    pub(super) truncated: bool,
}

/// What is to be tokenised, and how to name it in a refusal.
pub(super) enum Input {
    Text(String),
    /// Ids of the model's vocabulary, without special tokens (or with them: they are not added twice).
    Ids(Vec<u32>),
}

/// A text model ready to read texts: the shared front and the box's limits on it.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) front: Arc<ModelFront>,
    pub(super) model: String,
    /// Longest input in tokens, special tokens included.
    pub(super) limit: usize,
}

impl Reader {
    /// The reader of a model that serves `op`.
    pub(super) fn of(handle: &ModelHandle, op: Op) -> Result<Reader, Fault> {
        let front = handle.front()?;
        let model = handle.profile.id.clone();
        let ModelFront::Text(text) = &*front else {
            let message = format!("model `{model}` does not read texts, {op} needs a text encoder");
            return Err(Fault::invalid("model", message));
        };
        let limit = handle.settings().max_input_tokens.map_or(text.max_tokens, |most| most.min(text.max_tokens));
        Ok(Reader { front, model, limit })
    }

    pub(super) fn text(&self) -> &TextFront {
        match &*self.front {
            ModelFront::Text(text) => text,
            // `of` looked, and a front never changes.
            _ => unreachable!("a reader is made of a text front"),
        }
    }

    /// Tokenises `input`; `param` names it. Nothing to read, or more than the limit without `truncate`, is refused.
    pub(super) fn read(&self, input: &Input, param: &str, truncate: bool) -> Result<Tokenised, Fault> {
        let wrap = self.wrap()?;
        let (empty, mut ids) = match input {
            Input::Text(text) => (text.is_empty(), self.encode(text)?),
            Input::Ids(ids) => {
                self.check_ids(ids, param)?;
                (ids.is_empty(), wrap.around(ids))
            }
        };
        if empty || ids.is_empty() {
            return Err(Fault::invalid(param, format!("`{param}` is empty: there is nothing to read in it"))
                .code("empty_input"));
        }
        let truncated = ids.len() > self.limit;
        if truncated && !truncate {
            return Err(Fault::new(
                ErrorKind::TooLong,
                format!("`{param}` has {} tokens, the model `{}` takes {}", ids.len(), self.model, self.limit),
            )
            .param(param)
            .hint("shorten it, or set `truncate` to true to have it cut"));
        }
        if truncated {
            let keep = self.limit.saturating_sub(wrap.suffix.len());
            ids.truncate(keep);
            ids.extend_from_slice(&wrap.suffix);
        }
        Ok(Tokenised { ids, truncated })
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, Fault> {
        match self.text().tokenizer.encode_fast(text, true) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            // The tokenizer's own message may quote the text.
            Err(_) => Err(Fault::new(ErrorKind::Internal, format!("the tokenizer of `{}` failed", self.model))),
        }
    }

    fn check_ids(&self, ids: &[u32], param: &str) -> Result<(), Fault> {
        let vocabulary = self.text().tokenizer.get_vocab_size(true);
        match ids.iter().position(|&id| id as usize >= vocabulary) {
            Some(at) => {
                let name = format!("{param}[{at}]");
                let message = format!("`{name}` is {}, `{}` has {vocabulary} tokens", ids[at], self.model);
                Err(Fault::invalid(name, message))
            }
            None => Ok(()),
        }
    }

    /// The special tokens that this model puts around a text.
    fn wrap(&self) -> Result<Wrap, Fault> {
        let tokenizer = &self.text().tokenizer;
        let failed = |_| Fault::new(ErrorKind::Internal, format!("the tokenizer of `{}` failed", self.model));
        let bare = tokenizer.encode_fast("a", false).map_err(failed)?;
        let whole = tokenizer.encode_fast("a", true).map_err(failed)?;
        Ok(Wrap::find(whole.get_ids(), bare.get_ids()))
    }
}

/// Special tokens before and after a text.
#[derive(Debug, PartialEq, Eq)]
struct Wrap {
    prefix: Vec<u32>,
    suffix: Vec<u32>,
}

impl Wrap {
    fn find(whole: &[u32], bare: &[u32]) -> Wrap {
        let at = whole.windows(bare.len().max(1)).position(|window| window == bare);
        match at {
            Some(at) => Wrap { prefix: whole[..at].to_vec(), suffix: whole[at + bare.len()..].to_vec() },
            None => Wrap { prefix: Vec::new(), suffix: Vec::new() },
        }
    }

    fn around(&self, ids: &[u32]) -> Vec<u32> {
        let bare = ids.strip_prefix(&self.prefix[..]).unwrap_or(ids);
        let bare = bare.strip_suffix(&self.suffix[..]).unwrap_or(bare);
        [&self.prefix[..], bare, &self.suffix[..]].concat()
    }
}

/// Reads an array of token ids.
pub(super) fn ids(values: &[Value], param: &str) -> Result<Vec<u32>, Fault> {
    let read = |(i, value): (usize, &Value)| {
        value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| {
            let name = format!("{param}[{i}]");
            let what = match value {
                Value::Number(n) => n.to_string(),
                other => kind(other).to_string(),
            };
            Fault::invalid(name.clone(), format!("`{name}` must be a token id, it is {what}")).code("invalid_type")
        })
    };
    values.iter().enumerate().map(read).collect()
}

/// Refuses more items than the box takes.
pub(super) fn check_count(app: &App, param: &str, count: usize) -> Result<(), Fault> {
    let most = app.engine.limits().max_items;
    if count > most {
        return Err(Fault::new(
            ErrorKind::InvalidRequest,
            format!("`{param}` has {count} items, the limit limits.max_items is {most}"),
        )
        .param(param)
        .code("too_many_items")
        .hint("split the request, or raise the limit in the box profile"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::text_front;
    use super::*;
    use serde_json::json;

    fn reader(limit: usize) -> Reader {
        Reader { front: Arc::new(ModelFront::Text(text_front(limit))), model: "tiny".into(), limit }
    }

    fn text(text: &str) -> Input {
        Input::Text(text.to_string())
    }

    #[test]
    fn texts_and_ids_read_the_same() {
        let reader = reader(16);
        let expected = Tokenised { ids: vec![1, 3, 4, 2], truncated: false };
        assert_eq!(reader.read(&text("a b"), "input", false).unwrap(), expected);
        assert_eq!(reader.read(&Input::Ids(vec![3, 4]), "input", false).unwrap(), expected);
        assert_eq!(reader.read(&Input::Ids(vec![1, 3, 4, 2]), "input", false).unwrap(), expected);
    }

    #[test]
    fn empty_texts_are_named() {
        for input in [text(""), Input::Ids(vec![])] {
            let fault = reader(16).read(&input, "input[3]", false).unwrap_err();
            assert_eq!((fault.param.as_deref(), fault.code), (Some("input[3]"), Some("empty_input")));
        }
        for odd in [".", " ", "\n\t", "\0"] {
            assert!(reader(16).read(&text(odd), "input", false).is_ok(), "{odd:?} is text");
        }
    }

    #[test]
    fn long_texts_are_refused_with_both_numbers_or_cut() {
        let reader = reader(4);
        let fault = reader.read(&text("a b c d"), "input[0]", false).unwrap_err();
        assert_eq!(fault.kind, ErrorKind::TooLong);
        assert!(fault.message.contains("has 6 tokens") && fault.message.contains("takes 4"), "{fault}");
        let cut = reader.read(&text("a b c d"), "input[0]", true).unwrap();
        assert_eq!(cut, Tokenised { ids: vec![1, 3, 4, 2], truncated: true });
        assert!(!reader.read(&text("a b"), "input[0]", true).unwrap().truncated, "the limit itself is not cut");
    }

    #[test]
    fn ids_out_of_range_are_named() {
        let fault = reader(9).read(&Input::Ids(vec![3, 29]), "input", false).unwrap_err();
        assert_eq!(fault.param.as_deref(), Some("input[1]"));
        assert!(fault.message.contains("is 29") && fault.message.contains("29 tokens"), "{fault}");
    }

    #[test]
    fn ids_are_whole_numbers() {
        let of = |value: Value| ids(value.as_array().unwrap(), "input");
        assert_eq!(of(json!([1, 2])).unwrap(), [1, 2]);
        for bad in [json!([1, -1]), json!([1, 1.5]), json!([1, "x"]), json!([1, 4294967296u64])] {
            assert_eq!(of(bad).unwrap_err().param.as_deref(), Some("input[1]"));
        }
    }
}
