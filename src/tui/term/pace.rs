//! The bandwidth governor: how often frames may be written, by what they cost.
//!
//! Frames that a person waits for come at most ten a second. Frames that only carry new data also wait until what was
//! written is paid for, at a rate that a slow line bears: more of the screen changes, the fewer frames.

use std::time::{Duration, Instant};

/// At most ten frames a second.
pub const FRAME: Duration = Duration::from_millis(100);
/// With reduced motion, data moves once a second; keys are still answered at [`FRAME`].
const CALM_FRAME: Duration = Duration::from_secs(1);
/// Bytes a second that data may take on a screen of 80 by 24. Larger screens get more, in proportion.
const RATE: f64 = 12.0 * 1024.0;
const CELLS: f64 = 80.0 * 24.0;
/// What the largest screens get.
const MOST: f64 = 64.0 * 1024.0;
/// However much was written, data is not older than this.
const LONGEST: Duration = Duration::from_secs(3);

/// When the next frame may be drawn.
#[derive(Debug, Default)]
pub struct Pace {
    drawn: Option<Instant>,
    /// When what was written so far is paid for.
    paid: Option<Instant>,
}

impl Pace {
    /// Takes note of a frame: its bytes, on a screen of `size`.
    pub fn wrote(&mut self, now: Instant, bytes: usize, size: (u16, u16)) {
        let cells = f64::from(size.0) * f64::from(size.1);
        let rate = (RATE * (cells / CELLS).max(1.0)).min(MOST);
        let from = self.paid.map_or(now, |paid| paid.max(now));
        self.drawn = Some(now);
        self.paid = Some(from + Duration::from_secs_f64(bytes as f64 / rate));
    }

    /// When the next frame may be drawn; `None`: at once.
    pub fn due(&self, urgent: bool, reduced_motion: bool) -> Option<Instant> {
        let drawn = self.drawn?;
        if urgent {
            return Some(drawn + FRAME);
        }
        let soonest = drawn + if reduced_motion { CALM_FRAME } else { FRAME };
        Some(self.paid.map_or(soonest, |paid| paid.min(drawn + LONGEST).max(soonest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: (u16, u16) = (80, 24);

    #[test]
    fn a_person_waits_a_frame_and_data_wait_until_they_are_paid_for() {
        let now = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.due(false, false), None);
        pace.wrote(now, 100, SMALL);
        assert_eq!(pace.due(false, false), Some(now + FRAME));
        assert_eq!(pace.due(false, true), Some(now + CALM_FRAME));
        pace.wrote(now, 12 * 1024, SMALL);
        assert!(pace.due(false, false) > Some(now + Duration::from_secs(1)));
        assert_eq!(pace.due(true, true), Some(now + FRAME));
        pace.wrote(now, 1 << 20, SMALL);
        assert_eq!(pace.due(false, false), Some(now + LONGEST));
    }

    proptest! {
        /// Data alone, a frame as soon as it may be: bytes a second stay under 20 KiB.
        #[test]
        fn data_stay_under_the_rate(frames in prop::collection::vec(0usize..4096, 50..200)) {
            let began = Instant::now();
            let (mut pace, mut now, mut written) = (Pace::default(), began, 0);
            for bytes in frames {
                now = pace.due(false, false).map_or(now, |due| due.max(now));
                pace.wrote(now, bytes, SMALL);
                written += bytes;
            }
            let end = pace.due(false, false).map_or(now, |due| due.max(now));
            let seconds = end.duration_since(began).as_secs_f64();
            prop_assert!(written as f64 <= 20.0 * 1024.0 * seconds.max(0.5), "{written} bytes in {seconds} s");
        }
    }
}
