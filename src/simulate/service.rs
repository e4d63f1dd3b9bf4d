//! How long a batch takes.

use crate::control::{Lane, Op};
use crate::engine::scheduler::{Micros, WINDOW_MS};
use crate::profile::LaneService;
use std::collections::BTreeMap;

/// A straight line: time of a batch = overhead + items × per item + windows × per window + cost × per cost. All in
/// microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Line {
    pub overhead: f64,
    pub per_item: f64,
    /// Of speech, whose windows are encoded whole whatever is in them; 0 where they were not counted.
    pub per_window: f64,
    pub per_cost: f64,
}

/// What a batch takes its time by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    pub items: usize,
    /// Of all items.
    pub windows: u64,
    /// Of all items.
    pub cost: u64,
}

impl Line {
    /// The line of a lane as a load describes it. A rate is seconds of audio per second where cost is milliseconds, and
    /// tokens per second where cost is tokens.
    pub fn of(lane: &LaneService, op: Op) -> Line {
        let cost_per_s = if op == Op::Transcribe { lane.rate * 1_000.0 } else { lane.rate };
        Line {
            overhead: lane.overhead_ms * 1_000.0,
            per_item: lane.item_ms * 1_000.0,
            per_window: 0.0,
            per_cost: 1_000_000.0 / cost_per_s,
        }
    }

    /// Microseconds of a batch.
    pub fn of_work(&self, work: Work) -> f64 {
        self.overhead + self.of_items(work)
    }

    /// Microseconds that a batch takes by what is in it.
    pub fn of_items(&self, Work { items, windows, cost }: Work) -> f64 {
        self.per_item * items as f64 + self.per_window * windows as f64 + self.per_cost * cost as f64
    }
}

/// The lines of an engine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Service {
    lines: BTreeMap<(Op, Lane), Line>,
}

impl Service {
    /// The same two lanes for every operation that batches.
    pub fn of_lanes(clips: &LaneService, recordings: &LaneService) -> Service {
        let mut service = Service::default();
        for op in [Op::Transcribe, Op::Embed, Op::Rerank] {
            service.set(op, Lane::Clips, Line::of(clips, op));
            service.set(op, Lane::Recordings, Line::of(recordings, op));
        }
        service
    }

    pub fn set(&mut self, op: Op, lane: Lane, line: Line) {
        self.lines.insert((op, lane), line);
    }

    pub fn line(&self, op: Op, lane: Lane) -> Option<&Line> {
        self.lines.get(&(op, lane))
    }

    /// Every line with its operation and lane.
    pub fn lines(&self) -> impl Iterator<Item = (Op, Lane, &Line)> {
        self.lines.iter().map(|((op, lane), line)| (*op, *lane, line))
    }

    /// When a recording that began at `since` and would end at `ends` can stop: at the end of the window under way. It
    /// takes `pace` times as long as others.
    pub fn window_end(&self, op: Op, since: Micros, now: Micros, ends: Micros, pace: f64) -> Micros {
        let line = self.line_of(op, Lane::Recordings);
        let first = (line.overhead + line.per_item) * pace;
        let window = (line.per_window + line.per_cost * WINDOW_MS as f64) * pace;
        if window < 1.0 {
            return ends;
        }
        let under_way = (((now - since).0 as f64 - first) / window).ceil().max(1.0);
        (since + Micros((first + under_way * window).round() as u64)).clamp(now, ends)
    }

    /// Time of a batch whose items take `pace` times as long as others; at least one microsecond, so that virtual time
    /// always moves on.
    pub fn time(&self, op: Op, lane: Lane, work: Work, pace: f64) -> Micros {
        Micros(((self.line_of(op, lane).of_work(work) * pace).round() as u64).max(1))
    }

    /// What has no line of its own takes as long as the other lane of its operation.
    pub fn line_of(&self, op: Op, lane: Lane) -> Line {
        let other = if lane == Lane::Clips { Lane::Recordings } else { Lane::Clips };
        self.line(op, lane).or_else(|| self.line(op, other)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(items: usize, cost: u64) -> Work {
        Work { items, windows: 0, cost }
    }

    #[test]
    fn a_window_has_its_time_beside_what_is_in_it() {
        let line = Line { overhead: 1.0, per_item: 10.0, per_window: 400_000.0, per_cost: 25.0 };
        assert_eq!(line.of_work(Work { items: 2, windows: 3, cost: 40_000 }), 1.0 + 20.0 + 1_200_000.0 + 1_000_000.0);
    }

    #[test]
    fn a_rate_is_seconds_of_audio_or_tokens_per_second() {
        let lane = LaneService { overhead_ms: 60.0, item_ms: 2.0, rate: 100.0 };
        let line = Line::of(&lane, Op::Transcribe);
        assert_eq!(line.of_work(work(3, 10_000)), 60_000.0 + 6_000.0 + 100_000.0);
        assert_eq!(Line::of(&lane, Op::Embed).of_work(work(1, 50)), 60_000.0 + 2_000.0 + 500_000.0);
    }

    #[test]
    fn a_recording_stops_at_the_end_of_the_window_under_way() {
        let mut service = Service::default();
        // 10 s per window behind 1 s of overhead.
        let line = Line { overhead: 1e6, per_cost: 1e7 / 30_000.0, ..Line::default() };
        service.set(Op::Transcribe, Lane::Recordings, line);
        let s = Micros::from_secs;
        let end = |now, ends| service.window_end(Op::Transcribe, s(100), s(now), s(ends), 1.0);
        assert_eq!((end(100, 141), end(105, 141), end(111, 141)), (s(111), s(111), s(111)));
        assert_eq!((end(112, 141), end(130, 141)), (s(121), s(131)));
        assert_eq!(end(140, 140), s(140), "never past its own end");
        assert_eq!(service.window_end(Op::Transcribe, s(100), s(105), s(190), 2.0), s(122), "twice as slow");
        // The same windows, timed as such.
        let line = Line { overhead: 1e6, per_window: 7e6, per_cost: 100.0, ..Line::default() };
        service.set(Op::Transcribe, Lane::Recordings, line);
        assert_eq!(service.window_end(Op::Transcribe, s(100), s(112), s(141), 1.0), s(121));
    }

    #[test]
    fn a_lane_that_was_never_seen_takes_as_long_as_the_other() {
        let mut service = Service::default();
        service.set(Op::Transcribe, Lane::Clips, Line { overhead: 5.0, per_cost: 1.0, ..Line::default() });
        assert_eq!(service.time(Op::Transcribe, Lane::Recordings, work(1, 10), 1.0), Micros(15));
        assert_eq!(service.time(Op::Transcribe, Lane::Recordings, work(1, 10), 1.4), Micros(21));
        assert_eq!(service.time(Op::Embed, Lane::Clips, work(1, 10), 1.0), Micros(1));
    }
}
