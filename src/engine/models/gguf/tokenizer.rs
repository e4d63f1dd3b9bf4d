//! The tokenizer inside a GGUF file, as a [`Tokenizer`].
//!
//! Two schemes: byte-level BPE with a merge list (`gpt2`), and SentencePiece BPE (`llama`), whose merges are not in the
//! file and are derived from the token scores, as Hugging Face's converter does.

use super::metadata::Metadata;
use super::vocabulary::{Scheme, TokenKind, Vocabulary};
use crate::engine::models::ModelError;
use std::collections::HashMap;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

const MERGES: &str = "tokenizer.ggml.merges";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const PRE: &str = "tokenizer.ggml.pre";

/// Llama 3's way to cut text into words before merging.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 2's: the same with single digits.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Builds the tokenizer of `vocabulary`. It adds no begin or end tokens by itself; control tokens written in the text
/// are recognised.
pub fn build(m: &Metadata, vocabulary: &Vocabulary) -> Result<Tokenizer, ModelError> {
    // Byte-level tokenizers have no use for it, but a file with a broken one is a damaged file.
    m.opt_token(UNKNOWN, vocabulary.len())?;
    let mut tokenizer = match vocabulary.scheme {
        Scheme::ByteLevel => byte_level(m, vocabulary)?,
        Scheme::SentencePiece => sentence_piece(m, vocabulary)?,
    };
    let token = |id: u32, special: bool| AddedToken::from(vocabulary.written(id), special).normalized(false);
    let control: Vec<AddedToken> = vocabulary.of_kind(TokenKind::Control).map(|id| token(id, true)).collect();
    let user: Vec<AddedToken> = vocabulary.of_kind(TokenKind::UserDefined).map(|id| token(id, false)).collect();
    tokenizer
        .add_special_tokens(control)
        .and_then(|_| tokenizer.add_tokens(user))
        .map_err(|e| m.bad("tokenizer.ggml.tokens", format!("holds a special token that cannot be used: {e}")))?;
    Ok(tokenizer)
}

fn table(vocabulary: &Vocabulary) -> HashMap<String, u32> {
    let mut table = HashMap::with_capacity(vocabulary.len());
    for id in 0..vocabulary.len() as u32 {
        // The first of equal spellings is the one that text becomes.
        table.entry(vocabulary.written(id).to_string()).or_insert(id);
    }
    table
}

fn byte_level(m: &Metadata, vocabulary: &Vocabulary) -> Result<Tokenizer, ModelError> {
    let merges = m
        .texts(MERGES)?
        .iter()
        .map(|line| {
            line.split_once(' ')
                .map(|(a, b)| (a.to_string(), b.to_string()))
                .ok_or_else(|| m.bad(MERGES, format!("has the entry `{}`, expected two parts", line.escape_debug())))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let pre = m.opt_text(PRE)?.unwrap_or("default");
    let (pre_tokenizer, ignore_merges) = match pre {
        "default" | "gpt-2" | "gpt2" => (PreTokenizerWrapper::from(ByteLevel::new(false, false, true)), false),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" => {
            let parts = vec![Digits::new(true).into(), ByteLevel::new(false, false, true).into()];
            (Sequence::new(parts).into(), false)
        }
        "llama-bpe" | "llama3" | "llama-v3" => (by_pattern(m, LLAMA3)?, true),
        "qwen2" | "deepseek-r1-qwen" => (by_pattern(m, QWEN2)?, false),
        other => {
            return Err(m.bad(
                PRE,
                format!(
                    "is `{other}`; known are default, gpt-2, smollm, starcoder, refact, command-r, llama-bpe, qwen2"
                ),
            ));
        }
    };
    let bpe = BPE::builder()
        .vocab_and_merges(table(vocabulary).into_iter().collect::<Vocab>(), merges)
        .ignore_merges(ignore_merges)
        .build()
        .map_err(|e| m.bad(MERGES, format!("does not fit the token list: {e}")))?;
    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer)).with_decoder(Some(ByteLevel::default()));
    Ok(tokenizer)
}

fn by_pattern(m: &Metadata, pattern: &str) -> Result<PreTokenizerWrapper, ModelError> {
    let split = Split::new(SplitPattern::Regex(pattern.into()), SplitDelimiterBehavior::Isolated, false)
        .map_err(|e| m.bad(PRE, format!("names a pattern that does not compile: {e}")))?;
    Ok(Sequence::new(vec![split.into(), ByteLevel::new(false, false, false).into()]).into())
}

fn sentence_piece(m: &Metadata, vocabulary: &Vocabulary) -> Result<Tokenizer, ModelError> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let scores = m.opt_floats(SCORES)?.ok_or_else(|| m.bad(SCORES, "is missing: it orders the merges"))?;
    if scores.len() != vocabulary.len() {
        return Err(m.bad(SCORES, format!("has {} entries for {} tokens", scores.len(), vocabulary.len())));
    }
    let table = table(vocabulary);
    let merges = merges_by_score(vocabulary, scores, &table);
    let mut builder = BPE::builder()
        .vocab_and_merges(table.into_iter().collect::<Vocab>(), merges)
        .byte_fallback(true)
        .fuse_unk(true);
    if let Some(id) = m.opt_token(UNKNOWN, vocabulary.len())? {
        builder = builder.unk_token(vocabulary.written(id).to_string());
    }
    let bpe = builder.build().map_err(|e| m.bad("tokenizer.ggml.tokens", format!("make no tokenizer: {e}")))?;
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if m.opt_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true) {
        steps.push(Prepend::new("▁".into()).into());
    }
    let spaces = Replace::new(" ", "▁").map_err(|e| m.bad("tokenizer.ggml.model", format!("no normalizer: {e}")))?;
    steps.push(spaces.into());
    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer
        .with_normalizer(Some(Normalizers::new(steps)))
        .map_err(|e| m.bad("tokenizer.ggml.model", format!("no normalizer: {e}")))?;
    Ok(tokenizer)
}

