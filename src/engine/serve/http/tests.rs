//! A small text model's front, for tests.

use crate::engine::models::TextFront;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::pre_tokenizers::whitespace::Whitespace;
use tokenizers::processors::template::TemplateProcessing;

/// A front whose vocabulary is `a`..`z`, with `[CLS]` before and `[SEP]` after a text, and vectors of four numbers.
pub(crate) fn text_front(max_tokens: usize) -> TextFront {
    let words = ["[UNK]", "[CLS]", "[SEP]"].into_iter().map(String::from).chain(('a'..='z').map(String::from));
    let vocab = words.enumerate().map(|(i, word)| (word, i as u32)).collect();
    let model = WordLevel::builder().vocab(vocab).unk_token("[UNK]".into()).build().unwrap();
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(Whitespace {}));
    let template = TemplateProcessing::builder()
        .try_single("[CLS] $A [SEP]")
        .unwrap()
        .special_tokens(vec![("[CLS]", 1), ("[SEP]", 2)])
        .build()
        .unwrap();
    tokenizer.with_post_processor(Some(template));
    TextFront { tokenizer, max_tokens, dimensions: 4, cross_encoder: false }
}
