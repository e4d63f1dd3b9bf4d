//! The rules of when a batch is due, in their order and at their edges.

use super::super::{BatchCaps, FlushReason, Former, ItemId, Micros};
use super::{clip, former, recording, take};
use FlushReason::{Coalesce, CostCap, CountCap, IdleBypass, SingleOversize, Timeout};

fn due(former: &Former, now: u64) -> Option<FlushReason> {
    former.due(Micros(now), false)
}

#[test]
fn nothing_pending_is_never_due() {
    let former = former(10);
    assert_eq!(former.due(Micros::MAX, true), None);
    assert_eq!(former.next_check(Micros(7)), None);
}

#[test]
fn a_single_item_at_the_cap_is_a_full_batch_not_an_oversize() {
    let mut former = former(10_000);
    former.push(clip(1, 10_000, 0));
    assert_eq!(due(&former, 0), Some(CostCap));
    former.remove(ItemId(1));
    former.push(clip(2, 10_001, 0));
    assert_eq!(due(&former, 0), Some(SingleOversize));
    former.push(clip(3, 1, 0));
    assert_eq!(due(&former, 0), Some(CostCap), "two pending: no longer single");
}

#[test]
fn the_count_cap_counts_both_lanes() {
    let mut former = former(720_000);
    for id in 0..11 {
        former.push(clip(id, 10, 0));
    }
    assert_eq!(due(&former, 0), None);
    former.push(recording(11, 40_000, 0));
    assert_eq!(due(&former, 0), Some(CountCap));
}

#[test]
fn windows_close_at_their_time_not_before() {
    let mut former = former(720_000);
    former.push(clip(1, 10, 1_000));
    assert_eq!(due(&former, 5_999), None);
    assert_eq!(former.next_check(Micros(2_000)), Some(Micros(4_000)));
    assert_eq!(due(&former, 6_000), Some(Coalesce));
    assert_eq!(former.next_check(Micros(6_000)), Some(Micros::ZERO));
    for (id, at) in [(2, 5_000), (3, 9_000), (4, 13_000)] {
        former.push(clip(id, 10, at));
    }
    assert_eq!(due(&former, 15_999), None, "submissions keep the coalesce window open");
    assert_eq!(former.next_check(Micros(15_999)), Some(Micros(1)));
    assert_eq!(due(&former, 16_000), Some(Timeout));
    assert_eq!(former.next_check(Micros(99_000)), Some(Micros::ZERO), "never negative");
}

#[test]
fn idle_bypass_is_asked_last_and_only_where_it_is_on() {
    let mut former = former(720_000);
    former.push(clip(1, 10, 0));
    assert_eq!(former.due(Micros(0), true), None);
    former.set_caps(BatchCaps { idle_bypass: true, ..*former.caps() });
    assert_eq!(former.due(Micros(0), true), Some(IdleBypass));
    assert_eq!(former.due(Micros(0), false), None);
    assert_eq!(former.due(Micros(5_000), true), Some(Coalesce));
}

#[test]
fn an_infinite_wait_does_not_spin_and_does_not_overflow() {
    let mut former = former(720_000);
    former.set_caps(BatchCaps { wait: Micros::MAX, coalesce: Micros::MAX, ..*former.caps() });
    former.push(clip(1, 10, 5));
    assert_eq!(former.next_check(Micros(9)), Some(Micros::MAX));
    assert_eq!(former.next_check(Micros::MAX), Some(Micros::MAX));
    assert_eq!(due(&former, u64::MAX - 1), None);
    former.set_caps(BatchCaps { wait: Micros::ZERO, ..*former.caps() });
    assert_eq!(due(&former, 5), Some(Timeout));
}

#[test]
fn a_lowered_cap_makes_what_is_pending_due() {
    let mut former = former(720_000);
    former.push(clip(1, 9_000, 0));
    former.push(clip(2, 9_000, 0));
    assert_eq!(due(&former, 0), None);
    former.set_caps(BatchCaps { max_cost: 18_000, ..*former.caps() });
    assert_eq!(due(&former, 0), Some(CostCap));
}

#[test]
fn timers_are_anchored_to_what_remains_in_arrival_order() {
    let mut former = former(20_000);
    // The dear one is the oldest; the cheap ones go first (their sum leaves no room for it).
    former.push(clip(1, 15_000, 1_000));
    former.push(clip(2, 4_000, 3_000));
    former.push(clip(3, 9_000, 2_000));
    assert_eq!(take(&mut former, 3_000), vec![2, 3]);
    assert_eq!(former.oldest(), Some(Micros(1_000)));
    assert_eq!(due(&former, 5_999), None);
    assert_eq!(due(&former, 6_000), Some(Coalesce), "last submit is the remaining item's own arrival");
    assert_eq!(take(&mut former, 6_000), vec![1]);
    assert_eq!(former.oldest(), None, "cleared when empty");
    assert_eq!(former.next_check(Micros(6_000)), None);
}

#[test]
fn the_reason_is_the_one_before_the_extraction() {
    let mut former = former(10_000);
    for id in 0..3 {
        former.push(clip(id, 5_000, 0));
    }
    let formed = former.poll(Micros(0), false, usize::MAX).expect("due");
    assert_eq!((formed.why, formed.items.len()), (CostCap, 2));
    assert_eq!(due(&former, 0), None);
    assert!(former.poll(Micros(0), false, usize::MAX).is_none());
}
