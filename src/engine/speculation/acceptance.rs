//! Which tokens of a window hold.
//!
//! A proposal holds when it equals the token that the target emits at its position, greedy and sampled alike: so what is
//! committed is what the target would have emitted anyway, whatever was proposed.

use super::window::Window;

/// How the verification of a window ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every proposal held, and the target added a token of its own.
    AllAccepted,
    /// The target emitted another token than the one proposed.
    Rejected,
    /// The answer ended inside the window (end token, stop string, budget). No proposal was refuted.
    AcceptedStop,
}

/// A settled window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Tokens to commit, in order.
    pub commit: Vec<u32>,
    /// Proposals that held.
    pub accepted: usize,
    /// Proposals that the window carried.
    pub proposed: usize,
    pub ending: Ending,
}

impl Accepted {
    /// Whether the target refuted a proposal.
    pub fn rejected(&self) -> bool {
        self.ending == Ending::Rejected
    }
}

/// Whether a verification needs another prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    More,
    Settled,
}

/// The verification of one window, prediction by prediction.
///
/// One by one, because a prediction may depend on what the ones before it committed (penalties, stop strings): the
/// target's token for position `i + 1` is only known once the token at `i` is committed.
#[derive(Debug, Clone)]
pub struct Check {
    proposals: Vec<u32>,
    budget: usize,
    commit: Vec<u32>,
    ending: Option<Ending>,
}

impl Check {
    /// Begins to verify `window`; at most `budget` tokens may be committed.
    pub fn new(window: &Window, budget: usize) -> Check {
        Check::of(window.proposals(), budget)
    }

    fn of(proposals: &[u32], budget: usize) -> Check {
        Check {
            proposals: proposals.to_vec(),
            budget,
            commit: Vec::with_capacity(proposals.len() + 1),
            // Nothing may be committed: nothing is refuted either.
            ending: (budget == 0).then_some(Ending::AcceptedStop),
        }
    }

    /// Takes the target's next token, which is committed. `ends`: the answer ends with it.
    pub fn take(&mut self, predicted: u32, ends: bool) -> Next {
        if self.ending.is_some() {
            return Next::Settled;
        }
        let i = self.commit.len();
        self.commit.push(predicted);
        self.ending = match self.proposals.get(i) {
            None => Some(Ending::AllAccepted),
            Some(proposed) if *proposed != predicted => Some(Ending::Rejected),
            Some(_) if ends || self.commit.len() == self.budget => Some(Ending::AcceptedStop),
            Some(_) => None,
        };
        if self.ending.is_some() { Next::Settled } else { Next::More }
    }

    /// Whether another prediction is needed.
    pub fn next(&self) -> Next {
        if self.ending.is_some() { Next::Settled } else { Next::More }
    }

    /// Tokens committed so far.
    pub fn committed(&self) -> &[u32] {
        &self.commit
    }

    /// The outcome. A verification that was broken off counts as one in which the answer ended.
    pub fn finish(self) -> Accepted {
        let ending = self.ending.unwrap_or(Ending::AcceptedStop);
        let committed = self.commit.len();
        let accepted = match ending {
            Ending::AllAccepted | Ending::Rejected => committed - 1,
            Ending::AcceptedStop => committed,
        };
        Accepted { commit: self.commit, accepted, proposed: self.proposals.len(), ending }
    }
}

