//! Whether windows are worth their rows: one gate per model.
//!
//! The policy `gain` compares the tokens per time of a pass with windows with those of a pass without, at the load of the
//! moment: step costs are measured ([`StepCosts`]), chances come from proposals whose fate is known. Most of that evidence
//! is free: what a proposer would have proposed in a plain step is compared with what the target then emitted anyway. So
//! the gate learns that text repeats without verifying anything, and only costs have to be explored.
//!
//! What exploring and misjudging lose is bounded by a ledger: the loss so far may be at most a small part of the time of
//! plain steps (and a few steps in advance, at the start).

use super::allot::{Offer, best};
use super::assist::TRIES_SHARE;
use super::costs::StepCosts;
use super::published::{Observed, opens};
use super::speculator::Evidence;
use super::survival::Estimates;
use crate::control::speculation::{GateCode, GateVerdict, SpeculationChoice, SpeculationPolicy};
use crate::engine::scheduler::Micros;
use crate::profile::SpeculationSettings;
use std::collections::VecDeque;

/// Expected gain above which a shut gate opens.
pub(super) const OPENS_AT: f64 = 1.05;
/// Expected gain below which an open gate lets a pass go plain.
const STAYS_AT: f64 = 1.02;
/// Passes in a row without expected gain after which it shuts.
const PATIENCE: u32 = 16;
/// Passes in a row without any proposal after which it shuts.
const SILENCE: u32 = 64;
/// Passes with windows that the measured gain is of.
const MEASURED: usize = 48;
/// Passes with windows below which a measured loss shuts nothing.
const MEASURED_LEAST: usize = 12;
/// Measured gain below which it shuts, whatever is expected.
const LOSS_AT: f64 = 0.98;
/// Passes that it stays shut after a measured loss, at first and at most.
const HOLD: (u64, u64) = (64, 2_048);
/// Plain steps whose time may be lost before anything was earned.
const ADVANCE: f64 = 4.0;
/// Passes after which a measured cost is old.
const FRESH: u64 = 1_024;
/// Model-wide, an observation weighs half after this many more.
const HALF_LIFE: f64 = 96.0;
/// Proposed tokens of one sequence that a pass verifies to see what windows cost: a wider window's cost follows from the
/// line through those of narrower ones, and where it is used it is measured.
const MEASURED_WIDTH: usize = 4;
/// A cost that follows from the line may in truth be as little above a plain pass as this part of what the line says.
/// What would not pay even then is not measured: it could change nothing.
const HOPE: f64 = 0.5;
/// A pass counts at most this many times as long as expected: the machine paused.
pub(super) const PAUSE: f64 = 3.0;

/// What the rows of an iteration are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// One row per sequence (and what is forced).
    Plain,
    /// Windows that are expected to pay.
    Gain,
    /// Windows that measure what windows cost.
    Measure,
}

/// The widths for an iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Allotment {
    /// Proposed tokens to verify, per offer.
    pub widths: Vec<usize>,
    pub purpose: Purpose,
}

/// A forward pass that was run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// Sequences that decoded in it.
    pub sequences: usize,
    /// Their rows: one each and the verified proposals.
    pub rows: usize,
    /// Rows of prompts beside them.
    pub prompt_rows: usize,
    /// Tokens that were committed.
    pub committed: usize,
    pub took: Micros,
    pub purpose: Purpose,
}

/// The gate of one model. Owned by the thread that runs the model.
#[derive(Debug)]
pub struct Gate {
    pub(super) policy: SpeculationPolicy,
    /// The device may compute a row otherwise beside other rows: nothing is verified.
    pub(super) rows_depend: bool,
    pub(super) exploration: f64,
    pub(super) costs: StepCosts,
    pub(super) survival: Estimates,
    observed: Observed,
    pub(super) verdict: GateVerdict,
    /// Set when the verdict turned and nobody has been told.
    turned: bool,
    no_gain: u32,
    silent: u32,
    pub(super) passes: u64,
    pub(super) held_until: u64,
    hold: u64,
    /// Time that plain steps would have taken, and time taken, of the last passes with windows.
    measured: VecDeque<(f64, f64)>,
    pub(super) ledger: Ledger,
    /// Passes with windows since the last plain one.
    since_plain: u64,
    /// What tries of drafts may lose: not out of what trying windows may lose.
    pub(super) tries: Ledger,
    /// Whether the drafts for the pass to come are a try.
    pub(super) trying: bool,
    /// Microseconds spent on drafts for the pass to come that are none.
    pub(super) assisting: f64,
    /// The gain of drafts that was too little to have them made, if that is how it stands.
    pub(super) declined: Option<f64>,
}

