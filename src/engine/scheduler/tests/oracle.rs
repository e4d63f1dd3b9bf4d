//! 1 200 random runs against digests that `tests/reference/lanes.py` wrote: same arrivals, same batches.
//!
//! When one differs, `python3 tests/reference/lanes.py CAP on|off SEED` prints what was expected.

use super::super::{AUDIO_HARD_CAP_MS, BatchCaps, FlushReason, Former, Micros, Order};
use super::{clip, recording};
use serde_json::Value;

/// The generator of `draws` in the script.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// FNV-1a over 64-bit words.
struct Digest(u64);

impl Digest {
    fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn run(cap: u64, ageing: bool, seed: u64, steps: u64) -> String {
    let caps =
        BatchCaps { max_cost: cap, hard_cost: Some(AUDIO_HARD_CAP_MS), aged_promotion: ageing, ..BatchCaps::default() };
    let mut former = Former::new(caps);
    let mut draw = Draws(seed * 1_000_003 + cap + u64::from(ageing));
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    let (mut now, mut ids) = (0, 0..);
    for _ in 0..steps {
        now += draw.next() % 10_000;
        let kind = draw.next() % 10;
        if kind < 6 {
            let id = ids.next().unwrap_or_default();
            let item = match kind {
                0 | 1 => recording(id, 30_001 + draw.next() % 270_000, now),
                _ => clip(id, 1_000 + draw.next() % 29_001, now),
            };
            assert!(former.push(item));
        }
        if draw.next().is_multiple_of(2) {
            continue;
        }
        let max_items = [usize::MAX, 1, 3][(draw.next() % 3) as usize];
        let Some(formed) = former.take(Micros(now), FlushReason::Drain, max_items) else { continue };
        digest.word(match formed.order {
            Order::Recording => 0,
            Order::Turn => 1,
            Order::Cost => 2,
            Order::Aged => 3,
        });
        digest.word(formed.items.len() as u64);
        formed.items.iter().for_each(|item| digest.word(item.id.0));
    }
    format!("{:016x}", digest.0)
}

#[test]
fn the_batches_are_those_of_the_reference() {
    let text = include_str!("../../../../tests/reference/lanes.json");
    let reference: Value = serde_json::from_str(text).expect("the file is JSON");
    let steps = reference["steps"].as_u64().expect("a number");
    let mut runs = 0;
    for group in reference["runs"].as_array().expect("a list") {
        let cap = group["cap"].as_u64().expect("a number");
        let ageing = group["ageing"].as_bool().expect("true or false");
        for (seed, expected) in (0u64..).zip(group["digests"].as_array().expect("a list")) {
            assert_eq!(run(cap, ageing, seed, steps), *expected, "cap {cap}, ageing {ageing}, seed {seed}");
            runs += 1;
        }
    }
    assert_eq!(runs, 1_200);
}
