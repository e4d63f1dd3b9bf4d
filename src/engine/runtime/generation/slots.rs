//! The KV slots, and what idle ones still hold. Pure.
//!
//! A request that ends leaves its tokens in its slot. The next request that begins with the same tokens takes that slot
//! and computes only the rest. What is kept so counts as free: it goes as soon as a running sequence needs the room,
//! that unused for longest first.

/// A slot.
#[derive(Debug, Clone, Default)]
struct Slot {
    taken: bool,
    /// What an idle slot's KV cache holds; empty while it is taken.
    tokens: Vec<u32>,
    /// When it was last given back; rises.
    left_at: u64,
}

/// A match is worth having when what it saves, this many times over, outweighs what of the slot's tokens it throws
/// away: saving is certain, and that somebody comes back for the rest is not.
const WORTH: usize = 4;

/// A slot for a new sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub slot: usize,
    /// Tokens of the sequence that the slot's cache holds already.
    pub reused: usize,
}

/// All slots of a model.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Given back so far.
    count: u64,
    /// Slots that may be taken at once.
    limit: usize,
}

impl Slots {
    pub fn new(slots: usize) -> Slots {
        Slots { slots: vec![Slot::default(); slots], count: 0, limit: slots }
    }

    /// From now on at most so many are taken at once (at least one). Those beyond it that are taken run to their ends.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
    }

    /// Whether another slot may be taken.
    pub fn any_free(&self) -> bool {
        let taken = self.slots.iter().filter(|s| s.taken).count();
        taken < self.limit.min(self.slots.len())
    }

    /// Tokens kept in idle slots.
    pub fn cached(&self) -> usize {
        self.slots.iter().map(|s| s.tokens.len()).sum()
    }

    /// Takes the free slot that suits a sequence of `tokens` best: the longest common start that is worth its price,
    /// else an empty one, else the one unused for longest. At least one token is left to compute.
    pub fn take(&mut self, tokens: &[u32]) -> Option<Place> {
        if !self.any_free() {
            return None;
        }
        let most = tokens.len().saturating_sub(1);
        let reused = |s: &Slot| common(&s.tokens, &tokens[..most]);
        let free = || self.slots.iter().enumerate().filter(|(_, s)| !s.taken);
        let worth = |s: &Slot| {
            let reused = reused(s);
            reused > 0 && s.tokens.len() - reused <= reused * WORTH
        };
        let matching = free().filter(|(_, s)| worth(s)).max_by_key(|(_, s)| (reused(s), s.left_at));
        let (slot, found) = matching.or_else(|| free().min_by_key(|(_, s)| (!s.tokens.is_empty(), s.left_at)))?;
        let place = Place { slot, reused: reused(found) };
        let taken = &mut self.slots[slot];
        taken.taken = true;
        taken.tokens = Vec::new();
        Some(place)
    }

    /// Gives a slot back whose cache holds `tokens`.
    pub fn give_back(&mut self, slot: usize, tokens: Vec<u32>) {
        self.count += 1;
        if let Some(s) = self.slots.get_mut(slot) {
            *s = Slot { taken: false, tokens, left_at: self.count };
        }
    }

    /// Forgets as much of what idle slots hold as is over `room`: the ends of those unused for longest. Gives the slots
    /// to rewind, with their new lengths.
    pub fn shrink(&mut self, room: usize) -> Vec<(usize, usize)> {
        let mut over = self.cached().saturating_sub(room);
        let mut holding: Vec<usize> = (0..self.slots.len()).filter(|&i| !self.slots[i].tokens.is_empty()).collect();
        holding.sort_by_key(|&i| self.slots[i].left_at);
        let mut rewound = Vec::new();
        for i in holding {
            if over == 0 {
                break;
            }
            let tokens = &mut self.slots[i].tokens;
            let gone = tokens.len().min(over);
            tokens.truncate(tokens.len() - gone);
            over -= gone;
            rewound.push((i, tokens.len()));
        }
        rewound
    }

    /// An idle slot's cache turned out not to hold what it should.
    pub fn forget(&mut self, slot: usize) {
        if let Some(s) = self.slots.get_mut(slot) {
            s.tokens = Vec::new();
        }
    }
}

/// Length of the common start.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(held: &[&[u32]]) -> Slots {
        let mut slots = Slots::new(held.len());
        for (i, tokens) in held.iter().enumerate() {
            slots.give_back(i, tokens.to_vec());
        }
        slots
    }

    #[test]
    fn the_longest_common_start_wins_and_one_token_is_left() {
        let mut s = slots(&[&[1, 2], &[1, 2, 3, 4], &[9]]);
        assert_eq!(s.take(&[1, 2, 3, 4]), Some(Place { slot: 1, reused: 3 }));
        assert_eq!(s.take(&[1, 2, 3, 4]), Some(Place { slot: 0, reused: 2 }));
        assert_eq!(s.take(&[1]), Some(Place { slot: 2, reused: 0 }));
        assert_eq!((s.take(&[1]), s.any_free(), s.cached()), (None, false, 0));
    }

    #[test]
    fn a_small_match_does_not_cost_a_long_cache_while_there_is_room_elsewhere() {
        let long: Vec<u32> = (0..100).collect();
        let mut s = slots(&[&long, &[]]);
        assert_eq!(s.take(&[0, 1, 7]), Some(Place { slot: 1, reused: 0 }));
        assert_eq!(s.take(&[0, 1, 7]), Some(Place { slot: 0, reused: 2 }), "it is all there is");
    }

    #[test]
    fn without_a_match_the_longest_unused_goes() {
        let mut s = slots(&[&[1], &[2], &[3]]);
        s.give_back(0, vec![4]);
        assert_eq!(s.take(&[8, 8]).map(|p| p.slot), Some(1));
    }

    #[test]
    fn room_is_made_from_the_ends_of_the_longest_unused() {
        let mut s = slots(&[&[1, 2, 3], &[4, 5, 6]]);
        s.give_back(0, vec![1, 2, 3]);
        assert_eq!(s.shrink(6), []);
        assert_eq!(s.shrink(4), [(1, 1)]);
        assert_eq!(s.shrink(1), [(1, 0), (0, 1)]);
        assert_eq!(s.cached(), 1);
    }

    proptest! {
        /// Whatever is given back and taken: what is reused was in the slot, and never the whole sequence.
        #[test]
        fn what_is_reused_is_there(steps in prop::collection::vec((prop::collection::vec(0u32..3, 1..9), 0usize..20), 1..40)) {
            let mut s = Slots::new(3);
            let mut held: Vec<Vec<u32>> = vec![Vec::new(); 3];
            for (tokens, room) in steps {
                let place = s.take(&tokens).expect("all are free");
                prop_assert!(place.reused < tokens.len());
                prop_assert_eq!(&held[place.slot][..place.reused], &tokens[..place.reused]);
                held[place.slot] = tokens.clone();
                s.give_back(place.slot, tokens);
                for (slot, len) in s.shrink(room) {
                    held[slot].truncate(len);
                }
                prop_assert!(s.cached() <= room);
                prop_assert_eq!(s.cached(), held.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}
