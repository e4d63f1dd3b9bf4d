//! The promise on waiting: a clip is served within the turns that the former states for it, and n + 1 turns at most.

use super::super::{AUDIO_HARD_CAP_MS, BatchCaps, FlushReason, Former, Micros};
use super::{clip, recording};
use crate::control::Lane;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_clip_is_served_within_the_stated_turns(
        cap in prop::sample::select(vec![4_096u64, 16_384, 65_536, 180_000, 720_000]),
        arrivals in prop::collection::vec(prop::collection::vec(1_000u64..=30_000, 0..4), 1..300),
    ) {
        let caps = BatchCaps { max_cost: cap, hard_cost: Some(AUDIO_HARD_CAP_MS), ..BatchCaps::default() };
        let mut former = Former::new(caps);
        let (mut id, mut turns, mut last_turn) = (0u64, 0u64, None);
        // By clip: the last turn in which it may still be served, by any statement made about it so far.
        let mut promised: BTreeMap<u64, u64> = BTreeMap::new();
        let mut arrived: BTreeMap<u64, u64> = BTreeMap::new();
        // n: itself and the older clips still pending when the first turn that began after its arrival ends.
        let mut n: BTreeMap<u64, u64> = BTreeMap::new();
        for (now, costs) in arrivals.into_iter().enumerate() {
            let now = Micros(now as u64 * 20_000);
            for cost in costs {
                if former.lane(Lane::Clips).pending < 40 {
                    id += 1;
                    former.push(clip(id, cost, now.0));
                    arrived.insert(id, turns);
                }
            }
            if former.lane(Lane::Recordings).pending == 0 {
                id += 1;
                former.push(recording(id, 60_000, now.0));
            }
            for e in former.explain_all(now).iter().filter(|e| e.lane == Lane::Clips) {
                let until = turns + e.turns_left.expect("a recording is pending, so there are turns");
                let promise = promised.entry(e.id.0).or_insert(until);
                *promise = until.min(*promise);
            }
            let Some(formed) = former.take(now, FlushReason::Timeout, usize::MAX) else { continue };
            if formed.turn.is_some() && formed.turn != last_turn {
                turns += 1;
                last_turn = formed.turn;
            }
            if formed.lane == Lane::Clips {
                for item in &formed.items {
                    let id = item.id.0;
                    prop_assert!(turns <= promised[&id], "clip {} came in turn {turns} > {}", id, promised[&id]);
                    let bound = n.get(&id).copied().unwrap_or(0) + 1;
                    prop_assert!(turns - arrived[&id] <= bound, "clip {id} waited for more than {bound} turns");
                }
                if former.turn().is_none() {
                    let mut clips: Vec<_> =
                        former.explain_all(now).into_iter().filter(|e| e.lane == Lane::Clips).collect();
                    clips.sort_by_key(|e| (e.arrival, e.id));
                    for (older, e) in clips.iter().enumerate() {
                        if arrived[&e.id.0] < turns {
                            n.entry(e.id.0).or_insert(older as u64 + 1);
                        }
                    }
                }
            }
        }
    }
}