/// Verifies a window whose predictions are all there.
pub fn accept(proposals: &[u32], predictions: &[u32], budget: usize, ends: impl Fn(u32) -> bool) -> Accepted {
    let mut check = Check::of(proposals, budget);
    for &token in predictions {
        if check.next() == Next::Settled || check.take(token, ends(token)) == Next::Settled {
            break;
        }
    }
    check.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEVER: fn(u32) -> bool = |_| false;

    #[test]
    fn all_equal_commits_the_targets_own_token_too() {
        let a = accept(&[11, 12, 13], &[11, 12, 13, 14], 100, NEVER);
        assert_eq!((a.accepted, a.commit.as_slice(), a.ending), (3, [11, 12, 13, 14].as_slice(), Ending::AllAccepted));
    }

    #[test]
    fn the_first_mismatch_commits_the_targets_token_and_rejects_the_rest() {
        let a = accept(&[11, 12], &[11, 42, 99], 100, NEVER);
        assert_eq!((a.accepted, a.commit.as_slice(), a.rejected()), (1, [11, 42].as_slice(), true));
        let a = accept(&[11, 12], &[9, 12, 99], 100, NEVER);
        assert_eq!((a.accepted, a.commit.as_slice(), a.rejected()), (0, [9].as_slice(), true));
    }

    #[test]
    fn an_end_inside_is_no_rejection() {
        let a = accept(&[11, 12, 13], &[11, 12, 13, 14], 100, |t| t == 12);
        assert_eq!((a.accepted, a.commit.as_slice(), a.ending), (2, [11, 12].as_slice(), Ending::AcceptedStop));
    }

    #[test]
    fn the_budget_inside_is_no_rejection() {
        let a = accept(&[11, 12, 13], &[11, 12, 13, 14], 2, NEVER);
        assert_eq!((a.accepted, a.commit.as_slice(), a.ending), (2, [11, 12].as_slice(), Ending::AcceptedStop));
        let a = accept(&[11, 12, 13], &[11, 12, 13, 14], 3, NEVER);
        assert_eq!((a.accepted, a.commit.len(), a.ending), (3, 3, Ending::AcceptedStop));
        let a = accept(&[11, 12, 13], &[11, 12, 13, 14], 4, NEVER);
        assert_eq!((a.accepted, a.commit.len(), a.ending), (3, 4, Ending::AllAccepted));
        let a = accept(&[11], &[11, 12], 0, NEVER);
        assert_eq!((a.accepted, a.commit.len(), a.ending), (0, 0, Ending::AcceptedStop));
    }

    #[test]
    fn an_end_token_that_was_not_proposed_refutes_what_was() {
        let a = accept(&[11, 12], &[11, 2, 99], 100, |t| t == 2);
        assert_eq!((a.accepted, a.commit.as_slice(), a.ending), (1, [11, 2].as_slice(), Ending::Rejected));
    }

    #[test]
    fn no_proposals_is_a_plain_step() {
        let a = accept(&[], &[5], 100, NEVER);
        assert_eq!((a.accepted, a.proposed, a.commit.as_slice()), (0, 0, [5].as_slice()));
        assert_eq!(a.ending, Ending::AllAccepted);
    }

    #[test]
    fn predictions_behind_the_settlement_are_not_taken() {
        let mut check = Check::new(&Window::new(0, 1, &[11, 12], 0), 100);
        assert_eq!(check.take(40, false), Next::Settled);
        assert_eq!(check.take(12, false), Next::Settled);
        assert_eq!(check.finish().commit, [40]);
    }

    #[test]
    fn a_verification_broken_off_keeps_what_held() {
        let mut check = Check::new(&Window::new(0, 1, &[11, 12], 0), 100);
        assert_eq!(check.take(11, false), Next::More);
        let a = check.finish();
        assert_eq!((a.accepted, a.ending), (1, Ending::AcceptedStop));
    }

    proptest! {
        /// What is committed is the beginning of what the target emits, at most one more than what was accepted.
        #[test]
        fn commits_are_a_prefix_of_the_targets_tokens(
            proposals in prop::collection::vec(0u32..4, 0..8),
            tail in prop::collection::vec(0u32..4, 9),
            keep in 0usize..9,
            budget in 1usize..12,
            end in 0u32..6,
        ) {
            // Predictions that agree with the proposals for a while.
            let mut predictions = tail;
            let keep = keep.min(proposals.len());
            predictions[..keep].copy_from_slice(&proposals[..keep]);
            predictions.truncate(proposals.len() + 1);
            let a = accept(&proposals, &predictions, budget, |t| t == end);
            prop_assert!(predictions.starts_with(&a.commit));
            prop_assert!(!a.commit.is_empty() && a.commit.len() <= budget);
            prop_assert_eq!(&proposals[..a.accepted], &predictions[..a.accepted]);
            prop_assert!(a.accepted <= a.commit.len() && a.commit.len() <= a.accepted + 1);
            // Nothing behind the end of an answer.
            let end_at = a.commit.iter().position(|t| *t == end);
            prop_assert!(end_at.is_none_or(|i| i + 1 == a.commit.len() ));
            if a.rejected() {
                prop_assert_ne!(proposals[a.accepted], predictions[a.accepted]);
            }
        }
    }
}
