//! Recordings in slices, and the lanes' shares of engine time.

use super::super::{
    BatchCaps, FlushReason, Formed, Former, ItemId, LaneRules, LaneWhy, Micros, SliceWindows, TurnKind, WINDOW_MS,
};
use super::{clip, former, recording};
use crate::control::{Lane, WaitCode};

pub(super) fn sliced(max_cost: u64, windows: u32, recordings_share: f64) -> Former {
    let mut former = former(max_cost);
    let slice_windows = SliceWindows::windows(windows).expect("at least one window");
    former.set_rules(LaneRules { slice_windows, recordings_share, ..LaneRules::default() });
    former
}

fn next(former: &mut Former, now: u64) -> Formed {
    former.take(Micros(now), FlushReason::Drain, usize::MAX).expect("something is pending")
}

fn ids(formed: &Formed) -> Vec<u64> {
    formed.items.iter().map(|item| item.id.0).collect()
}

/// The slice has run for `us`, and the recording goes back unless it is at its end.
fn slice_ran(former: &mut Former, formed: &Formed, us: u64) {
    former.ran(formed.charge, Micros(us));
    let slice = formed.slice.expect("recordings run in slices");
    let left = slice.item.cost.saturating_sub(u64::from(slice.windows.get()) * WINDOW_MS);
    if left > 0 {
        assert!(former.put_back(slice, left));
    }
}

#[test]
fn a_recording_goes_back_to_the_head_of_its_lane_with_what_is_left() {
    let mut former = sliced(720_000, 2, 0.5);
    former.push(recording(1, 150_000, 10));
    former.push(recording(2, 90_000, 10));
    let formed = next(&mut former, 20);
    assert_eq!((ids(&formed), formed.cost, formed.kind), (vec![1], 60_000, Some(TurnKind::Slice)));
    assert_eq!(formed.slice.expect("a slice").windows.get(), 2);
    assert_eq!(former.recording_turn().map(|turn| (turn.kind, turn.number)), Some((TurnKind::Slice, 1)));
    slice_ran(&mut former, &formed, 500);
    assert_eq!(former.recording_turn(), None);
    assert_eq!(former.lane(Lane::Recordings).cost, 180_000);
    let formed = next(&mut former, 30);
    assert_eq!((ids(&formed), formed.items[0].cost, formed.items[0].arrival), (vec![1], 90_000, Micros(10)));
    slice_ran(&mut former, &formed, 500);
    let formed = next(&mut former, 40);
    assert_eq!((ids(&formed), formed.cost), (vec![1], 30_000), "the last slice is what is left");
    slice_ran(&mut former, &formed, 500);
    assert_eq!(ids(&next(&mut former, 50)), vec![2]);
}

#[test]
fn a_recording_that_was_put_back_is_due_at_once_and_opens_no_window() {
    let mut former = sliced(720_000, 1, 0.5);
    former.set_caps(BatchCaps { wait: Micros::MAX, coalesce: Micros::MAX, ..*former.caps() });
    former.push(recording(1, 90_000, 0));
    assert_eq!(former.due(Micros(10), false), None);
    let formed = next(&mut former, 10);
    slice_ran(&mut former, &formed, 500);
    assert_eq!(former.due(Micros(11), false), Some(FlushReason::Resumed));
    assert_eq!(former.next_check(Micros(11)), Some(Micros::ZERO));
    assert_eq!(former.explain(ItemId(1), Micros(11)).expect("pending").code, WaitCode::SlotBusy);
    let formed = next(&mut former, 11);
    assert_eq!(former.due(Micros(12), false), None, "nothing is pending while it runs");
    former.ran(formed.charge, Micros(500));
    former.push(recording(2, 60_000, 13));
    assert_eq!(former.due(Micros(14), false), None, "one that never ran waits for its window");
}

#[test]
fn a_recording_put_aside_can_be_cancelled_and_can_expire() {
    let mut former = sliced(720_000, 1, 0.5);
    former.push(recording(1, 90_000, 0));
    former.push(recording(2, 90_000, 0).until(Some(Micros(400))));
    let formed = next(&mut former, 10);
    slice_ran(&mut former, &formed, 100);
    assert!(former.remove(ItemId(1)).is_some());
    let formed = next(&mut former, 10);
    assert_eq!(ids(&formed), vec![2]);
    slice_ran(&mut former, &formed, 100);
    assert_eq!(former.next_deadline(), Some(Micros(400)), "it keeps its deadline");
    assert_eq!(former.expire(Micros(400)).len(), 1);
    assert_eq!((former.len(), former.due(Micros(500), false)), (0, None));
    assert!(former.put_back(formed.slice.expect("a slice"), 0));
    assert_eq!(former.lane(Lane::Recordings).cost, 1, "costs are never zero");
    assert!(!former.put_back(formed.slice.expect("a slice"), 5), "it is pending already");
}

