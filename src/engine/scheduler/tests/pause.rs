//! A lane that an operator holds.

use super::super::{FlushReason, Former, ItemId, LaneRules, LaneWhy, Micros, Paused};
use super::{clip, former, recording, take};
use crate::control::{Lane, WaitCode};

const NOW: u64 = 1_000_000;

fn pause(former: &mut Former, clips: bool, recordings: bool) {
    former.set_rules(LaneRules { paused: Paused { clips, recordings }, ..*former.rules() });
}

fn code(former: &Former, id: u64) -> WaitCode {
    former.explain(ItemId(id), Micros(NOW)).expect("pending").code
}

#[test]
fn a_paused_lane_keeps_its_items_and_says_so() {
    let mut former = former(720_000);
    former.push(clip(1, 10, 0));
    former.push(recording(2, 60_000, 0));
    pause(&mut former, true, true);
    assert_eq!((code(&former, 1), code(&former, 2)), (WaitCode::LanePaused, WaitCode::LanePaused));
    assert_eq!(former.preview(Micros(NOW)), None);
    assert!(take(&mut former, NOW).is_empty());
    assert_eq!(former.len(), 2);
    pause(&mut former, false, false);
    assert_eq!(take(&mut former, NOW), vec![1], "submitted first");
}

#[test]
fn a_paused_lane_is_never_due_and_wakes_nobody() {
    let mut former = former(720_000);
    for id in 0..20 {
        former.push(clip(id, 30_000, 0));
    }
    pause(&mut former, true, false);
    assert_eq!(former.due(Micros(NOW), true), None);
    assert_eq!(former.next_check(Micros(NOW)), None, "a window that closes changes nothing");
    assert_eq!(former.oldest(), None);
    // The other lane has its own windows: neither the many clips nor their age count for it.
    former.push(recording(99, 60_000, NOW));
    assert_eq!(former.due(Micros(NOW), false), None);
    assert_eq!(former.next_check(Micros(NOW)), Some(Micros(5_000)));
    assert_eq!(former.due(Micros(NOW + 5_000), false), Some(FlushReason::Coalesce));
}

#[test]
fn a_paused_lane_does_not_hold_back_the_other() {
    let mut paused = former(720_000);
    for id in 1..4 {
        paused.push(recording(id, 60_000, id));
        paused.push(clip(10 + id, 1_000, id));
    }
    pause(&mut paused, true, false);
    let formed = paused.take(Micros(9), FlushReason::Timeout, usize::MAX).expect("recordings run");
    assert_eq!((formed.items[0].id, formed.because), (ItemId(1), LaneWhy::OtherPaused));
    assert_eq!(take(&mut paused, 9), vec![2], "one after the other, with no turn of clips between");
    assert_eq!(code(&paused, 3), WaitCode::SlotBusy);

    let mut paused = former(720_000);
    for id in 1..4 {
        paused.push(recording(id, 60_000, id));
        paused.push(clip(10 + id, 1_000, id));
    }
    pause(&mut paused, false, true);
    assert_eq!(take(&mut paused, 9), vec![11, 12, 13]);
    assert_eq!(paused.turn(), None, "no turns while recordings are held");
    assert_eq!(code(&paused, 1), WaitCode::LanePaused);
}

#[test]
fn a_turn_of_a_paused_lane_goes_on_when_it_is_let_go() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..24 {
        former.push(clip(id, 5_000, 1));
    }
    take(&mut former, 2);
    assert_eq!(take(&mut former, 2).len(), 12);
    pause(&mut former, true, false);
    assert_eq!(take(&mut former, 2), vec![2], "the turn is held, the recordings go on");
    pause(&mut former, false, false);
    former.push(clip(30, 1, 3));
    assert_eq!(take(&mut former, 3), vec![22, 23], "its members, not the newcomer");
}

#[test]
fn a_pause_of_recordings_forgets_nothing_that_is_owed() {
    let mut former = former(30_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    former.push(clip(10, 30_000, 1));
    former.push(clip(11, 20_000, 2));
    assert_eq!(take(&mut former, 3), vec![1]);
    assert_eq!(take(&mut former, 3), vec![11]);
    assert_eq!(former.owed(9).iter().map(|owed| (owed.id.0, owed.turns_left)).collect::<Vec<_>>(), vec![(10, 1)]);
    pause(&mut former, false, true);
    former.push(clip(12, 5_000, 4));
    assert_eq!(take(&mut former, 5), vec![12]);
    pause(&mut former, false, false);
    former.push(clip(13, 5_000, 6));
    assert_eq!(take(&mut former, 7), vec![2]);
    assert_eq!(take(&mut former, 7), vec![10], "owed before the pause, owed after it");
    assert_eq!(former.lane(Lane::Clips).pending, 1);
}
