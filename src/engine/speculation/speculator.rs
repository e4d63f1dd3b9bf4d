//! The speculative path of one sequence.
//!
//! Per iteration: [`Speculator::offer`] looks up what may follow, the gate allots a width, [`Speculator::open`] makes the
//! window, the forward pass runs, a [`Check`](super::Check) takes the target's tokens, [`Speculator::settle`] learns.
//!
//! A proposal that gets no rows is not lost: it becomes a shadow, compared with the tokens that plain steps emit. Its fate
//! is evidence as good as a window's, for nothing.

use super::acceptance::{Accepted, Ending};
use super::allot::Offer;
use super::assist::{AGAIN, FEW, Wanting};
use super::proposers::{Draft, DraftOrigin, Proposal, Proposer, Source};
use super::survival::{Estimates, Retired};
use super::width::{Width, WidthLimits};
use super::window::Window;
use crate::control::speculation::{SURVIVAL_DEPTHS, SpeculationChoice, SpeculationPolicy, SpeculationTally};
use crate::profile::SpeculationSettings;

/// Within a sequence, an observation weighs half after this many more.
const HALF_LIFE: f64 = 12.0;

/// A proposal whose fate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    pub retired: Retired,
    pub native: Source,
    pub tail: Source,
    /// Whether it was verified in a window; else it was only compared with what came anyway.
    pub verified: bool,
}

/// A proposal that is only watched.
#[derive(Debug, Clone)]
struct Shadow {
    proposal: Proposal,
    held: usize,
}

/// What a settled window taught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// What was verified, as it counts in reports; `None` for a plain step.
    pub verified: Option<Retired>,
    /// What the window told, the target's own token behind it included.
    pub window: Option<Evidence>,
    /// The fate of a proposal that was only watched.
    pub shadow: Option<Evidence>,
}

impl Settled {
    pub fn evidence(&self) -> impl Iterator<Item = &Evidence> {
        self.window.iter().chain(&self.shadow)
    }
}

/// The speculative state of one sequence.
pub struct Speculator {
    choice: SpeculationChoice,
    proposer: Box<dyn Proposer>,
    width: Width,
    /// The gate weighs every token by its chance to hold, so that the widest window may be offered; else the width that
    /// grew from what held bounds it.
    weighed: bool,
    estimates: Estimates,
    tally: SpeculationTally,
    cooldown_tokens: usize,
    /// Plain tokens still to come.
    cooldown: usize,
    offered: Option<Proposal>,
    /// What the window under way was cut from.
    opened: Option<Proposal>,
    shadow: Option<Shadow>,
    /// Where the last draft began, and the last step.
    fed: Option<usize>,
    began: usize,
}

impl Speculator {
    pub fn new(settings: &SpeculationSettings, choice: SpeculationChoice, proposer: Box<dyn Proposer>) -> Speculator {
        Speculator {
            choice,
            proposer,
            width: Width::new(limits(settings)),
            weighed: weighed(settings, choice),
            estimates: Estimates::new(HALF_LIFE),
            tally: SpeculationTally::default(),
            cooldown_tokens: settings.reject_cooldown_tokens,
            cooldown: 0,
            offered: None,
            opened: None,
            shadow: None,
            fed: None,
            began: 0,
        }
    }

    /// Other widths and another cooldown, from the next offer on. The proposer stays.
    pub fn configure(&mut self, settings: &SpeculationSettings) {
        self.width.limit(limits(settings));
        self.weighed = weighed(settings, self.choice);
        self.cooldown_tokens = settings.reject_cooldown_tokens;
        self.cooldown = self.cooldown.min(self.cooldown_tokens);
    }

    pub fn choice(&self) -> SpeculationChoice {
        self.choice
    }

    /// What windows did for this sequence so far.
    pub fn tally(&self) -> &SpeculationTally {
        &self.tally
    }

    /// The width that the next window may have.
    pub fn width(&self) -> usize {
        self.width.current()
    }

    /// What a draft that begins at `at` comes after.
    pub fn origin(&self, at: usize) -> DraftOrigin {
        match self.fed {
            None => DraftOrigin::InitialSerial,
            // The last one began where the step before did: nothing was without a draft in between.
            Some(last) if last == self.began && at > last => DraftOrigin::VerifyNext,
            Some(_) => DraftOrigin::SerialAfterGap,
        }
    }

    /// Hands over a draft that a model made for this sequence.
    pub fn feed(&mut self, draft: Draft) {
        self.fed = Some(draft.at);
        self.proposer.feed(draft);
    }

