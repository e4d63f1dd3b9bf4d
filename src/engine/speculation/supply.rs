//! The proposed tokens of one epoch: what was sent, what is left to send, and where each came from.
//!
//! An epoch begins with a committed token and ends with the first token that the target refutes, or when nothing more is
//! proposed. Windows are cut from it one after the other. Behind each window one more candidate is held back: the token
//! expected as the target's own, the *bridge*, which is the first input of the next window. When a window takes the last
//! candidates there is no bridge; the supply is *sealed*: nothing may follow until that window has come back.

use super::acceptance::Ending;
use super::proposers::Proposal;
use super::survival::Retired;
use std::collections::VecDeque;

/// The proposals of one window, and the token expected behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub tokens: Vec<u32>,
    pub native: usize,
    pub bridge: Option<u32>,
}

/// What became of a refill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    Tokens(usize),
    Nothing,
    /// The supply is sealed: its last window was sent without a token expected behind it.
    Refused,
}

/// One proposal's share of an epoch: its tokens count survival from its own beginning.
#[derive(Debug, Clone, Copy)]
struct Segment {
    native: usize,
    tail: usize,
}

/// The supply of one epoch.
#[derive(Debug, Clone, Default)]
pub struct Supply {
    segments: Vec<Segment>,
    /// Every token of the epoch, in order.
    tokens: Vec<u32>,
    /// Tokens that windows have carried; the bridge counts once the window that begins with it is cut.
    sent: usize,
    /// The last cut window's bridge, which is `tokens[sent]`.
    bridged: bool,
    sealed: bool,
}

impl Supply {
    /// A new epoch's supply.
    pub fn new(proposal: &Proposal) -> Supply {
        let mut supply = Supply::default();
        supply.push(proposal);
        supply
    }

    fn push(&mut self, proposal: &Proposal) {
        if !proposal.is_empty() {
            self.segments.push(Segment { native: proposal.native, tail: proposal.tail() });
            self.tokens.extend_from_slice(&proposal.tokens);
        }
    }

    /// Appends a refill, as a segment of its own. A sealed supply refuses it; nothing to append is never refused.
    pub fn append(&mut self, refill: &Proposal) -> Appended {
        if refill.is_empty() {
            return Appended::Nothing;
        }
        if self.sealed {
            return Appended::Refused;
        }
        self.push(refill);
        Appended::Tokens(refill.len())
    }

    /// Candidates for the next window and what follows it: the bridge, which begins that window, is not one.
    pub fn available(&self) -> usize {
        self.tokens.len() - self.sent - usize::from(self.bridged)
    }

    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Every token of the epoch from the `from`th on: the optimistic continuation of what is committed by then.
    pub fn from(&self, from: usize) -> &[u32] {
        &self.tokens[from.min(self.tokens.len())..]
    }

    /// Cuts the next window of at most `width` proposals. Behind the first, its current token is the bridge. `None` when
    /// sealed, or behind the first when nothing is left to begin with.
    pub fn cut(&mut self, width: usize) -> Option<Chunk> {
        if self.sealed {
            return None;
        }
        let from = self.sent + usize::from(self.bridged);
        let to = (from + width).min(self.tokens.len());
        let bridge = self.tokens.get(to).copied();
        let chunk = Chunk { tokens: self.tokens[from..to].to_vec(), native: self.native_in(from, to), bridge };
        self.sent = to;
        self.bridged = bridge.is_some();
        self.sealed = bridge.is_none();
        Some(chunk)
    }

    /// Leading native tokens of a range.
    fn native_in(&self, from: usize, to: usize) -> usize {
        let mut at = 0;
        let mut native = 0;
        for s in &self.segments {
            let (lo, hi) = (at.max(from), (at + s.native).min(to));
            if hi > lo && lo == from + native {
                native += hi - lo;
            }
            at += s.native + s.tail;
        }
        native
    }

