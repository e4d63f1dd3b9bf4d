//! How deep proposals hold: exact counts for reports, and estimates that forget for the gate.

use super::acceptance::Ending;
use super::proposers::Source;
use crate::control::speculation::{SURVIVAL_DEPTHS, SurvivalCounts};

/// A proposal whose fate is known: `native` drafts and `tail` copies behind them, of which `accepted` tokens held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retired {
    pub native: usize,
    pub tail: usize,
    pub accepted: usize,
    pub ending: Ending,
}

impl Retired {
    /// Counts it. Depths behind the end of an answer are unknown: they count neither as reached nor as held.
    pub fn count(&self, counts: &mut SurvivalCounts) {
        let (native, tail) = self.known();
        let accepted = self.accepted;
        counts.native.count(native, accepted.min(native));
        // The tail was only judged if the whole native part held.
        if accepted >= native {
            counts.tail.count(tail, (accepted - native).min(tail));
        }
    }

    /// Proposed tokens of each source whose fate is known.
    fn known(&self) -> (usize, usize) {
        match self.ending {
            Ending::AcceptedStop => {
                let native = self.native.min(self.accepted);
                (native, self.tail.min(self.accepted - native))
            }
            Ending::AllAccepted | Ending::Rejected => (self.native, self.tail),
        }
    }

    /// Tokens proposed.
    pub fn proposed(&self) -> usize {
        self.native + self.tail
    }
}

/// What proposals of one kind did, depth by depth; old observations fade.
#[derive(Debug, Clone, Copy)]
struct Faded {
    /// Proposals that held to the depth before and went on.
    reached: [f64; SURVIVAL_DEPTHS],
    /// Of those, the ones that held here too.
    held: [f64; SURVIVAL_DEPTHS],
}

impl Faded {
    const NONE: Faded = Faded { reached: [0.0; SURVIVAL_DEPTHS], held: [0.0; SURVIVAL_DEPTHS] };

    fn note(&mut self, proposed: usize, held: usize, keep: f64) {
        for i in 0..proposed.min(held + 1).min(SURVIVAL_DEPTHS) {
            self.reached[i] = self.reached[i] * keep + 1.0;
            self.held[i] = self.held[i] * keep + f64::from(u8::from(held > i));
        }
    }
}

/// Survival estimates by source and by how much of the text before it the copied passage shares.
#[derive(Debug, Clone)]
pub struct Estimates {
    kinds: [Faded; Source::KINDS],
    /// Weight of the past after one more observation.
    keep: f64,
}

/// Observations that an expectation without evidence weighs.
const PRIOR_WEIGHT: f64 = 1.0;
/// Chance, without any evidence, that one more token holds.
const PRIOR: f64 = 0.5;

impl Estimates {
    /// Estimates that halve the weight of an observation after `half_life` more.
    pub fn new(half_life: f64) -> Estimates {
        Estimates { kinds: [Faded::NONE; Source::KINDS], keep: 0.5f64.powf(1.0 / half_life.max(1.0)) }
    }

    /// Takes in a proposal whose native part came from `native` and whose tail from `tail`.
    pub fn note(&mut self, retired: &Retired, native: Source, tail: Source) {
        let (n, m) = retired.known();
        self.kinds[native.kind()].note(n, retired.accepted.min(n), self.keep);
        if retired.accepted >= n {
            self.kinds[tail.kind()].note(m, (retired.accepted - n).min(m), self.keep);
        }
    }

    /// How many proposals from `source` are remembered; older ones count less.
    pub fn seen(&self, source: Source) -> f64 {
        self.kinds[source.kind()].reached[0]
    }

    /// Chances, given that a proposal held so far, that it holds at each depth. Where a depth was hardly reached, the one
    /// before it is the best guess; `wider`: what to believe beforehand.
    fn steps(&self, source: Source, wider: Option<&Estimates>) -> [f64; SURVIVAL_DEPTHS] {
        let believed = wider.map(|w| w.steps(source, None));
        let kind = &self.kinds[source.kind()];
        let mut steps = [0.0; SURVIVAL_DEPTHS];
        let mut before = None;
        for i in 0..SURVIVAL_DEPTHS {
            let prior = match (believed.map(|b| b[i]), before) {
                (Some(model), Some(own)) => (model + own) / 2.0,
                (one, other) => one.or(other).unwrap_or(PRIOR),
            };
            steps[i] = (kind.held[i] + PRIOR_WEIGHT * prior) / (kind.reached[i] + PRIOR_WEIGHT);
            before = Some(steps[i]);
        }
        steps
    }

