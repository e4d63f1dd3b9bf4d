//! What the boot allocation permits, with the reason: narrower than what the key table allows anywhere.

use crate::control::knobs::Envelope;
use crate::engine::runtime::{batch, generation};
use crate::profile::{BoxProfile, ModelProfile};

/// `own`, the range of the key table, narrowed by what `boot`, the profile that the engine was started with, allocated.
pub(super) fn narrowed(own: Envelope, name: &str, boot: &BoxProfile) -> Envelope {
    let model = boot.models.iter().find_map(|model| {
        let rest = name.strip_prefix("models.")?.strip_prefix(model.id.as_str())?.strip_prefix('.')?;
        Some((model, rest))
    });
    match model {
        Some((model, path)) => of_model(own, path, model),
        None if name == "limits.audio_bytes" => {
            let room = boot.limits.audio_bytes;
            own.at_most(room as f64, format!("room for uploads of {room} bytes was set aside at the start"))
        }
        None => own,
    }
}

fn of_model(own: Envelope, path: &str, model: &ModelProfile) -> Envelope {
    match (path, model.generation) {
        ("depth", _) => own.at_most(batch::MAX_DEPTH as f64, "the runner of a model has places for so many batches"),
        ("max_queue", _) => {
            let room = batch::queue_room(model);
            own.at_most(room as f64, format!("the channel to the model's worker was made for {room} at the start"))
        }
        ("generation.queue", Some(g)) => {
            let room = generation::queue_room(&g);
            own.at_most(room as f64, format!("the channel to the model's worker was made for {room} at the start"))
        }
        ("generation.slots", Some(g)) => {
            let reason = format!("key-value caches for {} sequences were allocated at the start", g.slots);
            own.at_most(g.slots as f64, reason)
        }
        ("generation.kv_reserve" | "generation.default_max_tokens", Some(g)) => {
            let context = g.context_tokens;
            own.at_most(
                context as f64,
                format!("no sequence is longer than {context} tokens (generation.context_tokens)"),
            )
        }
        _ => own,
    }
}