    /// The fates of the segments of an epoch that ended after `accepted` of its tokens held. Segments that begin behind
    /// the end were never judged.
    pub fn retire(&self, accepted: usize, ending: Ending) -> VecDeque<Retired> {
        let mut at = 0;
        let mut retired = VecDeque::new();
        for s in &self.segments {
            let len = s.native + s.tail;
            let behind = at > accepted || (at == accepted && at > 0 && ending == Ending::AcceptedStop);
            if behind || (at == accepted && ending == Ending::AllAccepted) {
                break;
            }
            let held = (accepted - at).min(len);
            let ending = if held == len { Ending::AllAccepted } else { ending };
            retired.push_back(Retired { native: s.native, tail: s.tail, accepted: held, ending });
            at += len;
        }
        retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(tokens: &[u32], native: usize) -> Proposal {
        Proposal { tokens: tokens.to_vec(), native, matched: 3, span_available: true, ..Proposal::default() }
    }

    fn chunk(tokens: &[u32], bridge: Option<u32>) -> Option<Chunk> {
        Some(Chunk { tokens: tokens.to_vec(), native: 0, bridge })
    }

    #[test]
    fn vector_five_proposals_in_windows_of_two() {
        let mut s = Supply::new(&proposal(&[9, 1, 2, 3, 4], 0));
        assert_eq!(s.cut(2), chunk(&[9, 1], Some(2)));
        assert!(!s.is_sealed());
        assert_eq!(s.cut(2), chunk(&[3, 4], None));
        assert!(s.is_sealed());
        assert_eq!(s.cut(2), None);
    }

    #[test]
    fn sealed_refuses_a_refill_but_nothing_is_no_error() {
        let mut s = Supply::new(&proposal(&[9, 1], 0));
        assert_eq!(s.cut(2), chunk(&[9, 1], None));
        assert_eq!(s.append(&proposal(&[2], 0)), Appended::Refused);
        assert_eq!(s.append(&proposal(&[], 0)), Appended::Nothing);
        assert_eq!((s.available(), s.from(0)), (0, [9, 1].as_slice()));
    }

    #[test]
    fn a_refill_before_the_last_window_keeps_it_open() {
        let mut s = Supply::new(&proposal(&[9, 1, 2], 0));
        assert_eq!(s.cut(2), chunk(&[9, 1], Some(2)));
        assert_eq!(s.append(&proposal(&[3, 4, 5], 0)), Appended::Tokens(3));
        assert_eq!(s.available(), 3);
        assert_eq!(s.cut(2), chunk(&[3, 4], Some(5)));
        assert_eq!(s.cut(2), chunk(&[], None), "the bridge alone is a window of one input");
        assert!(s.is_sealed());
    }

    #[test]
    fn an_empty_supply_gives_one_plain_window() {
        let mut s = Supply::new(&proposal(&[], 0));
        assert_eq!(s.cut(4), chunk(&[], None));
        assert_eq!(s.cut(4), None);
    }

    #[test]
    fn native_drafts_are_those_at_the_head_of_a_window() {
        let mut s = Supply::new(&proposal(&[9, 1, 2, 3, 4, 5], 3));
        assert_eq!(s.cut(2).map(|c| c.native), Some(2));
        // 2 is the bridge; what follows is copied.
        assert_eq!(s.cut(3).map(|c| c.native), Some(0));
    }

    fn fates(accepted: usize, ending: Ending) -> Vec<(usize, usize, usize, Ending)> {
        let mut s = Supply::new(&proposal(&[9, 1, 2], 1));
        s.append(&proposal(&[3, 4], 0));
        s.append(&proposal(&[5, 6], 0));
        s.retire(accepted, ending).into_iter().map(|r| (r.native, r.tail, r.accepted, r.ending)).collect()
    }

    #[test]
    fn survival_counts_each_refill_from_its_own_beginning() {
        use Ending::{AcceptedStop, AllAccepted, Rejected};
        assert_eq!(fates(2, Rejected), [(1, 2, 2, Rejected)]);
        assert_eq!(fates(4, Rejected), [(1, 2, 3, AllAccepted), (0, 2, 1, Rejected)]);
        // Refuted at the first token of the refill: it was judged.
        assert_eq!(fates(3, Rejected), [(1, 2, 3, AllAccepted), (0, 2, 0, Rejected)]);
        assert_eq!(fates(7, AllAccepted).len(), 3);
        // The answer ended exactly before the refill: nothing is known of it.
        assert_eq!(fates(3, AcceptedStop), [(1, 2, 3, AllAccepted)]);
        assert_eq!(fates(4, AcceptedStop), [(1, 2, 3, AllAccepted), (0, 2, 1, AcceptedStop)]);
        assert_eq!(fates(0, AcceptedStop), [(1, 2, 0, AcceptedStop)]);
    }
}
