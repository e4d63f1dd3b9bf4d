//! An operator's hands on single items.

use super::super::{BatchCaps, FlushReason, Former, ItemId, LaneRules, Micros, SliceWindows};
use super::{clip, former, recording, take};
use crate::control::{Lane, WaitCode};
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: u64 = 1_000_000;

fn code(former: &Former, id: u64) -> WaitCode {
    former.explain(ItemId(id), Micros(NOW)).expect("here").code
}

fn turns_left(former: &Former, id: u64) -> Option<u64> {
    former.explain(ItemId(id), Micros(NOW)).expect("here").turns_left
}

#[test]
fn a_held_item_is_out_of_the_queue_and_comes_back_to_its_place() {
    let mut former = former(720_000);
    for id in 1..4 {
        former.push(clip(id, 10, id));
    }
    assert!(former.hold(ItemId(1)) && !former.hold(ItemId(1)), "once");
    assert_eq!((code(&former, 1), former.len(), former.lane(Lane::Clips).cost), (WaitCode::Held, 2, 20));
    assert_eq!(former.explain(ItemId(1), Micros(NOW)).expect("held").position, None);
    assert_eq!(former.oldest(), Some(Micros(2)), "no window waits for it");
    assert!(!former.push(clip(1, 10, 9)), "its id is taken");
    assert!(former.release(ItemId(1)) && !former.release(ItemId(1)));
    assert_eq!(former.oldest(), Some(Micros(1)));
    assert_eq!(take(&mut former, NOW), [1, 2, 3]);
}

#[test]
fn held_alone_it_is_never_due() {
    let mut former = former(720_000);
    former.push(clip(1, 10, 0));
    former.hold(ItemId(1));
    assert_eq!((former.due(Micros(NOW), true), former.next_check(Micros(NOW))), (None, None));
    assert!(take(&mut former, NOW).is_empty());
    assert_eq!(former.remove(ItemId(1)).map(|item| item.id), Some(ItemId(1)));
    assert!(!former.release(ItemId(1)));
}

#[test]
fn a_held_item_expires_as_another_does() {
    let mut former = former(720_000);
    former.push(clip(1, 10, 0).until(Some(Micros(50))));
    former.push(clip(2, 10, 0).until(Some(Micros(90))));
    former.hold(ItemId(1));
    assert_eq!(former.next_deadline(), Some(Micros(50)));
    assert!(former.expire(Micros(49)).is_empty());
    assert_eq!(former.expire(Micros(50)).len(), 1);
    assert_eq!(former.next_deadline(), Some(Micros(90)));
}

#[test]
fn a_member_that_is_held_leaves_its_turn_for_good() {
    // A turn of three, batches of one, a recording behind it.
    let mut former = former(720_000);
    former.set_caps(BatchCaps { max_requests: 1, ..*former.caps() });
    for id in 1..4 {
        former.push(clip(id, id * 1_000, 0));
    }
    former.push(recording(9, 60_000, 0));
    assert_eq!(take(&mut former, NOW), [1]);
    former.hold(ItemId(2));
    former.release(ItemId(2));
    assert_eq!(former.turn().map(|turn| turn.members_left), Some(1), "it is owed, not a member again");
    assert_eq!(code(&former, 2), WaitCode::OwedNextTurn);
    assert_eq!(take(&mut former, NOW), [3]);
    assert_eq!(take(&mut former, NOW), [9]);
    assert_eq!(take(&mut former, NOW), [2]);
}

#[test]
fn the_last_member_that_is_held_ends_the_turn() {
    let mut former = former(720_000);
    former.set_caps(BatchCaps { max_requests: 1, ..*former.caps() });
    for id in 1..3 {
        former.push(clip(id, id * 1_000, 0));
    }
    former.push(recording(9, 60_000, 0));
    assert_eq!(take(&mut former, NOW), [1]);
    former.hold(ItemId(2));
    assert_eq!(former.turn(), None);
    assert_eq!(take(&mut former, NOW), [9]);
}

#[test]
fn what_comes_back_among_owed_clips_is_owed_with_them_and_the_bounds_say_so() {
    let mut former = former(10_000);
    for (id, cost) in [(1, 9_000), (2, 9_000), (3, 500)] {
        former.push(clip(id, cost, id));
    }
    former.push(recording(9, 60_000, 0));
    assert_eq!(take(&mut former, NOW), [9]);
    former.push(recording(10, 60_000, 4));
    // The turn has no room for both dear ones: the second is passed over.
    assert_eq!(take(&mut former, NOW), [3, 1]);
    assert_eq!(turns_left(&former, 2), Some(1));
    // One that came before all of them and was held since.
    let mut other = former.clone();
    other.push(clip(20, 9_000, 9));
    assert!(other.hold(ItemId(20)));
    assert!(other.release(ItemId(20)));
    assert_eq!((turns_left(&other, 2), turns_left(&other, 20)), (Some(1), Some(3)), "younger: behind");
    former.move_to(ItemId(10), Lane::Clips);
    assert_eq!(code(&former, 10), WaitCode::CapReached, "the lane of recordings is empty: no turns");
}

