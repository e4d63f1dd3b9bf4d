//! Why an item waits.

use super::super::{Former, ItemId, Micros};
use super::{clip, former, recording, take};
use crate::control::WaitCode;

fn why(former: &Former, id: u64, now: u64) -> (WaitCode, u64, Option<u64>) {
    let e = former.explain(ItemId(id), Micros(now)).expect("pending");
    (e.code, e.position.expect("in line"), e.turns_left)
}

#[test]
fn alone_it_waits_for_the_window_and_then_for_a_slot() {
    let mut former = former(720_000);
    former.push(clip(1, 1_000, 0));
    assert_eq!(why(&former, 1, 1_000), (WaitCode::WindowOpen, 1, None));
    assert_eq!(why(&former, 1, 6_000), (WaitCode::SlotBusy, 1, None));
    assert_eq!(former.explain(ItemId(2), Micros(0)), None);
}

#[test]
fn beyond_the_caps_it_waits_for_a_later_batch() {
    let mut former = former(20_000);
    for id in 1..4 {
        former.push(clip(id, 10_000, 0));
    }
    assert_eq!(why(&former, 2, 1), (WaitCode::SlotBusy, 2, None));
    assert_eq!(why(&former, 3, 1), (WaitCode::CapReached, 3, None));
}

#[test]
fn lanes_and_turns_are_told_apart() {
    let mut former = former(40_000);
    for id in 1..4 {
        former.push(recording(id, 60_000, 0));
    }
    former.push(clip(10, 30_000, 1));
    former.push(clip(11, 20_000, 2));
    former.push(clip(12, 20_000, 3));
    // The recording is next.
    assert_eq!(why(&former, 1, 4), (WaitCode::SlotBusy, 1, Some(0)));
    assert_eq!(why(&former, 2, 4), (WaitCode::TurnOfOtherLane, 2, Some(1)));
    assert_eq!(why(&former, 11, 4).0, WaitCode::TurnOfOtherLane);
    assert_eq!(take(&mut former, 4), vec![1]);
    // A turn is about to begin.
    assert_eq!(why(&former, 2, 5), (WaitCode::TurnOfOtherLane, 1, Some(1)));
    assert_eq!(why(&former, 11, 5), (WaitCode::SlotBusy, 1, Some(3)));
    assert_eq!(why(&former, 10, 5), (WaitCode::NotInThisTurn, 3, Some(2)));
    assert_eq!(former.take(Micros(5), super::FlushReason::Timeout, 1).expect("pending").items[0].id, ItemId(11));
    // It is under way: 12 is a member, 10 was passed over, 13 came too late.
    former.push(clip(13, 1_000, 6));
    assert_eq!(why(&former, 12, 6), (WaitCode::SlotBusy, 1, Some(0)));
    assert_eq!(why(&former, 10, 6), (WaitCode::OwedNextTurn, 2, Some(1)));
    assert_eq!(why(&former, 13, 6), (WaitCode::NotInThisTurn, 3, Some(3)));
}
