//! What a first version gets wrong, one test each.

use super::super::{
    Adaptive, BatchCaps, ControllerSettings, CostLayers, FlushReason, Former, ItemId, LaneRules, Micros, Order,
};
use super::{clip, former, recording, take};
use crate::control::Lane;

const NOW: u64 = 1_000_000;

#[test]
fn equal_costs_keep_arrival_order() {
    let mut former = former(720_000);
    for id in [3, 1, 2] {
        former.push(clip(id, 7_000, id * 10));
    }
    assert_eq!(take(&mut former, 100), vec![1, 2, 3]);
    for id in [6, 4, 5] {
        former.push(clip(id, 7_000, 50));
    }
    assert_eq!(take(&mut former, 100), vec![6, 4, 5], "same instant: order of submission");
}

#[test]
fn max_items_bounds_even_the_first_and_zero_takes_nothing() {
    let mut former = former(720_000);
    former.push(clip(1, 9_000, 0));
    former.push(recording(2, 60_000, 1));
    former.push(clip(3, 1_000, 2));
    assert!(former.take(Micros(3), FlushReason::Timeout, 0).is_none());
    assert!(former.turn().is_none(), "taking nothing begins no turn");
    let formed = former.take(Micros(3), FlushReason::Timeout, 1).expect("pending");
    assert_eq!(formed.items[0].id, ItemId(3));
    assert_eq!(former.turn().expect("one member is left").members_left, 1);
}

#[test]
fn an_item_dearer_than_the_cap_travels_alone() {
    let mut former = former(4_096);
    former.push(clip(1, 30_000, 0));
    former.push(clip(2, 4_096, 0));
    former.push(clip(3, 1, 0));
    assert_eq!(take(&mut former, 1), vec![3]);
    assert_eq!(take(&mut former, 1), vec![2]);
    assert_eq!(take(&mut former, 1), vec![1]);
}

#[test]
fn an_aged_item_goes_first_and_the_rest_stays_in_cost_order() {
    let mut former = former(20_000);
    former.push(clip(1, 15_000, 0));
    former.push(clip(2, 4_000, 5_000));
    former.push(clip(3, 3_000, 5_000));
    former.push(clip(4, 1_000, 5_000));
    let formed = former.take(Micros(15_000), FlushReason::Timeout, usize::MAX).expect("pending");
    assert_eq!(formed.order, Order::Aged);
    assert_eq!(formed.items.iter().map(|i| i.id.0).collect::<Vec<_>>(), vec![1, 4, 3]);
    assert_eq!(take(&mut former, 15_000), vec![2]);
}

#[test]
fn ageing_does_not_promote_inside_a_turn() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    former.push(clip(3, 30_000, 0));
    former.push(clip(4, 1_000, 1));
    assert_eq!(take(&mut former, NOW), vec![1]);
    assert_eq!(take(&mut former, NOW), vec![4, 3], "cost order although both waited for ages");
}

#[test]
fn the_first_lane_is_that_of_the_oldest_item() {
    let mut former1 = former(720_000);
    former1.push(clip(1, 1_000, 0));
    former1.push(recording(2, 60_000, 1));
    assert_eq!(take(&mut former1, 2), vec![1]);
    let mut former2 = former(720_000);
    former2.push(recording(2, 60_000, 0));
    former2.push(clip(1, 1_000, 1));
    assert_eq!(take(&mut former2, 2), vec![2]);
}

#[test]
fn one_recording_between_two_turns_in_arrival_order() {
    let mut former = former(720_000);
    for (id, at) in [(10, 3), (11, 1), (12, 2)] {
        former.push(recording(id, 60_000, at));
    }
    let mut order = Vec::new();
    for id in 0..3 {
        former.push(clip(id, 1_000, 4 + id));
        order.extend(take(&mut former, NOW));
        order.extend(take(&mut former, NOW));
    }
    assert_eq!(order, vec![11, 0, 12, 1, 10, 2]);
}

#[test]
fn a_clip_that_arrives_during_a_turn_waits_for_the_next_however_cheap() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..23 {
        former.push(clip(id, 5_000, 1));
    }
    assert_eq!(take(&mut former, 2), vec![1]);
    assert_eq!(take(&mut former, 2).len(), 12, "the count cap bounds the batch, not the turn");
    former.push(clip(99, 1, 3));
    assert_eq!(take(&mut former, 4), vec![22], "the turn goes on although a recording is older and 99 is cheaper");
    assert_eq!(take(&mut former, 4), vec![2]);
    assert_eq!(take(&mut former, 4), vec![99]);
}

