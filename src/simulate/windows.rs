//! The windows of a request for speech: how many there are, and how far each moves it on.
//!
//! A window holds 30 s and is encoded whole, whatever is in it. It moves a recording on to where its last sentence ends,
//! so there may be more of them than its length says.

use crate::engine::scheduler::WINDOW_MS;

/// The windows that a request still has. Each but the last moves it on by `step`, in the unit of cost; the last ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    pub count: u64,
    pub step: u64,
}

impl Windows {
    /// As many as it takes to the end of `cost` at `step` each: at 30 s, as many as its length says.
    pub fn expected(cost: u64, step: u64) -> Windows {
        let step = step.clamp(1, WINDOW_MS);
        Windows { count: 1 + cost.saturating_sub(WINDOW_MS).div_ceil(step), step }
    }

    /// As many as were counted. Their step is `step` as far as that many of it come out at the end of `cost`.
    pub fn counted(cost: u64, count: u64, step: u64) -> Windows {
        let count = count.clamp(1, cost.max(1));
        let others = (count - 1).max(1);
        let most = (cost.saturating_sub(1) / others).clamp(1, WINDOW_MS);
        let least = cost.saturating_sub(WINDOW_MS).div_ceil(others).clamp(1, most);
        Windows { count, step: step.clamp(least, most) }
    }

    /// How many of them a slice of at most `most` runs; all where recordings are not cut into slices.
    pub fn slice(&self, most: Option<u64>) -> u64 {
        most.map_or(self.count, |most| most.min(self.count))
    }

    /// What is left behind the next `n` of them: windows, and of a cost of `cost`; no cost where no window is left.
    pub fn after(&self, n: u64, cost: u64) -> (Windows, u64) {
        let left = Windows { count: self.count.saturating_sub(n), step: self.step };
        let cost = if left.count == 0 { 0 } else { cost.saturating_sub(n.saturating_mul(self.step)).max(1) };
        (left, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_length_has_as_many_windows_as_it_takes_at_their_step() {
        let count = |cost, step| Windows::expected(cost, step).count;
        assert_eq!([1, 30_000, 30_001, 60_000, 60_001].map(|cost| count(cost, 30_000)), [1, 1, 2, 2, 3]);
        // 28 s each: the third begins at 56 s and reaches to 86 s.
        assert_eq!([86_000, 86_001].map(|cost| count(cost, 28_000)), [3, 4]);
        assert_eq!(count(60_000, 90_000), 2, "no step is longer than a window");
    }

    #[test]
    fn counted_windows_step_as_others_do_where_that_brings_them_to_the_end() {
        let step = |cost, count| Windows::counted(cost, count, 28_000).step;
        assert_eq!(step(86_000, 3), 28_000);
        assert_eq!(step(88_668, 3), 29_334, "the last would not reach the end");
        assert_eq!(step(80_000, 4), 26_666, "the last would begin behind the end");
        assert_eq!(Windows::counted(5_000, 0, 28_000).count, 1);
    }

    #[test]
    fn a_slice_runs_its_windows_and_leaves_the_rest() {
        let windows = Windows { count: 3, step: 28_000 };
        assert_eq!((windows.slice(Some(2)), windows.slice(Some(9)), windows.slice(None)), (2, 3, 3));
        assert_eq!(windows.after(2, 70_000), (Windows { count: 1, ..windows }, 14_000));
        assert_eq!(windows.after(3, 70_000).1, 0);
        assert_eq!(windows.after(2, 50_000).1, 1, "a window that is left has something to hear");
    }

    proptest! {
        /// Whatever was counted, the last window begins before the end and reaches to it, unless there were too few to.
        #[test]
        fn so_many_windows_end_where_the_request_does(
            cost in 1u64..5_000_000, more in 0u64..40, step in 1u64..60_000,
        ) {
            let count = cost.div_ceil(WINDOW_MS) + more;
            let windows = Windows::counted(cost, count, step);
            let begins = (windows.count - 1) * windows.step;
            prop_assert!(begins < cost && cost - begins <= WINDOW_MS, "{:?}", windows);
        }
    }
}