#[test]
fn a_recording_among_the_clips_goes_whole_and_alone_above_the_cap() {
    let mut former = former(30_000);
    let windows = SliceWindows::Windows(std::num::NonZeroU32::MIN);
    former.set_rules(LaneRules { slice_windows: windows, ..*former.rules() });
    former.push(recording(1, 90_000, 0));
    former.push(clip(2, 1_000, 1));
    assert!(former.move_to(ItemId(1), Lane::Clips));
    assert_eq!((former.lane(Lane::Clips).pending, former.lane(Lane::Recordings).pending), (2, 0));
    let mut batches = Vec::new();
    while let Some(formed) = former.take(Micros(NOW), FlushReason::Timeout, usize::MAX) {
        assert_eq!(formed.slice, None);
        batches.push(formed.items.iter().map(|item| item.id.0).collect::<Vec<_>>());
        former.ran(formed.charge, Micros(1));
    }
    batches.sort();
    assert_eq!(batches, [[1], [2]]);
    assert!(!former.move_to(ItemId(1), Lane::Recordings), "it has gone");
}

#[test]
fn a_held_item_is_moved_and_stays_held() {
    let mut former = former(720_000);
    former.push(clip(1, 1_000, 0));
    former.hold(ItemId(1));
    assert!(former.move_to(ItemId(1), Lane::Recordings));
    assert!(take(&mut former, NOW).is_empty());
    former.release(ItemId(1));
    assert_eq!(former.lane(Lane::Recordings).pending, 1);
    assert_eq!(take(&mut former, NOW), [1]);
}

#[derive(Debug, Clone)]
enum Step {
    Push { cost: u64, recording: bool },
    Take,
    Hold(prop::sample::Index),
    Release(prop::sample::Index),
    Move(prop::sample::Index, bool),
    Remove(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u64..40_000, any::<bool>()).prop_map(|(cost, recording)| Step::Push { cost, recording }),
        3 => Just(Step::Take),
        2 => any::<prop::sample::Index>().prop_map(Step::Hold),
        2 => any::<prop::sample::Index>().prop_map(Step::Release),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, clips)| Step::Move(at, clips)),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    /// Whatever hands do, nothing is lost, nothing is served twice, nothing held is served, everything here is explained
    /// once, and a stated bound holds while no hand moves.
    #[test]
    fn hands_lose_nothing(steps in steps(), cap in 5_000u64..60_000, count in 1usize..4) {
        let mut former = former(cap);
        former.set_caps(BatchCaps { max_requests: count, ..*former.caps() });
        let (mut here, mut held) = (Vec::<u64>::new(), BTreeSet::<u64>::new());
        let served = |here: &mut Vec<u64>, held: &BTreeSet<u64>, id: u64| {
            assert!(!held.contains(&id), "{id} is held");
            let at = here.iter().position(|h| *h == id).expect("here, and not served before");
            here.remove(at);
        };
        for (id, step) in steps.into_iter().enumerate() {
            let id = id as u64;
            match step {
                Step::Push { cost, recording } => {
                    let item = if recording { super::recording(id, cost, id) } else { clip(id, cost, id) };
                    let came = former.push(item);
                    prop_assert!(came);
                    here.push(id);
                }
                Step::Take => take(&mut former, NOW).into_iter().for_each(|id| served(&mut here, &held, id)),
                _ if here.is_empty() => {}
                Step::Hold(at) => {
                    let id = *at.get(&here);
                    prop_assert_eq!(former.hold(ItemId(id)), held.insert(id));
                }
                Step::Release(at) => {
                    let id = *at.get(&here);
                    prop_assert_eq!(former.release(ItemId(id)), held.remove(&id));
                }
                Step::Move(at, clips) => {
                    let lane = if clips { Lane::Clips } else { Lane::Recordings };
                    prop_assert!(former.move_to(ItemId(*at.get(&here)), lane));
                }
                Step::Remove(at) => {
                    let id = here.remove(at.index(here.len()));
                    held.remove(&id);
                    prop_assert!(former.remove(ItemId(id)).is_some());
                }
            }
            let mut explained: Vec<u64> = former.explain_all(Micros(NOW)).iter().map(|e| e.id.0).collect();
            explained.sort_unstable();
            let mut all = here.clone();
            all.sort_unstable();
            prop_assert_eq!(explained, all);
            prop_assert_eq!(former.held().count(), held.len());
        }
        // Without another hand, each clip goes within the turns that are stated now.
        let stated: Vec<_> = former.explain_all(Micros(NOW)).into_iter().filter(|e| e.lane == Lane::Clips).collect();
        let (mut begun, mut last) = (0u64, former.turn().map(|turn| turn.number));
        while !former.is_empty() {
            let formed = former.take(Micros(NOW), FlushReason::Timeout, usize::MAX).expect("not empty");
            if formed.turn.is_some() && formed.turn != last {
                begun += 1;
                last = formed.turn;
            }
            for item in &formed.items {
                served(&mut here, &held, item.id.0);
                let bound = stated.iter().find(|e| e.id == item.id).and_then(|e| e.turns_left);
                if let Some(bound) = bound.filter(|_| formed.turn.is_some()) {
                    prop_assert!(begun <= bound, "{:?} in turn {begun}, {bound} stated", item.id);
                }
            }
            former.ran(formed.charge, Micros(1));
        }
        for id in std::mem::take(&mut held) {
            prop_assert!(former.release(ItemId(id)));
        }
        while !former.is_empty() {
            take(&mut former, NOW).into_iter().for_each(|id| served(&mut here, &held, id));
        }
        prop_assert!(here.is_empty());
    }
}