#[test]
fn the_cost_cap_limits_the_whole_turn() {
    let mut former = former(60_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..40 {
        former.push(clip(id, 4_000, 1));
    }
    take(&mut former, 2);
    assert_eq!(take(&mut former, 2).len(), 12);
    assert_eq!(take(&mut former, 2).len(), 3, "15 clips of 4 s fill the turn's 60 s");
    assert_eq!(take(&mut former, 2), vec![2]);
}

#[test]
fn owed_is_chosen_by_age_but_served_by_cost() {
    let mut former = former(40_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    former.push(recording(3, 60_000, 0));
    former.push(clip(10, 30_000, 1));
    former.push(clip(11, 20_000, 2));
    former.push(clip(12, 20_000, 3));
    assert_eq!(take(&mut former, 4), vec![1]);
    assert_eq!(take(&mut former, 4), vec![11, 12], "the 30-s clip is passed over");
    former.push(clip(13, 9_000, 5));
    former.push(clip(14, 1_000, 6));
    assert_eq!(take(&mut former, 7), vec![2]);
    assert_eq!(take(&mut former, 7), vec![14, 13, 10], "it is owed, and still goes last in its batch");
}

#[test]
fn an_oversize_owed_clip_is_the_turn() {
    let mut former = former(10_000);
    for id in 1..4 {
        former.push(recording(id, 60_000, 0));
    }
    former.push(clip(10, 25_000, 1));
    former.push(clip(11, 10_000, 2));
    former.push(clip(12, 10_000, 3));
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(take(&mut former, 4));
    }
    assert_eq!(order, vec![vec![1], vec![11], vec![2], vec![10], vec![3], vec![12]]);
}

#[test]
fn the_turn_after_the_last_recording_is_still_a_turn() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(clip(2, 9_000, 1));
    former.push(clip(3, 1_000, 2));
    take(&mut former, NOW);
    let formed = former.take(Micros(NOW), FlushReason::Timeout, usize::MAX).expect("clips are pending");
    assert_eq!((formed.order, formed.turn), (Order::Turn, Some(1)));
    former.push(clip(4, 1_000, 2));
    let formed = former.take(Micros(NOW), FlushReason::Timeout, usize::MAX).expect("a clip is pending");
    assert_eq!((formed.order, formed.turn), (Order::Aged, None));
}

#[test]
fn the_memory_of_alternation_survives_an_empty_queue() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    take(&mut former, 1);
    assert!(former.is_empty());
    former.push(recording(2, 60_000, 2));
    former.push(clip(3, 1_000, 3));
    assert_eq!(take(&mut former, 4), vec![3], "a recording went last, so the clips go now although 2 is older");
    assert_eq!(take(&mut former, 4), vec![2]);
}

#[test]
fn a_turn_whose_last_member_leaves_ends() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..23 {
        former.push(clip(id, 5_000, 1));
    }
    take(&mut former, 2);
    take(&mut former, 2);
    assert_eq!(former.turn().expect("one member is left").members_left, 1);
    assert!(former.remove(ItemId(22)).is_some());
    assert!(former.turn().is_none());
    former.push(clip(30, 1_000, 3));
    assert_eq!(take(&mut former, 4), vec![2], "and the other lane is next");
}

#[test]
fn a_cap_shrunk_in_mid_turn_loses_no_member() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..24 {
        former.push(clip(id, 5_000, 1));
    }
    take(&mut former, 2);
    take(&mut former, 2);
    former.set_caps(BatchCaps { max_cost: 5_000, ..*former.caps() });
    assert_eq!(take(&mut former, 2), vec![22]);
    assert_eq!(take(&mut former, 2), vec![23], "each batch uses the cap of its moment, the turn keeps its members");
    assert_eq!(take(&mut former, 2), vec![2]);
}

#[test]
fn owed_is_forgotten_in_a_gap_without_recordings_unless_kept() {
    for (keep_owed, expected) in [(false, vec![12]), (true, vec![10])] {
        let mut former = former(30_000);
        former.set_caps(BatchCaps { aged_promotion: false, ..*former.caps() });
        former.set_rules(LaneRules { keep_owed, ..LaneRules::default() });
        former.push(recording(1, 60_000, 0));
        former.push(clip(10, 30_000, 1));
        former.push(clip(11, 20_000, 2));
        assert_eq!(take(&mut former, 3), vec![1]);
        assert_eq!(take(&mut former, 3), vec![11]);
        former.push(clip(12, 5_000, 4));
        assert_eq!(take(&mut former, 5), vec![12], "no recording pending: plain cost order");
        former.push(recording(2, 60_000, 6));
        former.push(clip(12, 25_000, 7));
        assert_eq!(take(&mut former, 8), vec![2]);
        assert_eq!(take(&mut former, 8), expected);
    }
}