    /// Whether a draft of a model would be better than what the text offers to copy. Asked before [`offer`](Self::offer),
    /// with the same arguments. `told`: tokens to draft where the gate does not weigh them.
    pub fn wants_draft(&mut self, history: &[u32], budget: usize, model: &Estimates) -> Option<Wanting> {
        let room = budget.saturating_sub(1).min(self.width.max());
        if self.choice == SpeculationChoice::Off || self.cooldown > 0 || room == 0 || history.is_empty() {
            return None;
        }
        self.proposer.sync(history);
        let copy = self.proposer.propose(&[], room);
        let odds = self.estimates.survival(Source::Native, Some(model));
        let copied = self.estimates.survival(copy.tail_source(), Some(model));
        if copy.native > 0 || (!copy.is_empty() && copied[0] >= odds[0]) {
            return None;
        }
        let told = if self.weighed { 0 } else { self.width.offered(room, room) };
        let forced = self.choice == SpeculationChoice::Force;
        let fed = self.fed.is_some_and(|at| history.len() - at.min(history.len()) < AGAIN);
        let unsure = !fed || self.estimates.seen(Source::Native) < FEW;
        Some(Wanting { odds, room, told, left: budget, unread: history.len(), forced, unsure })
    }

    /// Looks up what may follow `history` (prompt and answer, all committed). At most `budget` more tokens may be
    /// committed; the target adds one of its own, so one proposal less is of use. `model`: what the whole model saw.
    pub fn offer(&mut self, history: &[u32], budget: usize, model: &Estimates) -> Option<Offer> {
        self.offered = None;
        if self.choice == SpeculationChoice::Off || self.cooldown > 0 {
            return None;
        }
        let room = budget.saturating_sub(1);
        if room == 0 || history.is_empty() {
            return None;
        }
        self.proposer.sync(history);
        let proposal = self.proposer.propose(&[], self.width.max().min(room));
        let widest = self.width.max().min(proposal.len()).min(room);
        let width = if self.weighed { widest } else { self.width.offered(proposal.len(), room) };
        if width == 0 {
            return None;
        }
        let odds = self.odds(&proposal, model);
        self.offered = Some(proposal);
        Some(Offer { width, forced: self.choice == SpeculationChoice::Force, odds })
    }

    /// P(at least `i + 1` tokens of the proposal hold) for every `i`.
    fn odds(&self, proposal: &Proposal, model: &Estimates) -> [f64; SURVIVAL_DEPTHS] {
        let mut odds = self.estimates.survival(Source::Native, Some(model));
        let tail = self.estimates.survival(proposal.tail_source(), Some(model));
        let drafts = proposal.native.checked_sub(1).map_or(1.0, |last| odds[last.min(SURVIVAL_DEPTHS - 1)]);
        for (at, p) in odds.iter_mut().skip(proposal.native).zip(tail) {
            *at = drafts * p;
        }
        odds
    }

    /// The next span of the sequence: a window of `width` proposals, or a decode row when that is 0.
    pub fn open(&mut self, history: &[u32], width: usize) -> Option<Window> {
        let (start, current) = (history.len().checked_sub(1)?, *history.last()?);
        self.began = history.len();
        let proposal = self.offered.take().unwrap_or_default();
        if width == 0 || proposal.is_empty() {
            if self.shadow.is_none() && !proposal.is_empty() {
                self.shadow = Some(Shadow { proposal, held: 0 });
            }
            self.opened = None;
            return Some(Window::new(start, current, &[], 0));
        }
        // The window is the better witness of the same tokens.
        self.shadow = None;
        let width = width.min(proposal.len());
        let window = Window::new(start, current, &proposal.tokens[..width], proposal.native);
        self.opened = Some(proposal);
        Some(window)
    }

    /// Takes in how the window under way ended. The pass may have carried fewer proposals than were allotted, or none.
    pub fn settle(&mut self, accepted: &Accepted) -> Settled {
        self.cooldown = self.cooldown.saturating_sub(accepted.commit.len());
        let settled = match self.opened.take() {
            Some(proposal) if accepted.proposed > 0 => {
                let (verified, evidence) = self.retire(&proposal, accepted);
                Settled { verified: Some(verified), window: Some(evidence), shadow: None }
            }
            unused => {
                let shadow = unused.map(|proposal| Shadow { proposal, held: 0 });
                self.shadow = self.shadow.take().or(shadow);
                Settled { verified: None, window: None, shadow: self.watch(&accepted.commit) }
            }
        };
        for e in settled.evidence() {
            self.estimates.note(&e.retired, e.native, e.tail);
        }
        settled
    }

