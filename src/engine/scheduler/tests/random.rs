//! Random runs: the former and the model take the same steps and must extract the same items in the same order.

use super::super::{BatchCaps, FlushReason, Former, ItemId, LaneRules, Micros, Order};
use super::model::Model;
use super::{clip, recording};
use crate::control::Lane;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Clip(u64),
    Recording(u64),
    /// Cancels one of the pending items, by its place among them.
    Cancel(prop::sample::Index),
    Extract(usize),
    Cap(u64),
}

fn caps() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![4_096u64, 16_384, 65_536, 180_000, 720_000, 2_880_000])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u64..12_000).prop_map(Step::Wait),
        // Few distinct costs: ties must keep arrival order.
        4 => prop::sample::select(vec![1u64, 1_000, 4_000, 4_096, 9_000, 15_000, 30_000]).prop_map(Step::Clip),
        4 => (1_000u64..=30_000).prop_map(Step::Clip),
        3 => (30_001u64..300_000).prop_map(Step::Recording),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        7 => prop::sample::select(vec![usize::MAX, usize::MAX, 1, 3, 0]).prop_map(Step::Extract),
        1 => caps().prop_map(Step::Cap),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_former_does_what_the_model_does(
        cap in caps(),
        ageing in any::<bool>(),
        keep_owed in any::<bool>(),
        change_caps in any::<bool>(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let settings = BatchCaps {
            max_cost: cap,
            hard_cost: Some(720_000),
            aged_promotion: ageing,
            ..BatchCaps::default()
        };
        let mut former = Former::new(settings);
        former.set_rules(LaneRules { keep_owed, ..LaneRules::default() });
        let mut model = Model::new(cap.min(720_000), ageing, keep_owed);
        let (mut now, mut id) = (0u64, 0u64);
        for step in steps {
            match step {
                Step::Wait(dt) => now += dt,
                Step::Clip(cost) => {
                    id += 1;
                    prop_assert!(former.push(clip(id, cost, now)));
                    model.pending.push(clip(id, cost, now));
                }
                Step::Recording(cost) => {
                    id += 1;
                    prop_assert!(former.push(recording(id, cost, now)));
                    model.pending.push(recording(id, cost, now));
                }
                Step::Cancel(which) if !model.pending.is_empty() => {
                    let id = which.get(&model.pending).id;
                    prop_assert!(former.remove(id).is_some());
                    prop_assert!(former.remove(id).is_none());
                    model.cancel(id.0);
                }
                Step::Cap(cap) if change_caps => {
                    former.set_caps(BatchCaps { max_cost: cap, ..settings });
                    model.cap = cap.min(720_000);
                }
                Step::Cancel(_) | Step::Cap(_) => {}
                Step::Extract(max_items) => {
                    let preview = former.preview(Micros(now));
                    let why = FlushReason::Drain;
                    let formed = former.take(Micros(now), why, max_items);
                    let expected = model.extract(now, max_items);
                    let got = formed.as_ref().map(|f| (f.items.iter().map(|i| i.id.0).collect(), f.order));
                    prop_assert_eq!(got, expected);
                    let Some(formed) = formed else { continue };
                    prop_assert_eq!(formed.why, why);
                    prop_assert!(formed.items.iter().all(|i| i.lane == formed.lane), "lanes never mix");
                    prop_assert!(formed.lane == Lane::Clips || formed.items.len() == 1, "a recording runs alone");
                    prop_assert!(formed.items.len() == 1 || formed.cost <= formed.cap);
                    prop_assert!(formed.items.len() <= 12.min(max_items));
                    prop_assert_eq!(formed.turn.is_some(), formed.order == Order::Turn);
                    // Whole recordings alternate with turns whatever time they take.
                    former.ran(formed.charge, Micros(formed.cost * 7));
                    if max_items >= 12 {
                        let preview = preview.expect("something was pending");
                        prop_assert_eq!((preview.lane, preview.items, preview.cost),
                            (formed.lane, formed.items.len(), formed.cost), "the preview is what happens");
                    }
                }
            }
            prop_assert_eq!(former.len(), model.pending.len());
            for lane in [Lane::Clips, Lane::Recordings] {
                let cost: u64 = model.pending.iter().filter(|i| i.lane == lane).map(|i| i.cost).sum();
                prop_assert_eq!(former.lane(lane).cost, cost);
            }
            prop_assert_eq!(former.oldest(), model.pending.iter().map(|i| i.arrival).min());
        }
        // Every path out shares the state: what is left comes out complete, and nothing is left behind.
        let mut left = 0;
        while let Some(formed) = former.take(Micros(now), FlushReason::Drain, usize::MAX) {
            left += formed.items.len();
        }
        prop_assert_eq!(left, model.pending.len());
        prop_assert_eq!(former.lane(Lane::Clips).cost, 0);
        prop_assert!(former.turn().is_none());
    }

    #[test]
    fn while_a_recording_is_pending_ageing_changes_nothing(
        cap in caps(),
        steps in prop::collection::vec((0u64..20_000, 1_000u64..=30_000, any::<bool>()), 1..120),
    ) {
        let settings = BatchCaps { max_cost: cap, hard_cost: Some(720_000), ..BatchCaps::default() };
        let mut with = Former::new(settings);
        let mut without = Former::new(BatchCaps { aged_promotion: false, ..settings });
        let mut now = 0;
        // Enough recordings that one is pending at every extraction.
        for id in 0..steps.len() as u64 + 1 {
            with.push(recording(1_000 + id, 60_000, 0));
            without.push(recording(1_000 + id, 60_000, 0));
        }
        for (id, (dt, cost, extract)) in steps.into_iter().enumerate() {
            now += dt;
            with.push(clip(id as u64, cost, now));
            without.push(clip(id as u64, cost, now));
            if extract {
                let a = with.take(Micros(now), FlushReason::Timeout, usize::MAX);
                let b = without.take(Micros(now), FlushReason::Timeout, usize::MAX);
                prop_assert_eq!(a, b);
            }
        }
    }
}

#[test]
fn an_id_is_pending_once() {
    let mut former = Former::new(BatchCaps::default());
    assert!(former.push(clip(1, 10, 0)));
    assert!(!former.push(clip(1, 99, 5)));
    assert_eq!(former.lane(Lane::Clips).cost, 10);
    assert!(former.remove(ItemId(1)).is_some());
    assert!(former.push(clip(1, 99, 5)), "and may come again once it has left");
}