#[test]
fn a_deadline_takes_an_item_out_when_it_comes() {
    let mut former = former(720_000);
    former.push(clip(1, 10, 0).until(Some(Micros(500))));
    former.push(clip(2, 10, 0).until(Some(Micros(400))));
    former.push(recording(3, 40_000, 0));
    assert_eq!(former.next_deadline(), Some(Micros(400)));
    assert!(former.expire(Micros(399)).is_empty());
    assert_eq!(former.expire(Micros(500)).iter().map(|i| i.id.0).collect::<Vec<_>>(), vec![2, 1]);
    assert_eq!(former.next_deadline(), None);
    assert_eq!((former.len(), former.lane(Lane::Clips).pending), (1, 0));
}

#[test]
fn costs_saturate_and_come_back_to_zero() {
    let mut former = former(u64::MAX);
    former.set_caps(BatchCaps { hard_cost: None, ..*former.caps() });
    former.push(clip(1, u64::MAX, 0));
    former.push(clip(2, u64::MAX, 0));
    assert_eq!(former.lane(Lane::Clips).cost, u64::MAX);
    assert_eq!(former.due(Micros(0), false), Some(FlushReason::CostCap));
    assert_eq!(take(&mut former, 0).len(), 2, "a saturated sum is still within an unlimited cap");
    assert_eq!(former.lane(Lane::Clips).cost, 0);
}

#[test]
fn members_of_a_turn_are_identities_not_places() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..24 {
        former.push(clip(id, 5_000, 1));
    }
    take(&mut former, 2);
    take(&mut former, 2);
    // Two are left. Others come before them in every order, and one of the two goes.
    former.push(clip(40, 1, 0));
    former.push(clip(41, 2, 0));
    former.remove(ItemId(22));
    assert_eq!(take(&mut former, 3), vec![23]);
    assert!(former.turn().is_none());
    assert_eq!(take(&mut former, 3), vec![2]);
    assert_eq!(take(&mut former, 3), vec![40, 41]);
}

#[test]
fn a_turn_goes_on_from_a_primary_batch_to_its_drain() {
    let mut former = former(720_000);
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..24 {
        former.push(clip(id, 5_000, 1));
    }
    take(&mut former, 2);
    let primary = former.poll(Micros(NOW), false, usize::MAX).expect("the count cap is reached");
    let drain = former.take(Micros(NOW), FlushReason::Drain, usize::MAX).expect("two members are left");
    assert_eq!((primary.turn, primary.items.len()), (Some(1), 12));
    assert_eq!((drain.turn, drain.items.len(), drain.order), (Some(1), 2, Order::Turn));
    assert_eq!(former.take(Micros(NOW), FlushReason::Drain, usize::MAX).map(|f| f.lane), Some(Lane::Recordings));
}

#[test]
fn a_budget_adopted_in_mid_turn_keeps_items_and_lane_state() {
    let mut adaptive = Adaptive::new(ControllerSettings::default(), CostLayers::default()).expect("sound");
    let mut former = Former::new(adaptive.caps(BatchCaps::default()));
    former.push(recording(1, 60_000, 0));
    former.push(recording(2, 60_000, 0));
    for id in 10..14 {
        former.push(clip(id, 5_000, 1));
    }
    take(&mut former, 2);
    former.take(Micros(2), FlushReason::Timeout, 1).expect("a turn begins");
    let before = (former.turn(), former.owed(9), former.len());
    assert_eq!(before.0.as_ref().map(|turn| (turn.members_left, turn.limit)), Some((2, 16_384)));
    adaptive.report_budget(Micros(3), Some(720_000)).expect("sound");
    former.set_caps(adaptive.caps(*former.caps()));
    assert_eq!(former.caps().max_cost, 720_000);
    assert_eq!((former.turn(), former.owed(9), former.len()), before);
    assert_eq!(take(&mut former, 3), vec![11, 12], "the members of the turn, although there is room for all");
    assert_eq!(take(&mut former, 3), vec![2]);
    assert_eq!(take(&mut former, 3), vec![13], "which was owed");
}
