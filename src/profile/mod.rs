//! Profiles: what a box serves and how, in YAML; typed, layered and validated, each value with its origin.
//!
//! Pure apart from reading the file it is asked for. The engine takes the typed values ([`ModelProfile`],
//! [`BoxProfile`]); people ask for the origins.

pub mod types;

pub use types::{
    AudioLimits, BoxProfile, Console, DType, DeviceChoice, Family, FileRole, GenerationSettings, Limits, Listen,
    ModelFile, ModelProfile, Source,
};