/// Time that may be lost, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The part of all plain time that may be lost.
    earned: f64,
    /// What was lost, less what was gained. Gains count only so far: a long good run does not pay for a long bad one.
    lost: f64,
}

impl Ledger {
    pub(super) fn note(&mut self, lost: f64, plain: f64) {
        self.lost = (self.lost + lost).max(self.earned - ADVANCE * plain);
    }

    /// Whether another `lost` would be too much, where a plain pass takes `plain`.
    pub(super) fn forbids(&self, lost: f64, plain: f64) -> bool {
        self.lost + lost > self.earned + ADVANCE * plain
    }
}

impl Gate {
    pub fn new(settings: &SpeculationSettings) -> Gate {
        let mut gate = Gate {
            policy: settings.policy,
            rows_depend: false,
            exploration: settings.exploration_ratio.clamp(0.0, 1.0),
            costs: StepCosts::default(),
            survival: Estimates::new(HALF_LIFE),
            observed: Observed::default(),
            verdict: GateVerdict {
                on: false,
                because: GateCode::Unmeasured,
                predicted_gain: None,
                measured_gain: None,
            },
            turned: false,
            no_gain: 0,
            silent: 0,
            passes: 0,
            held_until: 0,
            hold: HOLD.0,
            measured: VecDeque::with_capacity(MEASURED),
            ledger: Ledger::default(),
            since_plain: 0,
            tries: Ledger::default(),
            trying: false,
            assisting: 0.0,
            declined: None,
        };
        gate.set_policy(settings.policy);
        gate.turned = false;
        gate
    }

    /// Shuts the gate for good: windows could change an answer.
    pub fn rows_depend(&mut self) {
        self.rows_depend = true;
        self.decide(false, GateCode::RowsDepend);
    }

    /// Other settings, from the next pass on. What was learned stays.
    pub fn configure(&mut self, settings: &SpeculationSettings) {
        self.exploration = settings.exploration_ratio.clamp(0.0, 1.0);
        if settings.policy != self.policy {
            self.set_policy(settings.policy);
        }
    }

    /// Another policy, from the next pass on. What was learned stays.
    pub fn set_policy(&mut self, policy: SpeculationPolicy) {
        self.policy = policy;
        let (on, because) = match policy {
            _ if self.rows_depend => (false, GateCode::RowsDepend),
            SpeculationPolicy::Off => (false, GateCode::PolicyOff),
            SpeculationPolicy::Force => (true, GateCode::PolicyForce),
            SpeculationPolicy::Published => (false, GateCode::TooFewObservations),
            SpeculationPolicy::Gain => (false, GateCode::Unmeasured),
        };
        self.decide(on, because);
    }

    pub fn policy(&self) -> SpeculationPolicy {
        self.policy
    }

    /// What the model saw of proposals, for sequences that have seen little themselves.
    pub fn survival(&self) -> &Estimates {
        &self.survival
    }

    pub fn costs(&self) -> &StepCosts {
        &self.costs
    }

    /// The verdict for the model.
    pub fn verdict(&self) -> GateVerdict {
        self.verdict
    }

    /// The verdict for one request.
    pub fn verdict_for(&self, choice: SpeculationChoice) -> GateVerdict {
        let (on, because) = match (choice, self.policy) {
            (SpeculationChoice::Off, _) => (false, GateCode::RequestOff),
            (SpeculationChoice::Force, _) if self.rows_depend => (false, GateCode::RowsDepend),
            (SpeculationChoice::Force, SpeculationPolicy::Off) => (false, GateCode::PolicyOff),
            (SpeculationChoice::Force, _) => (true, GateCode::RequestForce),
            (SpeculationChoice::Auto, _) => return self.verdict,
        };
        GateVerdict { on, because, ..self.verdict }
    }

    /// The verdict, if it turned on or off since this was last asked.
    pub fn take_turn(&mut self) -> Option<GateVerdict> {
        std::mem::take(&mut self.turned).then_some(self.verdict)
    }

    fn decide(&mut self, on: bool, because: GateCode) {
        if on != self.verdict.on {
            self.turned = true;
            self.measured.clear();
            self.no_gain = 0;
            self.silent = 0;
        }
        self.verdict.on = on;
        self.verdict.because = because;
    }

