//! Slices and shares in random runs: against a plain model of the rule, and the two promises — each lane has its share of
//! engine time but for one turn of each, and a clip is served within the turns that were stated for it.

use super::super::{
    AUDIO_HARD_CAP_MS, BatchCaps, Charge, FlushReason, Formed, Former, LaneRules, Micros, Paused, Slice, SliceWindows,
    WINDOW_MS,
};
use super::{clip, recording};
use crate::control::Lane;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// What runs: at most `depth` batches, the oldest ends first.
struct Engine {
    depth: usize,
    out: VecDeque<(Charge, Option<Slice>, u64)>,
    ran: [u64; 2],
    /// The longest turn of clips and of recordings so far.
    longest: [u64; 2],
    turn: (Option<u64>, u64),
}

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Clips => 0,
        Lane::Recordings => 1,
    }
}

impl Engine {
    fn new(depth: usize) -> Engine {
        Engine { depth, out: VecDeque::new(), ran: [0; 2], longest: [0; 2], turn: (None, 0) }
    }

    fn start(&mut self, formed: &Formed, us: u64) {
        self.out.push_back((formed.charge, formed.slice, us));
        if formed.turn.is_none() || formed.turn != self.turn.0 {
            self.turn = (formed.turn, 0);
        }
        self.turn.1 += us;
        let longest = &mut self.longest[index(formed.lane)];
        *longest = (*longest).max(self.turn.1);
    }

    /// Ends batches until one more may start.
    fn make_room(&mut self, former: &mut Former) {
        while self.out.len() >= self.depth {
            let Some((charge, slice, us)) = self.out.pop_front() else { return };
            former.ran(charge, Micros(us));
            self.ran[index(charge.lane)] += us;
            let left = slice.map(|s| (s, s.item.cost.saturating_sub(u64::from(s.windows.get()) * WINDOW_MS)));
            if let Some((slice, left)) = left.filter(|(_, left)| *left > 0) {
                assert!(former.put_back(slice, left));
            }
        }
    }
}

fn rules(windows: u32, share: f64) -> LaneRules {
    let slice_windows = SliceWindows::windows(windows).expect("at least one");
    LaneRules { slice_windows, recordings_share: share, ..LaneRules::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Both lanes always have work, and one batch runs at a time: the balance never leaves the two longest turns.
    #[test]
    fn each_lane_has_its_share_but_for_one_turn_of_each(
        share in 0.05f64..0.95,
        windows in 1u32..4,
        cap in prop::sample::select(vec![4_096u64, 65_536, 180_000]),
        times in prop::collection::vec(1_000u64..2_000_000, 50..300),
    ) {
        let caps = BatchCaps { max_cost: cap, ..BatchCaps::default() };
        let mut former = Former::new(caps);
        former.set_rules(rules(windows, share));
        let (mut engine, mut id) = (Engine::new(1), 0);
        for us in times {
            while former.lane(Lane::Clips).pending < 30 {
                id += 1;
                former.push(clip(id, 1_000 + id * 7_919 % 29_000, id));
            }
            while former.lane(Lane::Recordings).pending < 2 {
                id += 1;
                former.push(recording(id, 200_000, id));
            }
            let formed = former.take(Micros(id), FlushReason::Drain, usize::MAX).expect("both lanes have work");
            engine.start(&formed, us);
            engine.make_room(&mut former);
            let [clips, recordings] = engine.ran.map(|us| us as f64);
            let balance = (1.0 - share) * recordings - share * clips;
            let (low, high) = (-share * engine.longest[0] as f64, (1.0 - share) * engine.longest[1] as f64);
            prop_assert!(low - 2.0 <= balance && balance <= high + 2.0, "{low} <= {balance} <= {high}");
        }
    }

    /// Any share, any slice, up to three batches in flight, lanes paused and let go, recordings that come and go.
    #[test]
    fn a_clip_is_served_within_the_stated_turns_whatever_runs_between(
        share in prop::sample::select(vec![0.0, 0.1, 0.5, 0.9, 1.0]),
        windows in 0u32..3,
        depth in 1usize..4,
        cap in prop::sample::select(vec![4_096u64, 65_536, 180_000]),
        steps in prop::collection::vec(
            (prop::collection::vec(1_000u64..=30_000, 0..3), 0u8..12, 1_000u64..500_000, 1usize..14),
            1..250,
        ),
    ) {
        let caps = BatchCaps { max_cost: cap, hard_cost: Some(AUDIO_HARD_CAP_MS), ..BatchCaps::default() };
        let mut former = Former::new(caps);
        let base = if windows == 0 { LaneRules::default() } else { rules(windows, share) };
        former.set_rules(LaneRules { keep_owed: true, ..base });
        let mut engine = Engine::new(depth);
        let (mut id, mut turns, mut last_turn) = (0u64, 0u64, None);
        let mut promised: BTreeMap<u64, u64> = BTreeMap::new();
        for (now, (clips, event, us, max_items)) in (0u64..).map(|n| n * 9_000).zip(steps) {
            for cost in clips {
                if former.lane(Lane::Clips).pending < 40 {
                    id += 1;
                    former.push(clip(id, cost, now));
                }
            }
            let paused = former.rules().paused;
            match event {
                0..4 if former.lane(Lane::Recordings).pending < 3 => {
                    id += 1;
                    former.push(recording(id, 31_000 + us, now));
                }
                4 => former.set_rules(LaneRules { paused: paused.with(Lane::Clips, !paused.clips), ..*former.rules() }),
                5 => former.set_rules(LaneRules {
                    paused: paused.with(Lane::Recordings, !paused.recordings),
                    ..*former.rules()
                }),
                6 | 7 => former.set_rules(LaneRules { paused: Paused::default(), ..*former.rules() }),
                _ => {}
            }
            for e in former.explain_all(Micros(now)) {
                prop_assert_eq!(
                    e.code == crate::control::WaitCode::LanePaused, former.rules().paused.lane(e.lane), "{:?}", e);
                if let (Lane::Clips, Some(left)) = (e.lane, e.turns_left) {
                    let until = promised.entry(e.id.0).or_insert(u64::MAX);
                    *until = (*until).min(turns + left);
                }
            }
            for owed in former.owed(usize::MAX) {
                let until = promised.entry(owed.id.0).or_insert(u64::MAX);
                *until = (*until).min(turns + owed.turns_left);
            }
            engine.make_room(&mut former);
            let runnable = former.oldest().is_some();
            prop_assert!(runnable || former.next_check(Micros(now)).is_none(), "nothing to wake up for");
            let formed = former.take(Micros(now), FlushReason::Drain, max_items);
            prop_assert_eq!(formed.is_some(), runnable, "what may run is never held back by the other lane");
            let Some(formed) = formed else { continue };
            prop_assert!(!former.rules().paused.lane(formed.lane));
            prop_assert_eq!(formed.slice.is_some(), windows > 0 && formed.lane == Lane::Recordings);
            engine.start(&formed, us);
            if formed.turn.is_some() && formed.turn != last_turn {
                turns += 1;
                last_turn = formed.turn;
            }
            for item in formed.items.iter().filter(|_| formed.lane == Lane::Clips) {
                if let Some(until) = promised.remove(&item.id.0) {
                    prop_assert!(turns <= until, "clip {} came in turn {turns} > {until}", item.id.0);
                }
            }
        }
    }
}
