//! The batch scheduler: items, costs, lanes, turns and the batch former. Pure: time comes in as [`Micros`], decisions
//! and their reasons go out as values ([`Formed`], [`FlushReason`], [`Explained`]).
//!
//! One [`Former`] per (model, operation), owned by the thread that runs the model; nothing here is shared or locked.
//! It cannot fail: what cannot be served is refused at the door, and an item dearer than the cap travels alone.
//!
//! Where what lives: [`item`] costs and the lane rule, [`caps`] what bounds a batch, [`budget`] where the cost cap comes
//! from, [`controller`] what adapts it, [`rules`] how the lanes share the engine, `pending` the indexed queue in its `slab`, `due` when a
//! batch is due, `turns` whose turn it is, `share` engine time per lane, `plan` what is next, [`former`] the whole,
//! `hands` what an operator does with single
//! items, [`rounds`] which of a model's formers gives the next batch, `explain` why an item waits, [`fit`] and [`service`] how
//! long a batch takes, [`forecast`](mod@forecast) when an item will start.

pub mod budget;
pub mod caps;
pub mod controller;
mod due;
mod explain;
pub mod fit;
pub mod forecast;
pub mod former;
mod hands;
pub mod item;
pub mod micros;
mod pending;
mod plan;
pub mod rounds;
pub mod rules;
pub mod service;
pub mod setup;
mod share;
mod slab;
#[cfg(test)]
mod tests;
mod turns;

pub use budget::{Adoption, CapOrigin, CostLayers, CostRange, Layered, RangeError};
pub use caps::{AUDIO_HARD_CAP_MS, BatchCaps, DEFAULT_MAX_BATCH_COST, DEFAULT_MAX_BATCH_REQUESTS};
pub use controller::{
    Adaptive, CapMove, ControllerMode, ControllerSettings, ControllerView, Knob, MoveCause, SettingsError,
};
pub use due::FlushReason;
pub use explain::{Explained, OwedClip, Preview};
pub use forecast::{Arrivals, Outlook, Running, forecast};
pub use former::{Formed, Former, LaneLoad, Order, Slice};
pub use item::{Item, ItemId, RECORDING_SAMPLES, audio_cost_ms, embed_cost, lane_of_audio, rerank_cost};
pub use micros::Micros;
pub use rounds::Rounds;
pub use rules::{LaneRules, Paused, SliceWindows, WINDOW_MS};
pub use service::{Service, ServiceFit};
pub use share::{Charge, ShareView};
pub use turns::{LaneWhy, TurnKind, TurnView};
