//! Models: weights in, forward passes, tokenizers, samplers. No HTTP and no scheduling rule.
//!
//! A loaded model is two halves. The front ([`ModelFront`]) is shared and read-only: doors use it to tokenise, render
//! templates and check limits. The back ([`ModelBack`]) owns weights and state, and lives on its worker thread alone:
//! no lock around a model.

pub mod api;
pub mod backend;
pub mod bert;
pub mod chat;
pub mod footprint;
pub mod gguf;
pub mod kernels;
pub mod llama;
mod load;
pub mod mtp;
pub mod safetensors;
pub mod sampler;
pub mod stream_text;
#[cfg(test)]
pub(crate) mod testing;
pub mod whisper;

pub use api::{
    CausalLm, DraftAfter, LmConfig, LmFront, LmSpan, LoadedModel, LogitsFor, ModelBack, ModelError, ModelFront,
    Segment, SpeechFront, TextEncoder, TextFront, TranscribeOptions, TranscribeSession, Transcriber, WindowReport,
    Word,
};
pub use chat::ChatMessage;
pub use load::{describe_device, load, load_telling, set_cpu_threads};
