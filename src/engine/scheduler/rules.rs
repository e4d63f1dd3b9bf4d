//! How the two lanes share the engine: what a recording's turn is, whose turn is next, and which lane is held.

use crate::control::Lane;
use std::num::NonZeroU32;

/// Length of the window in which speech models work, in the cost of audio (milliseconds).
pub const WINDOW_MS: u64 = 30_000;

/// How much of a recording one turn of its lane may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SliceWindows {
    /// All of it.
    #[default]
    Whole,
    /// So many windows; then it goes back to the head of its lane and the clips may have their turn.
    Windows(NonZeroU32),
}

impl SliceWindows {
    /// `n` windows; `None` for 0, which would never get anywhere.
    pub fn windows(n: u32) -> Option<SliceWindows> {
        NonZeroU32::new(n).map(SliceWindows::Windows)
    }
}

/// The lanes that an operator holds. A held lane keeps its items, is never due, and does not hold back the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Paused {
    pub clips: bool,
    pub recordings: bool,
}

impl Paused {
    pub fn lane(self, lane: Lane) -> bool {
        match lane {
            Lane::Clips => self.clips,
            Lane::Recordings => self.recordings,
        }
    }

    /// The same with one lane held or let go.
    pub fn with(mut self, lane: Lane, paused: bool) -> Paused {
        match lane {
            Lane::Clips => self.clips = paused,
            Lane::Recordings => self.recordings = paused,
        }
        self
    }
}

/// The rules between the lanes. Any of them may change between two batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneRules {
    pub slice_windows: SliceWindows,
    /// The part of engine time, 0 to 1, that recordings get while both lanes have work. At 0 they run only when no clip
    /// waits, at 1 clips run only when no recording does. Without slices the lanes alternate and it has no effect.
    pub recordings_share: f64,
    pub paused: Paused,
    /// Whether what a turn passed over stays owed across a gap without recordings.
    pub keep_owed: bool,
    /// Whether a clip that a turn passed over goes first in the next. No engine has it off: without it dear clips may wait
    /// for ever, which the simulator shows. The bounds that are told hold with it on alone.
    pub owed: bool,
}

impl Default for LaneRules {
    fn default() -> Self {
        LaneRules {
            slice_windows: SliceWindows::Whole,
            recordings_share: 0.5,
            paused: Paused::default(),
            keep_owed: false,
            owed: true,
        }
    }
}

/// How recordings take their turns, as the rules say. A policy that puts windows of recordings into the clips' batches
/// would be a third variant: it changes what [`Lanes::choose`](super::turns::Lanes::choose) offers and what a batch is
/// made of, and neither the queue nor what is owed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Policy {
    /// A recording runs to its end; the lanes alternate.
    Whole,
    /// A recording runs some windows at a time; the lanes share engine time.
    Slices { windows: NonZeroU32, share: f64 },
}

impl LaneRules {
    pub(super) fn policy(&self) -> Policy {
        match self.slice_windows {
            SliceWindows::Whole => Policy::Whole,
            // A NaN is no share: it counts as the default.
            SliceWindows::Windows(windows) if self.recordings_share.is_nan() => Policy::Slices { windows, share: 0.5 },
            SliceWindows::Windows(windows) => Policy::Slices { windows, share: self.recordings_share.clamp(0.0, 1.0) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_none_and_all() {
        let rules = |recordings_share| LaneRules {
            slice_windows: SliceWindows::Windows(NonZeroU32::MIN),
            recordings_share,
            ..LaneRules::default()
        };
        let share = |s| match rules(s).policy() {
            Policy::Slices { share, .. } => share,
            Policy::Whole => f64::NAN,
        };
        assert_eq!((share(0.7), share(-1.0), share(9.0), share(f64::NAN)), (0.7, 0.0, 1.0, 0.5));
        assert_eq!(LaneRules::default().policy(), Policy::Whole);
        assert_eq!(SliceWindows::windows(0), None);
    }

    #[test]
    fn lanes_are_paused_one_by_one() {
        let paused = Paused::default().with(Lane::Recordings, true);
        assert_eq!((paused.lane(Lane::Clips), paused.lane(Lane::Recordings)), (false, true));
        assert_eq!(paused.with(Lane::Recordings, false), Paused::default());
    }
}
