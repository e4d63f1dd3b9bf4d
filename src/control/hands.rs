//! What an operator does with one request: hold it, let it go, move it to the other lane.

use super::Lane;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `PATCH /control/v1/requests/{id}`: what is named is brought about, what is absent stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestPatch {
    /// Whether it is held: not taken into a batch until it is let go. A recording that runs in slices is held from its
    /// next slice on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// The lane that it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
}

impl RequestPatch {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        *self == RequestPatch::default()
    }
}
