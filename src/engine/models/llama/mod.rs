//! The llama family: decoder-only transformers with rotary positions, grouped-query attention, RMS norms and a gated
//! feed-forward, read from GGUF files (llama, mistral, smollm and qwen2 architectures).
//!
//! One forward pass over ragged rows of several sequences, generic over the back end. The layer loop is a range with
//! hidden state in and out, so that it can be cut anywhere. KV slots have explicit lengths: rewinding is setting one.
//!
//! [`Llama`](forward::Llama) is owned by its model's worker thread. A failed or panicked pass leaves the slots that it
//! touched at the length where the pass began, so that they can be used again.

pub mod config;
pub mod forward;
pub mod load;
pub mod weights;

pub use forward::Llama;
pub use load::load;
