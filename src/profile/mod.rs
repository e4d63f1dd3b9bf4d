//! Profiles: what a box serves and how, in YAML; typed, layered and validated, each value with its origin.
//!
//! Nobody owns state here: every function reads files and the environment it is given and returns values. Pure apart
//! from reading profile files. Later layers win: built-in (the key tables in [`keys`]) < profile file over the ones it
//! `extends` < environment < command line < what an operator sets live ([`BoxBase`]). A failure lists every fault it
//! found, each with file, line and column, or the variable or flag that holds it.
//!
//! A *load* is a profile of another kind: what the simulator is to simulate ([`workload`]). No environment sets it.
//!
//! The engine takes the typed values ([`ModelProfile`], [`BoxProfile`]); people ask for the origins ([`Resolved`]).

mod adaptive;
mod build_box;
mod build_model;
mod build_workload;
mod change_file;
mod describe;
mod env;
mod error;
pub mod keys;
mod knobs;
mod layer;
mod library;
mod load;
mod origin;
mod reader;
mod schema;
mod speculation;
mod spread;
#[cfg(test)]
mod tests;
pub mod types;
mod value;
pub mod workload;
pub mod workload_keys;
mod yaml;

pub use crate::control::nearest;
pub use adaptive::{AdaptiveMode, AdaptiveSettings, Bound};
pub use build_model::{DEFAULT_BATCH_COST, family_ops};
pub use build_workload::{WorkloadOverrides, load_workload, workload_of_values};
pub use change_file::{ChangeFile, read_changes};
pub use describe::{Listing, Needed, Report, Shown, check, kind_of, list, show};
pub use env::{ALIASES, Env, PREFIX, RESERVED, variable};
pub use error::{ProfileError, ProfileErrors};
pub use knobs::{figure, knob};
pub use library::{ProfileKind, SHIPPED};
pub use load::{BoxBase, Live, load_box, load_model};
pub use origin::{Origin, Place, Resolved, Row, SourceFile};
pub use schema::schema;
pub use speculation::{ProposerKind, SpeculationSettings};
pub use spread::Spread;
pub use types::{
    AudioLimits, BoxProfile, Console, DType, DeviceChoice, DraftHead, Family, FileRole, GenerationSettings, Limits,
    Listen, ModelFile, ModelProfile, Retention, Source,
};
pub use value::{bytes, seconds};
pub use workload::{ArrivalPattern, ClientClass, LaneService, SchedulerSettings, Workload};