#[test]
fn with_level_balance_the_lanes_alternate() {
    let mut former = sliced(720_000, 1, 0.5);
    former.push(recording(1, 300_000, 0));
    let mut order = Vec::new();
    for n in 0..6 {
        former.push(clip(10 + n, 1_000, 1));
        let formed = next(&mut former, 5);
        order.push(formed.lane);
        match formed.lane {
            Lane::Recordings => slice_ran(&mut former, &formed, 700),
            Lane::Clips => former.ran(formed.charge, Micros(700)),
        }
    }
    use Lane::{Clips, Recordings};
    assert_eq!(order, vec![Recordings, Clips, Recordings, Clips, Recordings, Clips]);
}

#[test]
fn the_lane_behind_its_share_is_next() {
    // Slices of 100 ms, turns of 300 ms: level at 0.5 means three slices to a turn; at 0.7, seven; at 0.1, three
    // turns to a slice.
    for (share, slices, turns) in [(0.5, 75.0, 25.0), (0.7, 87.5, 12.5), (0.1, 25.0, 75.0)] {
        // One clip fills a turn, and there are always more.
        let mut former = sliced(1_000, 1, share);
        former.push(recording(1, 300_000_000, 0));
        let (mut seen, mut reasons) = ((0.0, 0.0), 0);
        for n in 0..110 {
            former.push(clip(10 + n, 1_000, 1));
        }
        for _ in 0..100 {
            let formed = next(&mut former, 5);
            reasons += usize::from(formed.because == LaneWhy::BehindShare);
            match formed.lane {
                Lane::Recordings => {
                    seen.0 += 1.0;
                    slice_ran(&mut former, &formed, 100_000);
                }
                Lane::Clips => {
                    seen.1 += 1.0;
                    former.ran(formed.charge, Micros(300_000));
                }
            }
        }
        assert!(f64::abs(seen.0 - slices) < 3.0 && f64::abs(seen.1 - turns) < 3.0, "{share}: {seen:?}");
        assert!(reasons > 20, "{share}: {reasons}");
    }
}

#[test]
fn at_the_ends_a_share_is_a_priority() {
    for (share, first) in [(0.0, Lane::Clips), (1.0, Lane::Recordings)] {
        let mut former = sliced(720_000, 1, share);
        former.push(recording(1, 300_000, 0));
        for n in 0..5 {
            former.push(clip(10 + n, 1_000, 1));
            let formed = next(&mut former, 5);
            assert_eq!(formed.lane, first);
            match formed.lane {
                Lane::Recordings => slice_ran(&mut former, &formed, 100),
                Lane::Clips => former.ran(formed.charge, Micros(100)),
            }
        }
    }
}

#[test]
fn two_dispatches_in_a_row_do_not_go_to_one_lane_by_stale_figures() {
    // One clip fills a turn.
    let mut former = sliced(1_000, 1, 0.5);
    former.push(recording(1, 300_000, 0));
    former.push(recording(2, 300_000, 0));
    for id in 10..15 {
        former.push(clip(id, 1_000, 1));
    }
    // Each lane is measured once.
    let slice = next(&mut former, 2);
    slice_ran(&mut former, &slice, 300_000);
    let turn = next(&mut former, 2);
    former.ran(turn.charge, Micros(100_000));
    assert_eq!(former.share().behind, Some((Lane::Clips, Micros(200_000))));
    let third = next(&mut former, 3);
    assert_eq!((third.lane, third.charge.estimate), (Lane::Clips, Micros(100_000)));
    let fourth = next(&mut former, 3);
    assert_eq!(fourth.lane, Lane::Clips, "still behind by 100 ms");
    assert_eq!(next(&mut former, 3).lane, Lane::Recordings, "what is out has been charged: level, and clips went last");
    assert_eq!(former.share().behind, Some((Lane::Clips, Micros(300_000))));
    // The fourth took less than thought: corrected, clips are further behind. The third never ran at all.
    former.ran(fourth.charge, Micros(40_000));
    assert_eq!(former.share().behind, Some((Lane::Clips, Micros(360_000))));
    former.ran(third.charge, Micros::ZERO);
    assert_eq!(former.share().behind, Some((Lane::Clips, Micros(460_000))));
}