    /// Chooses the widths of the next pass: one offer per decoding sequence, `None` where nothing is proposed.
    pub fn allot(&mut self, offers: &[Option<Offer>]) -> Allotment {
        let forced = |o: &Option<Offer>| o.filter(|o| o.forced).map_or(0, |o| o.width);
        let open = |o: &Option<Offer>| o.map_or(0, |o| o.width);
        match self.policy {
            _ if self.rows_depend => Allotment { widths: vec![0; offers.len()], purpose: Purpose::Plain },
            SpeculationPolicy::Off => Allotment { widths: vec![0; offers.len()], purpose: Purpose::Plain },
            SpeculationPolicy::Force => Allotment { widths: offers.iter().map(open).collect(), purpose: Purpose::Gain },
            SpeculationPolicy::Published => {
                self.judge_published(offers);
                let widths = offers.iter().map(|o| if self.verdict.on { open(o) } else { forced(o) }).collect();
                Allotment { widths, purpose: if self.verdict.on { Purpose::Gain } else { Purpose::Plain } }
            }
            SpeculationPolicy::Gain => self
                .allot_by_gain(offers)
                .unwrap_or_else(|| Allotment { widths: offers.iter().map(forced).collect(), purpose: Purpose::Plain }),
        }
    }

    fn judge_published(&mut self, offers: &[Option<Offer>]) {
        let n = offers.len();
        let serial = self.costs.estimate(n, n);
        let verify = self.costs.estimate(n + offers.iter().flatten().map(|o| o.width).sum::<usize>(), n);
        match (self.observed.share(), serial.or(verify)) {
            (Some(r), Some(s)) if opens(r, verify.unwrap_or(s), s) => self.decide(true, GateCode::AcceptanceHigh),
            (Some(_), Some(_)) => self.decide(false, GateCode::AcceptanceLow),
            _ => self.decide(false, GateCode::TooFewObservations),
        }
    }

    /// `None` = a plain pass.
    fn allot_by_gain(&mut self, offers: &[Option<Offer>]) -> Option<Allotment> {
        let n = offers.len();
        if !offers.iter().flatten().any(|o| !o.forced && o.width > 0) {
            self.silent += 1;
            if self.silent >= SILENCE && self.verdict.because != GateCode::MeasuredLoss {
                self.verdict.predicted_gain = self.declined;
                let because = if self.declined.is_some() { GateCode::PredictedLoss } else { GateCode::NothingProposed };
                self.decide(false, because);
            }
            return None;
        }
        self.silent = 0;
        let plain = self.costs.estimate(n, n)?;
        let costs = &self.costs;
        let Some(best) = best(offers, |rows| costs.estimate(rows, n)) else {
            // What windows cost is not known: verify some of it a few times to see.
            self.decide(false, GateCode::Unmeasured);
            return self.explore(offers.iter().map(measured_width).collect(), plain);
        };
        self.verdict.predicted_gain = Some(best.gain);
        let held = self.passes < self.held_until;
        if !held && best.gain >= if self.verdict.on { STAYS_AT } else { OPENS_AT } {
            self.no_gain = 0;
            self.decide(true, GateCode::PredictedGain);
            // Now and then a plain pass, so that what windows are compared with is of today.
            if self.exploration > 0.0 && self.since_plain as f64 >= 1.0 / self.exploration {
                return None;
            }
            // A window of which nothing holds must not lose more than may be lost.
            if self.ledger.forbids(self.at_stake(&best.widths, plain), plain) {
                return None;
            }
            return Some(Allotment { widths: best.widths, purpose: Purpose::Gain });
        }
        self.no_gain += 1;
        if !held && (!self.verdict.on || self.no_gain >= PATIENCE) {
            self.decide(false, GateCode::PredictedLoss);
        }
        if self.verdict.on {
            return None;
        }
        self.explore(self.worth_measuring(offers, plain)?, plain)
    }

    /// Widths whose cost is not known of late, and that might pay.
    fn worth_measuring(&self, offers: &[Option<Offer>], plain: f64) -> Option<Vec<usize>> {
        let n = offers.len();
        let hoped = |rows| self.costs.estimate(rows, n).map(|took| plain + (took - plain) * HOPE);
        let narrow: Vec<_> = offers.iter().map(|o| o.map(|of| Offer { width: measured_width(o), ..of })).collect();
        let best = best(&narrow, hoped)?;
        let known = self.costs.measured(n + best.widths.iter().sum::<usize>(), n, FRESH);
        (best.gain >= OPENS_AT && !known).then_some(best.widths)
    }