/// Every way in which two tokens make a third, best result first.
fn merges_by_score(vocabulary: &Vocabulary, scores: &[f32], table: &HashMap<String, u32>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for id in vocabulary.of_kind(TokenKind::Normal) {
        let token = vocabulary.written(id);
        let mut here: Vec<(u32, u32, usize)> = token
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| Some((*table.get(&token[..at])?, *table.get(&token[at..])?, at)))
            .collect();
        here.sort_unstable();
        found.extend(here.into_iter().map(|(_, _, at)| (id, at)));
    }
    // Stable: equal scores keep the order of ids.
    found.sort_by(|a, b| scores[b.0 as usize].total_cmp(&scores[a.0 as usize]));
    found
        .into_iter()
        .map(|(id, at)| {
            let (left, right) = vocabulary.written(id).split_at(at);
            (left.to_string(), right.to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::gguf::header::read;
    use crate::engine::models::gguf::testing::FileBuilder;
    use std::path::Path;

    fn metadata(f: &FileBuilder) -> Metadata {
        let data = f.build();
        read(&data[..], Path::new("m.gguf"), data.len() as u64).expect("whole").metadata
    }

    fn ids(f: &FileBuilder, text: &str) -> Vec<u32> {
        let m = metadata(f);
        let v = Vocabulary::from_metadata(&m).expect("vocabulary");
        build(&m, &v).expect("tokenizer").encode(text, false).expect("encodes").get_ids().to_vec()
    }

    fn bpe_file() -> FileBuilder {
        FileBuilder::new()
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", "smollm")
            .texts("tokenizer.ggml.tokens", &["<|x|>", "a", "b", "Ġ", "ab", "Ġa", "1", "2"])
            .i32s("tokenizer.ggml.token_type", &[3, 1, 1, 1, 1, 1, 1, 1])
            .texts("tokenizer.ggml.merges", &["a b", "Ġ a"])
    }

    #[test]
    fn byte_level_merges_and_finds_control_tokens() {
        assert_eq!(ids(&bpe_file(), "ab ab<|x|>12"), [4, 3, 4, 0, 6, 7]);
    }

    #[test]
    fn sentence_piece_merges_by_score() {
        let f = FileBuilder::new()
            .text("tokenizer.ggml.model", "llama")
            .texts("tokenizer.ggml.tokens", &["<unk>", "▁", "a", "b", "ab", "▁a", "<0xC3>", "<0xA9>"])
            .i32s("tokenizer.ggml.token_type", &[2, 1, 1, 1, 1, 1, 6, 6])
            .f32s("tokenizer.ggml.scores", &[0.0, -9.0, -9.0, -9.0, -1.0, -2.0, 0.0, 0.0])
            .u32("tokenizer.ggml.unknown_token_id", 0);
        assert_eq!(ids(&f, "ab é"), [1, 4, 1, 6, 7]);
    }

    #[test]
    fn refusals_name_their_key() {
        let refuse = |f: FileBuilder| {
            let m = metadata(&f);
            let e = Vocabulary::from_metadata(&m).and_then(|v| build(&m, &v)).expect_err("refused");
            e.to_string()
        };
        let base = || FileBuilder::new().text("tokenizer.ggml.model", "gpt2");
        assert!(refuse(base()).contains("`tokenizer.ggml.tokens` is missing"));
        assert!(
            refuse(base().u32("tokenizer.ggml.tokens", 1)).contains("is a whole number, expected a list of strings")
        );
        let tokens = || base().texts("tokenizer.ggml.tokens", &["a", "b"]);
        assert!(refuse(tokens()).contains("`tokenizer.ggml.merges` is missing"));
        assert!(refuse(tokens().texts(MERGES, &["a c"])).contains("`tokenizer.ggml.merges` does not fit"));
        assert!(refuse(tokens().texts(MERGES, &["ab"])).contains("expected two parts"));
        let unknown = || tokens().texts::<&str>(MERGES, &[]);
        assert!(refuse(unknown().text(UNKNOWN, "a")).contains("`tokenizer.ggml.unknown_token_id`"));
        assert!(refuse(unknown().u32(UNKNOWN, 2)).contains("`tokenizer.ggml.unknown_token_id`"));
        let odd = tokens().texts::<&str>(MERGES, &[]).text(PRE, "klingon");
        assert!(refuse(odd).contains("`tokenizer.ggml.pre` is `klingon`"));
        assert!(refuse(FileBuilder::new().text("tokenizer.ggml.model", "bert")).contains("`tokenizer.ggml.model`"));
    }
}
