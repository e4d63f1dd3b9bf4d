//! The tokenizer, and the special tokens that steer Whisper's decoder.

use super::weights::Config;
use crate::engine::models::ModelError;
use std::path::Path;
use tokenizers::Tokenizer;

/// Vocabulary size from which a model knows more than English.
const MULTILINGUAL_VOCAB: usize = 51_865;
/// Seconds per timestamp token.
pub const TIMESTAMP_S: f64 = 0.02;

/// Token ids and the text they stand for.
pub struct Tokens {
    tokenizer: Tokenizer,
    pub vocab: usize,
    pub multilingual: bool,
    pub eot: u32,
    pub sot: u32,
    pub sot_prev: u32,
    pub transcribe: u32,
    pub translate: u32,
    pub no_speech: u32,
    pub no_timestamps: u32,
    /// `<|0.00|>`; the tokens from here on are times in steps of 20 ms.
    pub timestamps: u32,
    /// (code, token) of each language; only English for an English-only model.
    pub languages: Vec<(String, u32)>,
    /// Never sampled.
    pub suppress: Vec<u32>,
    /// Never sampled as the first token of a window: blank and end.
    pub suppress_first: Vec<u32>,
}

impl Tokens {
    /// Reads tokenizer.json and derives the special ids; `vocab` is the model's.
    pub fn read(path: &Path, vocab: usize, config: &Config) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::BadFile(format!("{}: {what}", path.display()));
        let tokenizer = Tokenizer::from_file(path).map_err(|e| bad(e.to_string()))?;
        let id = |names: &[&str]| {
            names
                .iter()
                .find_map(|n| tokenizer.token_to_id(n))
                .ok_or_else(|| bad(format!("not a Whisper tokenizer: no token `{}`", names[0])))
        };
        let (sot, translate) = (id(&["<|startoftranscript|>"])?, id(&["<|translate|>"])?);
        let no_timestamps = id(&["<|notimestamps|>"])?;
        let timestamps = tokenizer.token_to_id("<|0.00|>").unwrap_or(no_timestamps + 1);
        if timestamps as usize >= vocab {
            return Err(bad(format!("times start at token {timestamps}, but the model has {vocab} tokens")));
        }
        let multilingual = vocab >= MULTILINGUAL_VOCAB;
        let language = |id: u32| {
            let name = tokenizer.id_to_token(id)?;
            Some((name.strip_prefix("<|")?.strip_suffix("|>")?.to_string(), id))
        };
        let languages = if multilingual {
            (sot + 1..translate).filter_map(language).collect()
        } else {
            vec![("en".to_string(), id(&["<|en|>"]).unwrap_or(sot + 1))]
        };
        let mut tokens = Tokens {
            vocab,
            multilingual,
            eot: id(&["<|endoftext|>"])?,
            sot,
            sot_prev: id(&["<|startofprev|>"])?,
            transcribe: id(&["<|transcribe|>"])?,
            translate,
            no_speech: id(&["<|nospeech|>", "<|nocaptions|>"])?,
            no_timestamps,
            timestamps,
            languages,
            suppress: Vec::new(),
            suppress_first: Vec::new(),
            tokenizer,
        };
        let listed = |list: &Option<Vec<i64>>| -> Option<Vec<u32>> {
            let ids: Vec<u32> = list.as_ref()?.iter().filter_map(|&i| u32::try_from(i).ok()).collect();
            (!ids.is_empty()).then_some(ids)
        };
        let mut suppress = listed(&config.suppress_ids).unwrap_or_else(|| tokens.non_speech());
        // Tokens that steer are never output; times are handled by their own rules.
        suppress.extend(sot..=no_timestamps);
        suppress.sort_unstable();
        suppress.dedup();
        suppress.retain(|&t| (t as usize) < vocab && t != tokens.eot);
        tokens.suppress = suppress;
        let mut first = listed(&config.suppress_ids_begin).unwrap_or_else(|| tokens.encode(" "));
        first.push(tokens.eot);
        tokens.suppress_first = first;
        Ok(tokens)
    }

    /// Ids of plain text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, false).map(|e| e.get_ids().to_vec()).unwrap_or_default()
    }

    /// Text of the text tokens among `ids`.
    pub fn decode(&self, ids: &[u32]) -> String {
        let text: Vec<u32> = ids.iter().copied().filter(|&t| t < self.eot).collect();
        self.tokenizer.decode(&text, true).unwrap_or_default()
    }

    pub fn is_timestamp(&self, id: u32) -> bool {
        id >= self.timestamps
    }

    /// The token of a language code.
    pub fn language(&self, code: &str) -> Option<u32> {
        self.languages.iter().find(|(c, _)| c == code).map(|(_, id)| *id)
    }

    /// Symbols that stand for sounds rather than words ("♪", brackets of captions), as the reference lists them; for
    /// models whose config brings no list.
    fn non_speech(&self) -> Vec<u32> {
        const SINGLE: &str = "\"#()*+/:;<=>@[\\]^_`{|}~「」『』";
        const RUNS: &str = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪";
        const NOTES: &str = "♩♪♫♬♭♮♯";
        let mut out: Vec<u32> = [" -", " '"].iter().filter_map(|s| self.encode(s).first().copied()).collect();
        let always = NOTES.chars().map(|c| (c.to_string(), true));
        let single = SINGLE.chars().map(|c| (c.to_string(), false));
        let runs = RUNS.split(' ').map(|r| (r.to_string(), false));
        for (symbol, note) in always.chain(single).chain(runs) {
            for ids in [self.encode(&symbol), self.encode(&format!(" {symbol}"))] {
                if let Some(&first) = ids.first()
                    && (ids.len() == 1 || note)
                {
                    out.push(first);
                }
            }
        }
        out
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A vocabulary of 20 letters, the special tokens, and times from id 30 on.
    pub(in crate::engine::models::whisper) fn toy() -> Tokens {
        let mut vocab: Vec<(String, u32)> =
            (0..20u8).map(|i| (char::from(b'a' + i).to_string(), u32::from(i))).collect();
        vocab.push(("<unk>".to_string(), 20));
        let model = tokenizers::models::wordlevel::WordLevel::builder()
            .vocab(vocab.into_iter().collect())
            .unk_token("<unk>".to_string())
            .build()
            .unwrap();
        Tokens {
            tokenizer: Tokenizer::new(model),
            vocab: 60,
            multilingual: false,
            eot: 21,
            sot: 22,
            sot_prev: 26,
            transcribe: 24,
            translate: 23,
            no_speech: 27,
            no_timestamps: 28,
            timestamps: 29,
            languages: vec![("en".to_string(), 25)],
            suppress: vec![3, 22, 23, 24, 25, 26, 27, 28],
            suppress_first: vec![4, 21],
        }
    }

    #[test]
    fn only_text_is_decoded() {
        let t = toy();
        assert_eq!(t.decode(&[29, 0, 21, 35]), "a");
        assert_eq!(t.language("en"), Some(25));
        assert_eq!(t.language("fr"), None);
        assert!(t.is_timestamp(29) && !t.is_timestamp(28));
    }
}
