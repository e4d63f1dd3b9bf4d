//! When a batch is due.

use super::pending::Runnable;
use super::{BatchCaps, Micros};

/// Why a batch was extracted. The order of the variants is the order in which the rules are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlushReason {
    /// The only pending item is dearer than the cap.
    SingleOversize,
    /// What is pending fills the cost cap.
    CostCap,
    /// What is pending fills the count cap.
    CountCap,
    /// A recording that was put back after a slice goes on: nothing is gained by waiting.
    Resumed,
    /// The oldest item has waited for the whole window.
    Timeout,
    /// Nothing more has come for a while.
    Coalesce,
    /// The worker was idle and takes what there is.
    IdleBypass,
    /// A further batch of the queue that was there when the first was taken.
    Drain,
}

impl FlushReason {
    /// Every reason, in the order in which the rules are asked.
    pub const ALL: [FlushReason; 8] = [
        FlushReason::SingleOversize,
        FlushReason::CostCap,
        FlushReason::CountCap,
        FlushReason::Resumed,
        FlushReason::Timeout,
        FlushReason::Coalesce,
        FlushReason::IdleBypass,
        FlushReason::Drain,
    ];

    /// The name used in snapshots and metrics.
    pub fn name(self) -> &'static str {
        match self {
            FlushReason::SingleOversize => "single_oversize",
            FlushReason::CostCap => "cost_cap",
            FlushReason::CountCap => "count_cap",
            FlushReason::Resumed => "resumed",
            FlushReason::Timeout => "timeout",
            FlushReason::Coalesce => "coalesce",
            FlushReason::IdleBypass => "idle_bypass",
            FlushReason::Drain => "drain",
        }
    }
}

/// The first rule that holds. `idle`: the worker asks after an idle period. Lanes do not change this, but what a paused
/// lane holds is not counted.
pub(super) fn due(pending: &Runnable, caps: &BatchCaps, now: Micros, idle: bool) -> Option<FlushReason> {
    let (oldest, newest) = (pending.oldest?, pending.newest?);
    let (cost, cap) = (pending.cost, u128::from(caps.effective_cost()));
    if pending.len == 1 && cost > cap {
        Some(FlushReason::SingleOversize)
    } else if cost >= cap {
        Some(FlushReason::CostCap)
    } else if pending.len >= caps.count() {
        Some(FlushReason::CountCap)
    } else if pending.resumed {
        Some(FlushReason::Resumed)
    } else if caps.wait != Micros::MAX && now - oldest.arrival >= caps.wait {
        Some(FlushReason::Timeout)
    } else if now - newest.arrival >= caps.coalesce_window() {
        Some(FlushReason::Coalesce)
    } else if idle && caps.idle_bypass {
        Some(FlushReason::IdleBypass)
    } else {
        None
    }
}

/// Time until a window can close, zero when one has; `None` when nothing is pending that may run. [`Micros::MAX`] when
/// no window ever closes by itself.
pub(super) fn next_check(pending: &Runnable, caps: &BatchCaps, now: Micros) -> Option<Micros> {
    let (oldest, newest) = (pending.oldest?, pending.newest?);
    if pending.resumed {
        return Some(Micros::ZERO);
    }
    // An infinite window stays infinite: subtracting `now` from it would make it finite again.
    let left = |since: Micros, window: Micros| match window {
        Micros::MAX => Micros::MAX,
        _ => (since + window) - now,
    };
    Some(left(oldest.arrival, caps.wait).min(left(newest.arrival, caps.coalesce_window())))
}