    /// P(at least `i + 1` tokens hold) for every `i`, with the estimates of `wider` as what is believed beforehand.
    pub fn survival(&self, source: Source, wider: Option<&Estimates>) -> [f64; SURVIVAL_DEPTHS] {
        let mut odds = self.steps(source, wider);
        for i in 1..SURVIVAL_DEPTHS {
            odds[i] *= odds[i - 1];
        }
        odds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::speculation::DepthCounts;
    use proptest::prelude::*;

    fn counted(native: usize, tail: usize, accepted: usize) -> SurvivalCounts {
        let ending = if accepted == native + tail { Ending::AllAccepted } else { Ending::Rejected };
        let mut counts = SurvivalCounts::default();
        Retired { native, tail, accepted, ending }.count(&mut counts);
        counts
    }

    fn shown(counts: &DepthCounts) -> (Vec<u64>, Vec<u64>) {
        let n = counts.eligible.iter().take_while(|e| **e > 0).count();
        (counts.eligible[..n].to_vec(), counts.survived[..n].to_vec())
    }

    fn ones(n: usize) -> Vec<u64> {
        vec![1; n]
    }

    #[test]
    fn vector_3_4_7_holds_in_both_sources() {
        let c = counted(3, 4, 7);
        assert_eq!(shown(&c.native), (ones(3), ones(3)));
        assert_eq!(shown(&c.tail), (ones(4), ones(4)));
    }

    #[test]
    fn vector_3_4_2_never_reaches_the_tail() {
        let c = counted(3, 4, 2);
        assert_eq!(shown(&c.native), (ones(3), vec![1, 1, 0]));
        assert_eq!(shown(&c.tail), (vec![], vec![]));
    }

    #[test]
    fn vector_3_4_5_breaks_in_the_tail() {
        let c = counted(3, 4, 5);
        assert_eq!(shown(&c.native), (ones(3), ones(3)));
        assert_eq!(shown(&c.tail), (ones(4), vec![1, 1, 0, 0]));
    }

    #[test]
    fn vector_0_5_3_is_all_tail() {
        let c = counted(0, 5, 3);
        assert_eq!(shown(&c.native), (vec![], vec![]));
        assert_eq!(shown(&c.tail), (ones(5), vec![1, 1, 1, 0, 0]));
    }

    #[test]
    fn an_end_inside_censors_what_lies_behind_it() {
        let mut c = SurvivalCounts::default();
        Retired { native: 3, tail: 4, accepted: 5, ending: Ending::AcceptedStop }.count(&mut c);
        assert_eq!(shown(&c.native), (ones(3), ones(3)));
        assert_eq!(shown(&c.tail), (ones(2), ones(2)));
        let mut c = SurvivalCounts::default();
        Retired { native: 3, tail: 4, accepted: 1, ending: Ending::AcceptedStop }.count(&mut c);
        assert_eq!((shown(&c.native), shown(&c.tail)), ((ones(1), ones(1)), (vec![], vec![])));
    }

    fn tail(proposed: usize, accepted: usize) -> Retired {
        let ending = if accepted == proposed { Ending::AllAccepted } else { Ending::Rejected };
        Retired { native: 0, tail: proposed, accepted, ending }
    }

    #[test]
    fn estimates_follow_what_was_seen_last() {
        let source = Source::copied(4);
        let mut e = Estimates::new(8.0);
        assert!(e.survival(source, None)[1] <= 0.25);
        for _ in 0..6 {
            e.note(&tail(4, 4), Source::Native, source);
        }
        assert!(e.survival(source, None)[3] > 0.7);
        for _ in 0..24 {
            e.note(&tail(4, 0), Source::Native, source);
        }
        assert!(e.survival(source, None)[0] < 0.15);
    }

    #[test]
    fn a_depth_that_was_never_reached_is_judged_by_the_one_before() {
        let source = Source::copied(4);
        let mut e = Estimates::new(64.0);
        for _ in 0..40 {
            e.note(&tail(1, 1), Source::Native, source);
        }
        assert!(e.survival(source, None)[3] > 0.85, "{:?}", e.survival(source, None));
        for _ in 0..10 {
            e.note(&tail(2, 1), Source::Native, source);
        }
        let odds = e.survival(source, None);
        assert!(odds[0] > 0.95 && odds[1] < 0.2, "{odds:?}");
    }

    #[test]
    fn a_sequence_without_evidence_believes_what_the_model_saw() {
        let source = Source::copied(20);
        let mut model = Estimates::new(64.0);
        for _ in 0..50 {
            model.note(&tail(4, 4), Source::Native, source);
        }
        let fresh = Estimates::new(16.0);
        assert!(fresh.survival(source, Some(&model))[3] > 0.9);
        // Of another kind nothing is known.
        assert!(fresh.survival(Source::copied(3), Some(&model))[3] < 0.2);
    }

    proptest! {
        #[test]
        fn survival_falls_with_depth_and_is_a_probability(
            seen in prop::collection::vec((0usize..4, 0usize..6, 0usize..10, any::<bool>()), 0..60),
        ) {
            let mut e = Estimates::new(10.0);
            for (native, tail, accepted, stop) in seen {
                let accepted = accepted.min(native + tail);
                let ending = if stop { Ending::AcceptedStop } else if accepted == native + tail { Ending::AllAccepted } else { Ending::Rejected };
                e.note(&Retired { native, tail, accepted, ending }, Source::Native, Source::copied(9));
            }
            for source in [Source::Native, Source::copied(9)] {
                let mut last = 1.0;
                for p in e.survival(source, None) {
                    prop_assert!((0.0..=last).contains(&p));
                    last = p;
                }
            }
        }

        /// Survivors are never more than the eligible, and neither rises with depth.
        #[test]
        fn counts_are_monotone(native in 0usize..9, tail in 0usize..9, accepted in 0usize..20, stop: bool) {
            let accepted = accepted.min(native + tail);
            let ending = if stop { Ending::AcceptedStop } else if accepted == native + tail { Ending::AllAccepted } else { Ending::Rejected };
            let mut c = SurvivalCounts::default();
            Retired { native, tail, accepted, ending }.count(&mut c);
            for counts in [c.native, c.tail] {
                prop_assert!(counts.eligible.iter().zip(&counts.survived).all(|(e, s)| s <= e));
                prop_assert!(counts.eligible.windows(2).all(|w| w[0] >= w[1]));
                prop_assert!(counts.survived.windows(2).all(|w| w[0] >= w[1]));
            }
            if stop {
                prop_assert_eq!(c.native.eligible, c.native.survived);
            }
        }
    }
}
