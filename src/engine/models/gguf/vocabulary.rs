//! What each token is, in bytes.

use super::metadata::Metadata;
use crate::engine::models::ModelError;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Most tokens a vocabulary may have.
const MAX_TOKENS: usize = 1 << 20;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Normal,
    Unknown,
    /// Structure, never text: `<|im_start|>`.
    Control,
    /// Added by hand; matched in text before anything else, and shown.
    UserDefined,
    Unused,
    /// One byte of a text that the vocabulary cannot spell.
    Byte,
}

/// Text scheme of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Byte-level BPE (`gpt2`): each byte is one printable character.
    ByteLevel,
    /// SentencePiece (`llama`): `▁` for a space, `<0x0A>` for bytes.
    SentencePiece,
}

/// The tokens of a model: their written form, kind, and the bytes of text they stand for.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    pub scheme: Scheme,
    written: Vec<String>,
    kinds: Vec<TokenKind>,
    bytes: Vec<u8>,
    /// Token `id` is `bytes[starts[id]..starts[id + 1]]`.
    starts: Vec<u32>,
}

impl Vocabulary {
    /// The vocabulary of an opened file.
    pub fn from_metadata(m: &Metadata) -> Result<Vocabulary, ModelError> {
        let scheme = match m.text("tokenizer.ggml.model")? {
            "gpt2" => Scheme::ByteLevel,
            "llama" => Scheme::SentencePiece,
            other => {
                return Err(m.bad("tokenizer.ggml.model", format!("is `{other}`; `gpt2` and `llama` can be served")));
            }
        };
        let written = m.texts("tokenizer.ggml.tokens")?;
        if written.is_empty() || written.len() > MAX_TOKENS {
            return Err(
                m.bad("tokenizer.ggml.tokens", format!("has {} tokens, expected 1 to {MAX_TOKENS}", written.len()))
            );
        }
        let kinds = match m.opt_integers("tokenizer.ggml.token_type")? {
            None => vec![TokenKind::Normal; written.len()],
            Some(ids) if ids.len() == written.len() => ids.iter().map(|&id| kind_of(id)).collect(),
            Some(ids) => {
                return Err(m.bad(
                    "tokenizer.ggml.token_type",
                    format!("has {} entries for {} tokens", ids.len(), written.len()),
                ));
            }
        };
        Ok(Vocabulary::new(scheme, written.to_vec(), kinds))
    }

    /// A vocabulary of `written` tokens; `kinds` has one entry per token.
    pub fn new(scheme: Scheme, written: Vec<String>, kinds: Vec<TokenKind>) -> Vocabulary {
        let mut bytes = Vec::with_capacity(written.iter().map(String::len).sum());
        let mut starts = Vec::with_capacity(written.len() + 1);
        for (token, kind) in written.iter().zip(&kinds) {
            starts.push(bytes.len() as u32);
            spell(scheme, token, *kind, &mut bytes);
        }
        starts.push(bytes.len() as u32);
        Vocabulary { scheme, written, kinds, bytes, starts }
    }

    pub fn len(&self) -> usize {
        self.written.len()
    }

    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The token as the file writes it; empty for an unknown id.
    pub fn written(&self, id: u32) -> &str {
        self.written.get(id as usize).map_or("", String::as_str)
    }

    /// The bytes of text that `id` stands for: empty for control tokens and unknown ids.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let i = id as usize;
        match (self.starts.get(i), self.starts.get(i + 1)) {
            (Some(&a), Some(&b)) => &self.bytes[a as usize..b as usize],
            _ => &[],
        }
    }

    pub fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// Ids of `kind`, rising.
    pub fn of_kind(&self, kind: TokenKind) -> impl Iterator<Item = u32> + '_ {
        self.kinds.iter().enumerate().filter(move |(_, k)| **k == kind).map(|(i, _)| i as u32)
    }

    /// The token as a table of tokens has it, which may be a part of a character: the bytes of its text, or of its written
    /// form for one that is no text.
    pub fn shown(&self, id: u32) -> &[u8] {
        match self.kind(id) {
            TokenKind::Control | TokenKind::Unused | TokenKind::Unknown => self.written(id).as_bytes(),
            _ => self.bytes(id),
        }
    }
}

fn kind_of(id: i64) -> TokenKind {
    match id {
        2 => TokenKind::Unknown,
        3 => TokenKind::Control,
        4 => TokenKind::UserDefined,
        5 => TokenKind::Unused,
        6 => TokenKind::Byte,
        _ => TokenKind::Normal,
    }
}

fn spell(scheme: Scheme, token: &str, kind: TokenKind, out: &mut Vec<u8>) {
    match (kind, scheme) {
        (TokenKind::Control | TokenKind::Unused | TokenKind::Unknown, _) => {}
        (TokenKind::UserDefined, _) => out.extend(token.as_bytes()),
        (TokenKind::Byte, _) => out.extend(byte_of(token)),
        (TokenKind::Normal, Scheme::SentencePiece) => out.extend(token.replace('▁', " ").as_bytes()),
        (TokenKind::Normal, Scheme::ByteLevel) => {
            for c in token.chars() {
                match CHAR_BYTES.get(&c) {
                    Some(&b) => out.push(b),
                    None => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
    }
}

/// The byte of a token written `<0x0A>`.
pub(super) fn byte_of(token: &str) -> Option<u8> {
    u8::from_str_radix(token.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

/// GPT-2's byte alphabet, reversed: printable Latin-1 stands for itself, the other bytes for U+0100 and up.
static CHAR_BYTES: LazyLock<HashMap<char, u8>> = LazyLock::new(|| {
    let mut spare = 0x100u32;
    (0..=255u8)
        .filter_map(|b| {
            let itself = matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
            let code = if itself {
                u32::from(b)
            } else {
                spare += 1;
                spare - 1
            };
            char::from_u32(code).map(|c| (c, b))
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_tokens_spell_their_bytes() {
        use TokenKind::{Control, Normal, UserDefined};
        let written = ["<|im_end|>", "Ġhello", "Ċ", "Ã©", "<tool>", "ðŁ"].map(String::from).to_vec();
        let kinds = vec![Control, Normal, Normal, Normal, UserDefined, Normal];
        let v = Vocabulary::new(Scheme::ByteLevel, written, kinds);
        assert_eq!(v.bytes(0), b"");
        assert_eq!(v.bytes(1), b" hello");
        assert_eq!(v.bytes(2), b"\n");
        assert_eq!(v.bytes(3), "é".as_bytes());
        assert_eq!(v.bytes(4), b"<tool>");
        assert_eq!(v.bytes(99), b"");
        assert_eq!((v.shown(0), v.shown(4), v.shown(5)), (&b"<|im_end|>"[..], &b"<tool>"[..], &b"\xf0\x9f"[..]));
    }

    #[test]
    fn sentence_piece_tokens_spell_spaces_and_bytes() {
        let written = ["▁the", "<0xE2>"].map(String::from).to_vec();
        let v = Vocabulary::new(Scheme::SentencePiece, written, vec![TokenKind::Normal, TokenKind::Byte]);
        assert_eq!(v.bytes(0), b" the");
        assert_eq!(v.bytes(1), [0xe2]);
    }

    #[test]
    fn every_byte_has_one_character() {
        let mut seen: Vec<u8> = CHAR_BYTES.values().copied().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..=255).collect::<Vec<u8>>());
    }
}
