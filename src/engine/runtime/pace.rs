//! How a lane did in the last minute: what a guard and a wait can be told of it.

use crate::control::snapshot::Pace;
use crate::engine::scheduler::Micros;
use std::collections::VecDeque;

/// The window.
const WINDOW: Micros = Micros(60_000_000);

/// Requests that are remembered of it: a busy lane's window is shorter.
const REMEMBERED: usize = 1_024;

/// Starts and ends of the last minute. Pure: the time comes in.
#[derive(Debug, Default)]
pub struct PaceWindow {
    /// When a request started, and how long it had waited.
    starts: VecDeque<(Micros, Micros)>,
    /// When a request was served, how long that took in all, and what it cost.
    ends: VecDeque<(Micros, Micros, u64)>,
    /// Until when ends were forgotten for want of room.
    forgot: Micros,
}

impl PaceWindow {
    pub fn started(&mut self, waited: Micros, now: Micros) {
        if self.starts.len() == REMEMBERED {
            self.starts.pop_front();
        }
        self.starts.push_back((now, waited));
    }

    pub fn served(&mut self, total: Micros, cost: u64, now: Micros) {
        if self.ends.len() == REMEMBERED {
            self.forgot = self.ends.pop_front().map_or(self.forgot, |(at, ..)| at);
        }
        self.ends.push_back((now, total, cost));
    }

    pub fn view(&self, now: Micros) -> Pace {
        let from = (now - WINDOW).max(self.forgot);
        let waits = self.starts.iter().filter(|(at, _)| *at >= from).map(|(_, waited)| *waited).collect();
        let ends = self.ends.iter().filter(|(at, ..)| *at >= from).map(|(_, total, cost)| (*total, *cost));
        of(waits, &ends.collect::<Vec<_>>(), (now - from).as_secs())
    }
}

/// The pace of `seconds` in which requests started after these waits, and others were served: how long each took, and
/// what it cost.
pub(super) fn of(mut waits: Vec<Micros>, ends: &[(Micros, u64)], seconds: f64) -> Pace {
    waits.sort_unstable();
    let mut totals: Vec<Micros> = ends.iter().map(|(total, _)| *total).collect();
    totals.sort_unstable();
    let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    Pace {
        p50_ms: rank(&totals, 0.5),
        p95_ms: rank(&totals, 0.95),
        max_ms: rank(&totals, 1.0),
        wait_p50_ms: rank(&waits, 0.5),
        wait_p95_ms: rank(&waits, 0.95),
        served_per_s: rate(ends.len() as u64),
        cost_per_s: rate(ends.iter().map(|(_, cost)| *cost).fold(0, u64::saturating_add)),
        window_s: seconds,
    }
}

/// Nearest rank: at least that share took no longer.
fn rank(sorted: &[Micros], share: f64) -> Option<f64> {
    sorted.get(((share * sorted.len() as f64).ceil() as usize).saturating_sub(1)).map(|time| time.as_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Micros {
        Micros::from_ms(seconds * 1_000.0)
    }

    #[test]
    fn a_pace_is_of_the_last_minute() {
        let mut window = PaceWindow::default();
        assert_eq!(window.view(s(0.0)), Pace::default());
        window.started(s(9.0), s(5.0));
        window.served(s(20.0), 1_000, s(6.0));
        for i in 1..=20 {
            window.started(s(f64::from(i) * 0.01), s(60.0 + f64::from(i)));
            window.served(s(f64::from(i) * 0.1), 30, s(61.0 + f64::from(i)));
        }
        let pace = window.view(s(100.0));
        assert_eq!((pace.wait_p50_ms, pace.wait_p95_ms), (Some(100.0), Some(190.0)));
        assert_eq!((pace.p50_ms, pace.p95_ms, pace.max_ms), (Some(1_000.0), Some(1_900.0), Some(2_000.0)));
        assert_eq!((pace.served_per_s, pace.cost_per_s, pace.window_s), (20.0 / 60.0, 10.0, 60.0));
        let early = window.view(s(30.0));
        assert_eq!(early.window_s, 30.0, "an engine is no older than it is");
        let later = window.view(s(200.0));
        assert_eq!(
            (later.p95_ms, later.wait_p95_ms, later.served_per_s),
            (None, None, 0.0),
            "what is long ago is unknown"
        );
    }

    #[test]
    fn a_busy_lane_has_a_shorter_window() {
        let mut window = PaceWindow::default();
        for ms in 0..3_000 {
            window.started(Micros(ms), Micros(ms * 1_000));
            window.served(Micros(ms), 1, Micros(ms * 1_000));
        }
        let pace = window.view(Micros(3_000_000));
        assert!((pace.window_s - 1.025).abs() < 1e-9, "{pace:?}");
        assert!((pace.served_per_s - 999.0).abs() < 1.0, "{pace:?}");
    }
}
