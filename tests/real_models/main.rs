//! Tests on real weights. They need the models of the `demo` profile in a cache folder that `LANEKEEPER_TEST_MODELS` names
//! (`lanekeeper pull --profile demo` fills `~/.cache/lanekeeper`). A missing file is a failure, not a skip.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, in its helpers too")]

mod llm;
mod text;
mod whisper;

use lanekeeper::profile::{Env, FileRole, ModelProfile, load_model};
use lanekeeper::pull::{PullOptions, pull};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A shipped model profile and its files.
fn model(name: &str) -> (ModelProfile, BTreeMap<FileRole, PathBuf>) {
    let cache = std::env::var("LANEKEEPER_TEST_MODELS")
        .expect("LANEKEEPER_TEST_MODELS must name a cache folder with the demo models (scripts/test fills one)");
    let mut options = PullOptions::from_env(&Env::from_pairs([("LANEKEEPER_CACHE", cache.as_str())]));
    options.offline = true;
    let profile = load_model(name, &Env::empty(), &[]).expect("shipped profiles are sound").value;
    let files = pull(&profile, &options, &mut |_| {}).unwrap_or_else(|error| panic!("in {cache}: {error}"));
    (profile, files)
}