    fn retire(&mut self, proposal: &Proposal, accepted: &Accepted) -> (Retired, Evidence) {
        match accepted.ending {
            Ending::AllAccepted => self.width.held(),
            Ending::Rejected => self.width.refuted(),
            Ending::AcceptedStop => {}
        }
        if accepted.rejected() && accepted.accepted < proposal.native {
            self.cooldown = self.cooldown_tokens;
        }
        let width = accepted.proposed;
        let (native, drafted) = (proposal.native.min(width), width as u64);
        let retired = Retired { native, tail: width - native, accepted: accepted.accepted, ending: accepted.ending };
        let t = &mut self.tally;
        t.draft_n += drafted;
        t.draft_n_accepted += accepted.accepted as u64;
        t.windows += 1;
        t.width_sum += drafted;
        t.width_max = t.width_max.max(drafted);
        t.in_flight_max = t.in_flight_max.max(1);
        retired.count(&mut t.survival);
        let told = with_the_targets_own(proposal, retired, accepted);
        let evidence = Evidence { retired: told, native: Source::Native, tail: proposal.tail_source(), verified: true };
        (retired, evidence)
    }

    /// Compares the watched proposal with tokens that came.
    fn watch(&mut self, commit: &[u32]) -> Option<Evidence> {
        let shadow = self.shadow.as_mut()?;
        for token in commit {
            let ending = match shadow.proposal.tokens.get(shadow.held) {
                Some(proposed) if proposed == token => {
                    shadow.held += 1;
                    if shadow.held < shadow.proposal.len() {
                        continue;
                    }
                    Ending::AllAccepted
                }
                _ => Ending::Rejected,
            };
            let Shadow { proposal, held } = self.shadow.take()?;
            if ending == Ending::AllAccepted {
                self.width.would_have_held(held);
            }
            let retired = Retired { native: proposal.native, tail: proposal.tail(), accepted: held, ending };
            return Some(Evidence { retired, native: Source::Native, tail: proposal.tail_source(), verified: false });
        }
        None
    }
}

fn weighed(settings: &SpeculationSettings, choice: SpeculationChoice) -> bool {
    settings.policy == SpeculationPolicy::Gain && choice == SpeculationChoice::Auto
}

fn limits(settings: &SpeculationSettings) -> WidthLimits {
    let max = settings.width_max.min(SpeculationSettings::WIDEST);
    WidthLimits { min: settings.width_min.min(max), max }
}

/// Behind a window that held, the target's own token tells whether one more proposed token would have held as well.
fn with_the_targets_own(proposal: &Proposal, retired: Retired, accepted: &Accepted) -> Retired {
    let width = retired.proposed();
    match (proposal.tokens.get(width), accepted.commit.get(width)) {
        (Some(next), Some(own)) if accepted.ending == Ending::AllAccepted => {
            let native = proposal.native.min(width + 1);
            let held = next == own;
            let ending = if held { Ending::AllAccepted } else { Ending::Rejected };
            Retired { native, tail: width + 1 - native, accepted: width + usize::from(held), ending }
        }
        _ => retired,
    }
}

#[cfg(test)]
mod tests {
    use super::super::proposers::{Composite, Drafts, NgramSimple, TailRule};
    use super::super::{DraftOrigin, accept};
    use super::*;

    fn speculator(proposer: impl Proposer + 'static, cooldown: usize) -> Speculator {
        let settings = SpeculationSettings {
            policy: SpeculationPolicy::Published,
            width_max: 4,
            reject_cooldown_tokens: cooldown,
            ..SpeculationSettings::default()
        };
        Speculator::new(&settings, SpeculationChoice::Auto, Box::new(proposer))
    }

    fn model() -> Estimates {
        Estimates::new(96.0)
    }

    /// Offers, opens at the full width and settles against `target`.
    fn step(s: &mut Speculator, history: &[u32], target: &[u32]) -> Settled {
        let width = s.offer(history, 100, &model()).map_or(0, |o| o.width);
        let window = s.open(history, width).expect("a history");
        let accepted = accept(window.proposals(), &target[..window.width() + 1], 100, |_| false);
        s.settle(&accepted)
    }

    #[test]
    fn a_rejection_among_drafts_is_followed_by_plain_tokens() {
        let mut s = speculator(Drafts::default(), 2);
        s.feed(Draft::new(2, vec![7, 8], DraftOrigin::InitialSerial));
        let settled = step(&mut s, &[1, 2], &[7, 9, 9]);
        assert_eq!(settled.window.map(|e| e.retired.accepted), Some(1));
        s.feed(Draft::new(4, vec![5], DraftOrigin::VerifyNext));
        assert_eq!(s.offer(&[1, 2, 7, 9], 100, &model()), None, "cooling down");
        step(&mut s, &[1, 2, 7, 9], &[5]);
        assert_eq!(s.offer(&[1, 2, 7, 9, 5], 100, &model()), None, "one more");
        step(&mut s, &[1, 2, 7, 9, 5], &[6]);
        s.feed(Draft::new(6, vec![5], DraftOrigin::SerialAfterGap));
        assert!(s.offer(&[1, 2, 7, 9, 5, 6], 100, &model()).is_some());
    }

