//! The bandwidth governor: how often frames may be written, by what they cost.
//!
//! Frames that a person waits for come at most ten a second. Frames that only carry new data also wait until what was
//! written is paid for, at a rate that a slow line bears: more of the screen changes, the fewer frames.

use std::time::{Duration, Instant};

/// At most ten frames a second, as long as nobody presses a key.
pub const FRAME: Duration = Duration::from_millis(100);
/// A key is answered this soon after the last frame, whatever that was for.
const KEY_FRAME: Duration = Duration::from_millis(25);
/// While more than this is unpaid, keys too are answered at [`FRAME`]: a key that is held down must not flood a slow line.
const DEBT: Duration = Duration::from_secs(2);
/// With reduced motion, data moves once a second; keys are still answered at once.
const CALM_FRAME: Duration = Duration::from_secs(1);
/// Bytes a second that data may take on a screen of 80 by 24. Larger screens get more, in proportion.
const RATE: f64 = 12.0 * 1024.0;
const CELLS: f64 = 80.0 * 24.0;
/// What the largest screens get.
const MOST: f64 = 64.0 * 1024.0;
/// However much was written, data is not older than this.
const LONGEST: Duration = Duration::from_secs(3);

/// How much a frame matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Haste {
    /// New data, or time that passed.
    #[default]
    Data,
    /// Something else that a person waits for: another size, the end of an action.
    Soon,
    /// A key.
    Key,
}

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
    pub fn due(&self, haste: Haste, reduced_motion: bool) -> Option<Instant> {
        let drawn = self.drawn?;
        match haste {
            Haste::Key if self.paid.is_none_or(|paid| paid < drawn + DEBT) => return Some(drawn + KEY_FRAME),
            Haste::Key | Haste::Soon => return Some(drawn + FRAME),
            Haste::Data => {}
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
        assert_eq!(pace.due(Haste::Data, false), None);
        pace.wrote(now, 100, SMALL);
        assert_eq!(pace.due(Haste::Data, false), Some(now + FRAME));
        assert_eq!(pace.due(Haste::Data, true), Some(now + CALM_FRAME));
        pace.wrote(now, 12 * 1024, SMALL);
        assert!(pace.due(Haste::Data, false) > Some(now + Duration::from_secs(1)));
        assert_eq!(pace.due(Haste::Soon, true), Some(now + FRAME));
        assert_eq!(pace.due(Haste::Key, true), Some(now + KEY_FRAME));
        pace.wrote(now, 1 << 20, SMALL);
        assert_eq!(pace.due(Haste::Data, false), Some(now + LONGEST));
        assert_eq!(pace.due(Haste::Key, false), Some(now + FRAME), "so much is unpaid that keys wait too");
    }

    proptest! {
        /// Data alone, a frame as soon as it may be: bytes a second stay under 20 KiB.
        #[test]
        fn data_stay_under_the_rate(frames in prop::collection::vec(0usize..4096, 50..200)) {
            let began = Instant::now();
            let (mut pace, mut now, mut written) = (Pace::default(), began, 0);
            for bytes in frames {
                now = pace.due(Haste::Data, false).map_or(now, |due| due.max(now));
                pace.wrote(now, bytes, SMALL);
                written += bytes;
            }
            let end = pace.due(Haste::Data, false).map_or(now, |due| due.max(now));
            let seconds = end.duration_since(began).as_secs_f64();
            prop_assert!(written as f64 <= 20.0 * 1024.0 * seconds.max(0.5), "{written} bytes in {seconds} s");
        }
    }
}