    /// These widths, if the ledger allows a pass of which nothing holds.
    fn explore(&mut self, widths: Vec<usize>, plain: f64) -> Option<Allotment> {
        let allowed = self.exploration > 0.0 && !self.ledger.forbids(self.at_stake(&widths, plain), plain);
        allowed.then_some(Allotment { widths, purpose: Purpose::Measure })
    }

    /// What a pass loses if nothing of its windows holds. Where that is not known, a row costs what one of a plain pass
    /// does at the most: its share of all that the pass takes.
    fn at_stake(&self, widths: &[usize], plain: f64) -> f64 {
        let (n, proposed) = (widths.len(), widths.iter().sum::<usize>());
        let most = plain * proposed as f64 / n.max(1) as f64;
        self.costs.estimate(n + proposed, n).map_or(most, |took| took - plain)
    }

    /// Takes in a pass: what it cost, and what it gained if it carried windows.
    pub fn note_pass(&mut self, pass: &Pass) {
        self.passes += 1;
        let windows = pass.rows > pass.sequences;
        self.since_plain = if windows { self.since_plain + 1 } else { 0 };
        let assisting = std::mem::take(&mut self.assisting);
        // Beside prompt rows the decode rows' own cost cannot be told.
        if pass.prompt_rows > 0 || pass.sequences == 0 {
            return;
        }
        let expected = self.costs.estimate(pass.rows, pass.sequences);
        self.costs.note(pass.rows, pass.sequences, pass.took);
        let Some(plain) = self.costs.estimate(pass.sequences, pass.sequences) else { return };
        // The median of such passes, where it is known: what a plain one takes is a median too, and against that the pauses
        // of a busy machine would count as a loss by windows.
        let typical = self.costs.typical(pass.rows, pass.sequences);
        let took = typical.unwrap_or((pass.took.0 as f64).min(PAUSE * expected.unwrap_or(plain))) + assisting;
        self.ledger.earned += plain * self.exploration;
        self.tries.earned += plain * self.exploration * TRIES_SHARE;
        if !windows {
            self.ledger.note(assisting, plain);
            return;
        }
        let plainly = plain * pass.committed as f64 / pass.sequences as f64;
        if pass.purpose != Purpose::Plain {
            self.ledger.note(took - plainly, plain);
        }
        if self.measured.len() == MEASURED {
            self.measured.pop_front();
        }
        self.measured.push_back((plainly, took));
        let (plainly, took) = self.measured.iter().fold((0.0, 0.0), |(p, t), m| (p + m.0, t + m.1));
        let gain = (took > 0.0).then(|| plainly / took);
        self.verdict.measured_gain = gain;
        if self.policy == SpeculationPolicy::Gain && self.verdict.on {
            let told = self.measured.len() >= MEASURED_LEAST;
            if (told && gain.is_some_and(|g| g < LOSS_AT)) || self.ledger.forbids(0.0, plain) {
                self.held_until = self.passes + self.hold;
                self.hold = (self.hold * 2).min(HOLD.1);
                self.decide(false, GateCode::MeasuredLoss);
            } else if self.measured.len() == MEASURED {
                self.hold = HOLD.0;
            }
        }
    }

    /// Takes in a proposal whose fate is known, verified or not.
    pub fn note_evidence(&mut self, evidence: &Evidence) {
        self.survival.note(&evidence.retired, evidence.native, evidence.tail);
        let r = &evidence.retired;
        if r.ending != super::Ending::AcceptedStop {
            self.observed.note(r.accepted == r.proposed());
        }
    }
}