    #[test]
    fn a_rejection_in_the_copied_tail_cools_nothing_down() {
        let mut s = speculator(Composite::new(Box::new(NgramSimple::new(2)), TailRule::BeginsWithDrafts), 5);
        let history = [2, 3, 9, 1, 7, 2, 3];
        s.feed(Draft::new(7, vec![9], DraftOrigin::InitialSerial));
        // The width is 2 at first, and a tail of one is dropped before that: the draft and two copies are cut to two.
        let settled = step(&mut s, &history, &[9, 4, 4]);
        let retired = settled.window.expect("a window").retired;
        assert_eq!((retired.native, retired.tail, retired.accepted), (1, 1, 1));
        let history = [2, 3, 9, 1, 7, 2, 3, 9, 4];
        s.feed(Draft::new(9, vec![8], DraftOrigin::VerifyNext));
        assert!(s.offer(&history, 100, &model()).is_some());
    }

    #[test]
    fn behind_a_window_that_held_the_targets_own_token_is_evidence_too() {
        let mut s = speculator(NgramSimple::new(2), 0);
        let history = [2, 3, 9, 1, 7, 8, 2, 3];
        let settled = step(&mut s, &history, &[9, 1, 7]);
        let retired = settled.window.expect("a window").retired;
        // Verified were two; the third would have held as well.
        assert_eq!((retired.tail, retired.accepted), (3, 3));
        assert_eq!((s.tally().draft_n, s.tally().draft_n_accepted), (2, 2));
    }

    #[test]
    fn what_gets_no_rows_is_watched() {
        let mut s = speculator(NgramSimple::new(2), 0);
        let mut history = vec![2, 3, 9, 1, 7, 8, 2, 3];
        let mut seen = Vec::new();
        for token in [9, 1, 5] {
            assert!(history.len() > 8 || s.offer(&history, 100, &model()).is_some());
            let window = s.open(&history, 0).expect("a history");
            assert_eq!(window.width(), 0);
            seen.extend(s.settle(&accept(&[], &[token], 100, |_| false)).shadow);
            history.push(token);
        }
        let retired = seen.first().expect("it broke").retired;
        assert_eq!((retired.tail, retired.accepted, retired.ending), (4, 2, Ending::Rejected));
        assert_eq!(seen.len(), 1);
        assert!(!seen[0].verified && s.tally().windows == 0);
    }

    #[test]
    fn a_window_that_the_pass_had_no_room_for_is_watched_instead() {
        let mut s = speculator(NgramSimple::new(2), 0);
        let history = [2, 3, 9, 1, 7, 8, 2, 3];
        s.offer(&history, 100, &model()).expect("an offer");
        s.open(&history, 2).expect("a window");
        let settled = s.settle(&accept(&[], &[4], 100, |_| false));
        assert_eq!(settled.shadow.map(|e| (e.retired.accepted, e.retired.ending)), Some((0, Ending::Rejected)));
        assert_eq!(s.tally().windows, 0);
    }

    #[test]
    fn the_gate_is_offered_all_that_it_weighs_itself() {
        let history: Vec<u32> = (0..20).chain(0..8).collect();
        let width = |policy, choice| {
            let settings = SpeculationSettings { policy, ..SpeculationSettings::default() };
            let mut s = Speculator::new(&settings, choice, Box::new(NgramSimple::new(3)));
            s.offer(&history, 100, &model()).map(|o| o.width)
        };
        assert_eq!(width(SpeculationPolicy::Gain, SpeculationChoice::Auto), Some(8));
        // Nobody weighs what is forced: it grows from what held.
        assert_eq!(width(SpeculationPolicy::Gain, SpeculationChoice::Force), Some(2));
        assert_eq!(width(SpeculationPolicy::Force, SpeculationChoice::Auto), Some(2));
    }

    #[test]
    fn the_last_token_needs_no_proposal() {
        let mut s = speculator(NgramSimple::new(2), 0);
        let history = [2, 3, 9, 1, 7, 8, 2, 3];
        assert_eq!(s.offer(&history, 1, &model()), None);
        assert_eq!(s.offer(&history, 2, &model()).map(|o| o.width), Some(1));
        assert_eq!(s.offer(&[], 9, &model()), None);
    }
}
