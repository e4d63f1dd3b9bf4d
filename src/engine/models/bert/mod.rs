//! BERT encoders: embeddings by mean pooling, and rerank by a cross-encoder head where the checkpoint has one, else by
//! the cosine of embeddings.
//!
//! The encoder owns its weights and no other state: one worker thread calls it. All texts of a batch go through as the
//! rows of one ragged matrix, without padding. Weights stay in f32: int8 would cost more cosine than a vector index
//! forgives. A bad text is refused with its place in the batch; nothing is computed then.

mod config;
mod encoder;
mod forward;
mod load;
#[cfg(test)]
mod tests;
mod weights;

pub use config::BertConfig;
pub use load::load;
