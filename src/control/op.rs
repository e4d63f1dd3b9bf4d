//! Operations a model can serve, and the lanes their requests wait in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a request asks a model to do. Its cost unit follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Speech to text; cost in milliseconds of mono 16 kHz audio.
    Transcribe,
    /// Text embeddings; cost in tokens.
    Embed,
    /// Query-document relevance; cost in tokens, the query counted once per document.
    Rerank,
    /// Text generation; scheduled per iteration, cost in tokens (prompt + reserve).
    Generate,
}

impl Op {
    /// Every operation, in display order.
    pub const ALL: [Op; 4] = [Op::Transcribe, Op::Embed, Op::Rerank, Op::Generate];

    /// The name used in profiles, snapshots and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Op::Transcribe => "transcribe",
            Op::Embed => "embed",
            Op::Rerank => "rerank",
            Op::Generate => "generate",
        }
    }

    /// The unit of this operation's cost, for people.
    pub fn cost_unit(self) -> &'static str {
        match self {
            Op::Transcribe => "ms audio",
            Op::Embed | Op::Rerank | Op::Generate => "tokens",
        }
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Which lane a request waits in. Recordings (more than 30 s of audio) run alone; everything else is a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Short work: packed into batches.
    Clips,
    /// Audio of more than 480 000 samples at 16 kHz: runs alone.
    Recordings,
}

impl Lane {
    /// The name used in snapshots, metrics and commands.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Clips => "clips",
            Lane::Recordings => "recordings",
        }
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