#[test]
fn an_idle_lane_saves_up_one_turn_at_most() {
    let mut former = sliced(720_000, 1, 0.5);
    former.push(recording(1, 60_000, 0));
    let formed = next(&mut former, 1);
    slice_ran(&mut former, &formed, 100_000);
    let formed = next(&mut former, 1);
    slice_ran(&mut former, &formed, 100_000);
    // No recordings: clips run for a long time.
    for n in 0..50 {
        former.push(clip(10 + n, 1_000, 1));
        let formed = next(&mut former, 2);
        former.ran(formed.charge, Micros(100_000));
    }
    assert_eq!(former.share().behind, Some((Lane::Recordings, Micros(100_000))), "one turn, not fifty");
    former.push(recording(2, 300_000, 3));
    let mut order = Vec::new();
    for n in 0..4 {
        former.push(clip(100 + n, 1_000, 3));
        let formed = next(&mut former, 4);
        order.push(formed.lane);
        match formed.lane {
            Lane::Recordings => slice_ran(&mut former, &formed, 100_000),
            Lane::Clips => former.ran(formed.charge, Micros(100_000)),
        }
    }
    use Lane::{Clips, Recordings};
    assert_eq!(order, vec![Recordings, Clips, Recordings, Clips]);
}

#[test]
fn without_slices_the_share_has_no_effect_and_says_so() {
    let mut former = former(720_000);
    former.set_rules(LaneRules { recordings_share: 0.9, ..LaneRules::default() });
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    let formed = next(&mut former, 1);
    assert_eq!((formed.slice, formed.kind), (None, Some(TurnKind::Recording)));
    former.ran(formed.charge, Micros(1));
    former.push(clip(3, 1_000, 1));
    assert_eq!(ids(&next(&mut former, 1)), vec![3], "the lanes alternate although recordings had nearly nothing");
    let view = former.share();
    assert_eq!((view.recordings, view.in_effect, view.behind), (0.9, false, None));
    assert_eq!(view.recordings_ran, Micros(1), "measured all the same");
    former.set_rules(LaneRules { slice_windows: SliceWindows::windows(1).expect("one"), ..*former.rules() });
    assert!(former.share().in_effect);
    assert_eq!(former.share().behind, None, "and both lanes begin level");
}

#[test]
fn a_new_share_begins_level_whatever_is_still_out() {
    let mut former = sliced(720_000, 1, 0.5);
    former.push(recording(1, 300_000, 0));
    former.push(clip(2, 1_000, 1));
    let formed = next(&mut former, 2);
    former.set_rules(LaneRules { recordings_share: 0.7, ..*former.rules() });
    slice_ran(&mut former, &formed, 900_000);
    assert_eq!(former.share().behind, None, "it was dispatched under the old share");
    let formed = next(&mut former, 2);
    assert_eq!((formed.lane, formed.because), (Lane::Clips, LaneWhy::Alternation));
    former.ran(formed.charge, Micros(100_000));
    let behind = former.share().behind;
    assert_eq!(behind.map(|(lane, _)| lane), Some(Lane::Recordings));
    former.set_rules(LaneRules { keep_owed: true, ..*former.rules() });
    assert_eq!(former.share().behind, behind, "other rules leave the balance alone");
}

#[test]
fn a_recording_in_the_middle_of_its_slices_is_about() {
    let mut former = sliced(30_000, 1, 0.5);
    former.push(recording(1, 90_000, 0));
    former.push(clip(10, 30_000, 1));
    former.push(clip(11, 20_000, 2));
    let slice = next(&mut former, 3);
    // While it runs nothing of its lane is pending; turns and what they owe go on all the same.
    assert_eq!(ids(&next(&mut former, 4)), vec![11]);
    former.push(clip(12, 5_000, 5));
    let turn = next(&mut former, 6);
    assert_eq!((ids(&turn), turn.kind), (vec![10], Some(TurnKind::Clips)));
    assert_eq!(former.explain(ItemId(12), Micros(6)).expect("pending").turns_left, Some(1));
    slice_ran(&mut former, &slice, 100);
}

#[test]
fn an_estimate_that_is_far_off_leaves_no_trace_when_its_batch_has_run() {
    let mut former = sliced(720_000, 1, 0.5);
    // Short clips are dear for their length: by their rate a window would take a hundred times what it does.
    for id in 1..=3 {
        former.push(clip(id, 1_000, id * 1_000_000));
        let formed = next(&mut former, id * 1_000_000 + 20_000);
        former.ran(formed.charge, Micros(500_000));
    }
    former.push(recording(10, 120_000, 5_000_000));
    let slice = next(&mut former, 5_020_000);
    // It comes while the slice is out and the lane of clips is idle: what that saves is bounded just then.
    former.push(clip(11, 1_000, 5_100_000));
    slice_ran(&mut former, &slice, 600_000);
    let formed = next(&mut former, 5_700_000);
    assert_eq!((ids(&formed), formed.because), (vec![11], LaneWhy::BehindShare));
    former.ran(formed.charge, Micros(500_000));
    former.push(clip(12, 1_000, 6_300_000));
    assert_eq!(ids(&next(&mut former, 6_320_000)), vec![12], "500 ms of clips are less than 600 ms of recordings");
}
