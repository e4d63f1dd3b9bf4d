//! Progress of generations, as observers get it: a stream of frames over all requests.
//!
//! A request that is told of starts once, commits any number of times and ends once. The tokens of its commits put
//! together are exactly those of its answer; where an observer missed some, the totals show it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fn none(n: &u64) -> bool {
    *n == 0
}

/// Whose progress it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitKey {
    /// This run of the engine: request ids begin again with the next.
    pub session: String,
    pub request: String,
    pub model: String,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CommitFrame {
    /// The request has a slot.
    Started {
        #[serde(flatten)]
        of: CommitKey,
    },
    /// Tokens were added to its answer.
    Committed {
        #[serde(flatten)]
        of: CommitKey,
        /// Tokens of the answer with these.
        total: u64,
        /// Tokens just before these that were not told.
        #[serde(default, skip_serializing_if = "none")]
        missed: u64,
        tokens: Vec<u32>,
    },
    /// It ended as it should; nothing more is told of it.
    Finished {
        #[serde(flatten)]
        of: CommitKey,
        /// Tokens of the answer.
        total: u64,
        /// Of its last tokens, those that were not told.
        #[serde(default, skip_serializing_if = "none")]
        missed: u64,
    },
    /// It was cancelled, failed, or ran out of time; nothing more is told of it.
    Aborted {
        #[serde(flatten)]
        of: CommitKey,
        total: u64,
        #[serde(default, skip_serializing_if = "none")]
        missed: u64,
    },
    /// This observer was too slow: so many frames were dropped just here.
    Gap { frames: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn frames_are_flat_objects() {
        let of = CommitKey { session: "s".into(), request: "req-1".into(), model: "m".into() };
        let frame = CommitFrame::Committed { of, total: 3, missed: 0, tokens: vec![7, 8] };
        let value = serde_json::to_value(&frame).expect("a value");
        let expected = json!({"kind": "committed", "session": "s", "request": "req-1", "model": "m", "total": 3,
                              "tokens": [7, 8]});
        assert_eq!(value, expected);
        assert_eq!(serde_json::from_value::<CommitFrame>(value).expect("reads"), frame);
    }
}
