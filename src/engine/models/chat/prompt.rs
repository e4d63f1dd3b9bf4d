//! From text to prompt tokens.

use super::template::ChatMessage;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::LmFront;
use crate::engine::models::gguf::{TokenKind, Vocabulary};
use std::borrow::Cow;
use tokenizers::{Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, Tokenizer};

/// Stands inside control-token spellings that came from a user. A noncharacter: no text has it, and it is taken out
/// again before the text is tokenised.
const MARK: char = '\u{fdd0}';

impl LmFront {
    /// Tokens of a raw prompt: control tokens written in it are recognised, and the begin token goes first where the
    /// model asks for it.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, Fault> {
        let ids = self.tokenizer.encode_fast(text, false).map_err(|e| cannot("prompt", &e))?;
        Ok(self.begin(ids.get_ids().to_vec()))
    }

    /// Tokens of a chat, ending where the assistant's answer begins. Contents never become control tokens.
    pub fn encode_chat(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, Fault> {
        let template = self.chat_template.as_ref().ok_or_else(|| {
            Fault::invalid("messages", "this model has no chat template")
                .hint("send a raw prompt to /v1/completions, or serve an instruction-tuned model")
        })?;
        if messages.is_empty() {
            return Err(Fault::invalid("messages", "the list of messages is empty"));
        }
        for (i, m) in messages.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if m.role.is_empty() || m.role.len() > 32 || !m.role.chars().all(plain) {
                let param = format!("messages[{i}].role");
                return Err(Fault::invalid(param, "a role is a word such as `system`, `user` or `assistant`"));
            }
        }
        let specials = Specials::new(&self.vocabulary);
        let marked: Vec<ChatMessage> = messages
            .iter()
            .map(|m| ChatMessage { role: m.role.clone(), content: specials.mark(&m.content).into_owned() })
            .collect();
        let text = template.render(&marked)?;
        let ids = specials.encode(&self.tokenizer, &text).map_err(|e| cannot("messages", &e))?;
        Ok(self.begin(ids))
    }

    /// Puts the begin token first, once.
    fn begin(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let (true, Some(bos)) = (self.add_bos, self.bos_id)
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        ids
    }
}

fn cannot(param: &str, e: &dyn std::fmt::Display) -> Fault {
    Fault::new(ErrorKind::InvalidRequest, format!("the text cannot be tokenised: {e}")).param(param)
}

/// Spellings of control and user-defined tokens, by first byte, longest first.
struct Specials<'a> {
    by_first: Vec<Vec<(&'a str, u32, TokenKind)>>,
}

impl<'a> Specials<'a> {
    fn new(vocabulary: &'a Vocabulary) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for kind in [TokenKind::Control, TokenKind::UserDefined] {
            for id in vocabulary.of_kind(kind) {
                let text = vocabulary.written(id);
                if let Some(&b) = text.as_bytes().first() {
                    by_first[usize::from(b)].push((text, id, kind));
                }
            }
        }
        for list in &mut by_first {
            list.sort_by_key(|(text, ..)| std::cmp::Reverse(text.len()));
        }
        Specials { by_first }
    }

    /// The special token that begins `text`.
    fn at(&self, text: &str) -> Option<(&'a str, u32, TokenKind)> {
        let first = *text.as_bytes().first()?;
        self.by_first[usize::from(first)].iter().find(|(t, ..)| text.starts_with(t)).copied()
    }

    /// `text` with a mark after the first character of every control token in it.
    fn mark<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.contains(MARK) {
            // A mark in the input would vanish later and could leave a control token behind.
            return Cow::Owned(self.mark(&text.replace(MARK, "")).into_owned());
        }
        let mut out = String::new();
        let mut copied = 0;
        for (at, c) in text.char_indices() {
            let here = &self.by_first[usize::from(text.as_bytes()[at])];
            if here.iter().any(|(t, _, kind)| *kind == TokenKind::Control && text[at..].starts_with(t)) {
                let next = at + c.len_utf8();
                out.push_str(&text[copied..next]);
                out.push(MARK);
                copied = next;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }

    /// Tokens of a rendered template: special tokens where they stand unmarked, plain text between.
    fn encode(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, tokenizers::Error> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut plain = 0;
        let mut at = 0;
        while at < text.len() {
            match self.at(&text[at..]) {
                // A control token of one character is followed by its mark instead of broken by it.
                Some((token, id, _)) if !text[at + token.len()..].starts_with(MARK) => {
                    encode_plain(tokenizer, &text[plain..at], &mut ids)?;
                    ids.push(id);
                    at += token.len();
                    plain = at;
                }
                _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        encode_plain(tokenizer, &text[plain..], &mut ids)?;
        Ok(ids)
    }
}

/// Tokens of text in which no special token is looked for.
fn encode_plain(tokenizer: &Tokenizer, text: &str, ids: &mut Vec<u32>) -> Result<(), tokenizers::Error> {
    if text.is_empty() {
        return Ok(());
    }
    let mut normalized = NormalizedString::from(text.replace(MARK, ""));
    if let Some(n) = tokenizer.get_normalizer() {
        n.normalize(&mut normalized)?;
    }
    let mut pieces = PreTokenizedString::from(normalized);
    if let Some(p) = tokenizer.get_pre_tokenizer() {
        p.pre_tokenize(&mut pieces)?;
    }
    pieces.tokenize(|piece| tokenizer.get_model().tokenize(piece.get()))?;
    let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
    ids.extend_from_slice(encoding.get_ids());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::gguf::testing::FileBuilder;
    use crate::engine::models::gguf::{header, tokenizer};
    use std::path::Path;

    fn setup() -> (Vocabulary, Tokenizer) {
        let data = FileBuilder::new()
            .text("tokenizer.ggml.model", "gpt2")
            .texts("tokenizer.ggml.tokens", &["<x>", "<", "x", ">", "a", "Ġ", "<t>", "t", "<xx>"])
            .i32s("tokenizer.ggml.token_type", &[3, 1, 1, 1, 1, 1, 4, 1, 3])
            .texts::<&str>("tokenizer.ggml.merges", &[])
            .build();
        let gguf = header::read(&data[..], Path::new("m.gguf"), data.len() as u64).expect("whole");
        let v = Vocabulary::from_metadata(&gguf.metadata).expect("vocabulary");
        let t = tokenizer::build(&gguf.metadata, &v).expect("tokenizer");
        (v, t)
    }

    #[test]
    fn typed_control_tokens_stay_text_and_template_ones_do_not() {
        let (v, t) = setup();
        let s = Specials::new(&v);
        let typed = s.mark("a<x>a<t><xx>");
        let rendered = format!("<x>{typed}<x>");
        let ids = s.encode(&t, &rendered).expect("encodes");
        assert_eq!(ids, [0, 4, 1, 2, 3, 4, 6, 1, 2, 2, 3, 0]);
    }

    #[test]
    fn a_mark_typed_by_a_user_cannot_build_a_control_token() {
        let (v, t) = setup();
        let s = Specials::new(&v);
        let typed = s.mark("<\u{fdd0}x>");
        assert_eq!(s.encode(&t, &typed).expect("encodes"), [1, 2, 3]);
    }

    #[test]
    fn plain_text_is_not_copied() {
        let (v, _) = setup();
        assert!(matches!(Specials::new(&v).mark("aaa < x"), Cow::Borrowed(_)));
    }
}
