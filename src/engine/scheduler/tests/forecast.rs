//! Estimates against what then happens.

use super::super::*;
use crate::control::{Lane, Op};
use proptest::prelude::*;
use std::collections::HashMap;

const CLIPS: Service = Service { base_us: 60_000.0, item_us: 200_000.0, cost_us: 5.0 };
const RECORDINGS: Service = Service { base_us: 100_000.0, item_us: 0.0, cost_us: 40.0 };

fn caps(max_requests: usize) -> BatchCaps {
    BatchCaps { max_cost: 60_000, hard_cost: Some(AUDIO_HARD_CAP_MS), max_requests, ..BatchCaps::default() }
}

fn slices(share: f64) -> LaneRules {
    let slice_windows = SliceWindows::windows(1).expect("not zero");
    LaneRules { slice_windows, recordings_share: share, ..LaneRules::default() }
}

fn audio(id: u64, ms: u64, arrival: Micros) -> Item {
    Item { arrival, ..Item::transcribe(ItemId(id), ms * 16, arrival) }
}

fn outlook() -> Outlook {
    Outlook { clips: Some(CLIPS), recordings: Some(RECORDINGS), window_advance: 1.0, slots: 1, ..Outlook::default() }
}

/// What happens when every batch takes as long as the services say and nothing more arrives: when each item first starts.
fn happens(mut former: Former, from: Micros) -> HashMap<ItemId, Micros> {
    let (mut now, mut starts) = (from, HashMap::new());
    while !former.is_empty() {
        let Some(formed) = former.poll(now, false, usize::MAX) else {
            now = now + former.next_check(now).expect("something is pending").max(Micros(1));
            continue;
        };
        for item in &formed.items {
            starts.entry(item.id).or_insert(now - from);
        }
        let service = if formed.lane == Lane::Clips { CLIPS } else { RECORDINGS };
        let took = service.of(formed.items.len(), formed.cost);
        now = now + took;
        if let Some(slice) = formed.slice
            && slice.item.cost > formed.cost
        {
            former.put_back(slice, slice.item.cost - formed.cost);
        }
        former.ran(formed.charge, took);
    }
    starts
}

#[test]
fn items_start_one_after_the_other_behind_what_runs() {
    let mut former = Former::new(caps(1));
    (1..=3).for_each(|id| assert!(former.push(audio(id, 1_000 * id, Micros::ZERO))));
    let mut running = former.clone();
    let formed = running.poll(Micros(20_000), false, 1).expect("due");
    let now = Micros(50_000);
    let batch = Running { ends: Micros(400_000), charge: formed.charge, takes: Micros(380_000), slice: None };
    let starts = forecast(&running, now, &Outlook { running: vec![batch], ..outlook() });
    let second = Micros(350_000);
    assert_eq!(starts.get(&ItemId(2)), Some(&second));
    assert_eq!(starts.get(&ItemId(3)), Some(&(second + CLIPS.of(1, 2_000))));
    assert_eq!(starts.len(), 2, "the running one is not asked about");
}

#[test]
fn a_batch_that_is_late_is_taken_to_end_now() {
    let mut former = Former::new(caps(12));
    former.push(audio(1, 1_000, Micros::ZERO));
    former.push(audio(2, 1_000, Micros::ZERO));
    let formed = former.poll(Micros(20_000), false, 1).expect("due");
    let batch = Running { ends: Micros(30_000), charge: formed.charge, takes: Micros(10_000), slice: None };
    let starts = forecast(&former, Micros(90_000), &Outlook { running: vec![batch], ..outlook() });
    assert!(starts[&ItemId(2)] <= Micros(1), "{starts:?}");
}

#[test]
fn what_is_not_known_or_cannot_run_has_no_estimate() {
    let mut former = Former::new(caps(1));
    former.push(audio(1, 1_000, Micros::ZERO));
    former.push(audio(2, 1_000, Micros::ZERO));
    let nothing_measured = Outlook { clips: None, recordings: None, ..outlook() };
    let starts = forecast(&former, Micros(20_000), &nothing_measured);
    assert_eq!((starts.len(), starts.get(&ItemId(1))), (1, Some(&Micros::ZERO)));
    former.set_rules(LaneRules { paused: Paused::default().with(Lane::Clips, true), ..LaneRules::default() });
    assert!(forecast(&former, Micros(20_000), &outlook()).is_empty());
}

#[test]
fn a_walk_ends_although_the_queue_does_not() {
    let mut former = Former::new(caps(1));
    (1..=5_000).for_each(|id| assert!(former.push(audio(id, 3_000, Micros::ZERO))));
    let starts = forecast(&former, Micros(20_000), &outlook());
    assert!((1..5_000).contains(&starts.len()), "{}", starts.len());
}

#[test]
fn clips_that_go_on_coming_hold_a_second_recording_back() {
    let mut former = Former::new(caps(12));
    former.set_rules(slices(0.5));
    former.push(audio(1, 300_000, Micros::ZERO));
    former.push(audio(2, 300_000, Micros(1)));
    former.push(audio(3, 3_000, Micros(2)));
    let now = Micros(20_000);
    let alone = forecast(&former, now, &outlook())[&ItemId(2)];
    let arrivals = Some(Arrivals { every: Micros(300_000), cost: 3_000 });
    let among = forecast(&former, now, &Outlook { arrivals, ..outlook() })[&ItemId(2)];
    let ratio = among.as_secs() / alone.as_secs();
    assert!((1.7..2.3).contains(&ratio), "half of the engine is the clips': {alone:?}, {among:?}");
}

#[test]
fn a_recording_that_moves_on_by_less_than_its_windows_takes_longer() {
    let mut former = Former::new(caps(12));
    former.set_rules(slices(0.5));
    former.push(audio(1, 600_000, Micros::ZERO));
    former.push(audio(2, 60_000, Micros(1)));
    let start =
        |advance| forecast(&former, Micros(20_000), &Outlook { window_advance: advance, ..outlook() })[&ItemId(2)];
    let ratio = start(0.8).as_secs() / start(1.0).as_secs();
    assert!((1.15..1.35).contains(&ratio), "{ratio}");
}

proptest! {
    #[test]
    fn without_later_arrivals_the_forecast_is_what_happens(
        items in proptest::collection::vec((100u64..120_000, 0u64..2_000_000), 1..40),
        max_requests in 1usize..13,
        share in prop_oneof![Just(None), (0.1f64..0.9).prop_map(Some)],
        keep_owed in any::<bool>(),
    ) {
        let mut former = Former::new(caps(max_requests));
        let rules = share.map_or(LaneRules::default(), slices);
        former.set_rules(LaneRules { keep_owed, ..rules });
        for (id, (ms, arrival)) in (1u64..).zip(&items) {
            let item = audio(id, *ms, Micros(*arrival));
            prop_assert_eq!(item.op, Op::Transcribe);
            former.push(item);
        }
        let now = Micros(2_000_000);
        let expected = forecast(&former, now, &outlook());
        let happened = happens(former, now);
        prop_assert_eq!(expected.len(), items.len());
        prop_assert_eq!(expected, happened);
    }
}
