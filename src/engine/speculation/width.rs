//! How wide the next window may be: one wider after a window that held, half after one that did not.

/// Bounds of a window's width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WidthLimits {
    pub min: usize,
    pub max: usize,
}

/// The width control of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    limits: WidthLimits,
    current: usize,
}

impl Width {
    /// Starts at 2, within the limits. A `min` of 0 counts as 1, a `max` below `min` as `min`.
    pub fn new(limits: WidthLimits) -> Width {
        let min = limits.min.max(1);
        let limits = WidthLimits { min, max: limits.max.max(min) };
        Width { limits, current: limits.min.max(limits.max.min(2)) }
    }

    /// Other limits; the width stays where it is, within them.
    pub fn limit(&mut self, limits: WidthLimits) {
        let Width { limits, .. } = Width::new(limits);
        *self = Width { limits, current: self.current.max(limits.min).min(limits.max) };
    }

    pub fn current(&self) -> usize {
        self.current
    }

    pub fn max(&self) -> usize {
        self.limits.max
    }

    /// What may be offered of `candidates` proposals when at most `budget` are of use.
    pub fn offered(&self, candidates: usize, budget: usize) -> usize {
        self.current.min(candidates).min(budget)
    }

    /// Every proposal of a window held.
    pub fn held(&mut self) {
        self.current = (self.current + 1).min(self.limits.max);
    }

    /// A proposal was refuted.
    pub fn refuted(&mut self) {
        self.current = (self.current / 2).max(self.limits.min);
    }

    /// Text that was not speculated on showed that a proposal of `held` tokens would have held in full.
    pub fn would_have_held(&mut self, held: usize) {
        if held >= self.current {
            self.held();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_two_within_its_limits() {
        let start = |min, max| Width::new(WidthLimits { min, max }).current();
        assert_eq!([start(1, 4), start(1, 1), start(3, 8), start(0, 0), start(5, 2)], [2, 1, 3, 1, 5]);
    }

    #[test]
    fn it_grows_by_one_and_shrinks_by_half() {
        let mut w = Width::new(WidthLimits { min: 1, max: 4 });
        w.held();
        w.held();
        w.held();
        assert_eq!(w.current(), 4);
        w.refuted();
        assert_eq!(w.current(), 2);
        w.refuted();
        w.refuted();
        assert_eq!(w.current(), 1);
    }

    #[test]
    fn what_is_offered_is_the_least_of_three() {
        let w = Width::new(WidthLimits { min: 1, max: 4 });
        assert_eq!([w.offered(9, 9), w.offered(1, 9), w.offered(9, 0)], [2, 1, 0]);
    }
}