/// What of an offer is verified to see what windows cost.
fn measured_width(offer: &Option<Offer>) -> usize {
    offer.map_or(0, |o| if o.forced { o.width } else { o.width.min(MEASURED_WIDTH) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::speculation::SURVIVAL_DEPTHS;

    fn offer(width: usize, chance: f64) -> Option<Offer> {
        Some(Offer { width, forced: false, odds: [chance; SURVIVAL_DEPTHS] })
    }

    /// Offers from 1 to 32 tokens over four sequences, in no order, where every row costs the same and nothing holds. The
    /// time of all passes, what plain ones would have taken, and the passes that measured.
    fn offered_in_vain(chance: f64, passes: usize) -> (u64, u64, usize) {
        let mut gate = Gate::new(&SpeculationSettings::default());
        let cost = |rows: usize| 1_000 * rows as u64;
        let (mut plainly, mut took, mut measuring) = (0, 0, 0);
        for pass in 0..passes {
            let wanted = 1 + pass * 5 % 32;
            let offers: Vec<_> = (0..4).map(|i| offer(wanted.saturating_sub(i * 8).min(8), chance)).collect();
            let Allotment { widths, purpose } = gate.allot(&offers);
            let rows = 4 + widths.iter().sum::<usize>();
            plainly += cost(4);
            took += cost(rows);
            measuring += usize::from(purpose == Purpose::Measure);
            let took = Micros(cost(rows));
            gate.note_pass(&Pass { sequences: 4, rows, prompt_rows: 0, committed: 4, took, purpose });
        }
        (took, plainly, measuring)
    }

    /// What measuring may lose is bounded, however many row counts there are to measure.
    #[test]
    fn the_ledger_bounds_what_measuring_loses() {
        let (took, plainly, measuring) = offered_in_vain(0.9, 2_000);
        assert!(measuring > 10, "it does measure: {measuring}");
        let lost = (took - plainly) as f64 / plainly as f64;
        assert!(lost > 0.0 && lost <= 0.03, "{lost}");
    }

    /// Once there is a line to reckon with, windows that seldom hold are not measured: nothing would follow from it.
    #[test]
    fn what_could_not_pay_is_not_measured() {
        let (.., at_first) = offered_in_vain(0.3, 100);
        let (.., at_last) = offered_in_vain(0.3, 4_000);
        assert_eq!(at_first, at_last);
        assert!((1..=12).contains(&at_last), "{at_last}");
    }

    /// A pass of one sequence.
    fn pass(rows: usize, committed: usize, us: u64, purpose: Purpose) -> Pass {
        Pass { sequences: 1, rows, prompt_rows: 0, committed, took: Micros(us), purpose }
    }

    /// A gate that explores nothing and knows: a plain pass takes 1 000, one with four proposed tokens 1 100.
    fn taught() -> Gate {
        let mut gate = Gate::new(&SpeculationSettings { exploration_ratio: 0.0, ..SpeculationSettings::default() });
        for _ in 0..9 {
            gate.note_pass(&pass(1, 1, 1_000, Purpose::Plain));
            gate.note_pass(&pass(5, 1, 1_100, Purpose::Plain));
        }
        gate
    }

    #[test]
    fn a_measured_loss_shuts_it_whatever_is_expected_and_for_longer_each_time() {
        let mut gate = taught();
        // Five tokens are expected of each window, and one comes.
        let mut shut = Vec::new();
        for i in 0..400 {
            let allotment = gate.allot(&[offer(4, 0.99)]);
            let rows = 1 + allotment.widths[0];
            gate.note_pass(&pass(rows, 1, if rows > 1 { 1_100 } else { 1_000 }, allotment.purpose));
            if let Some(turn) = gate.take_turn().filter(|t| !t.on) {
                assert_eq!(turn.because, GateCode::MeasuredLoss);
                shut.push(i);
            }
        }
        assert!(shut.len() >= 2 && shut.len() < 8, "{shut:?}");
        let gaps: Vec<usize> = shut.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.windows(2).all(|g| g[1] > g[0]), "{gaps:?}");
    }

    /// Of a busy machine every second or third pass takes many times as long, with windows or without.
    #[test]
    fn pauses_are_no_loss_by_windows() {
        let mut gate = taught();
        for i in 0..300usize {
            let allotment = gate.allot(&[offer(4, 0.5)]);
            assert_eq!(allotment.widths, [4], "pass {i}: {:?}", gate.verdict());
            // Half as fast again as plain passes, if the pauses are left out.
            let took = if i % 5 < 2 { 9_000 } else { 1_100 };
            gate.note_pass(&pass(5, 1 + i % 2, took, allotment.purpose));
        }
        assert!(gate.verdict().measured_gain.is_some_and(|gain| gain > 1.2), "{:?}", gate.verdict());
    }

    #[test]
    fn passes_with_prompts_teach_nothing_about_costs() {
        let mut gate = Gate::new(&SpeculationSettings::default());
        for _ in 0..9 {
            let purpose = Purpose::Plain;
            gate.note_pass(&Pass { sequences: 1, rows: 1, prompt_rows: 64, committed: 1, took: Micros(9), purpose });
        }
        assert_eq!(gate.costs().estimate(1, 1), None);
    }
}
