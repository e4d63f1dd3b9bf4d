//! A small head for tests.

use crate::engine::models::gguf::testing::FileBuilder;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers between -0.5 and 0.5 that are the same in every run.
pub(crate) fn random(seed: u32, n: usize) -> Vec<f32> {
    let mut state = seed;
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..n).map(step).collect()
}

/// The file of a head for weights with this sha256.
pub(crate) fn head(sha256: &str, hidden: usize, inner: usize, tokens: &[i32]) -> FileBuilder {
    let (h, i) = (hidden as u64, inner as u64);
    let mut file = FileBuilder::new()
        .text("general.architecture", "mtp")
        .text("mtp.model.sha256", sha256)
        .u32("mtp.feed_forward_length", inner as u32)
        .f32("mtp.norm_epsilon", 1e-5)
        .i32s("mtp.tokens", tokens);
    let weights = [("from_hidden", h, h), ("from_token", h, h), ("gate", i, h), ("up", i, h), ("down", h, i)];
    for (seed, (name, out, input)) in (1..).zip(weights) {
        file = file.floats(&format!("{name}.weight"), &[out, input], &random(seed, (out * input) as usize));
    }
    for (seed, name) in (11..).zip(["hidden_norm", "token_norm", "inner_norm", "output_norm"]) {
        let around_one: Vec<f32> = random(seed, hidden).iter().map(|v| 1.0 + v / 4.0).collect();
        file = file.floats(&format!("{name}.weight"), &[h], &around_one);
    }
    file
}

/// A file in the temporary folder, gone when dropped.
pub(crate) struct Written(pub PathBuf);

impl Written {
    pub(crate) fn new(file: &FileBuilder) -> Written {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lanekeeper-head-{}-{n}.gguf", std::process::id()));
        std::fs::write(&path, file.build()).expect("a writable temp folder");
        Written(path)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the file is there");
    }
}
