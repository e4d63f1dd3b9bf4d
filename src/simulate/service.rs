//! How long a batch takes.

use crate::control::{Lane, Op};
use crate::engine::scheduler::{Micros, WINDOW_MS};
use crate::profile::LaneService;
use std::collections::BTreeMap;

/// A straight line: time of a batch = overhead + items × per item + cost × per cost. All in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Line {
    pub overhead: f64,
    pub per_item: f64,
    pub per_cost: f64,
}

impl Line {
    /// The line of a lane as a load describes it. A rate is seconds of audio per second where cost is milliseconds, and
    /// tokens per second where cost is tokens.
    pub fn of(lane: &LaneService, op: Op) -> Line {
        let cost_per_s = if op == Op::Transcribe { lane.rate * 1_000.0 } else { lane.rate };
        Line {
            overhead: lane.overhead_ms * 1_000.0,
            per_item: lane.item_ms * 1_000.0,
            per_cost: 1_000_000.0 / cost_per_s,
        }
    }

    /// Time of a batch; at least one microsecond, so that virtual time always moves on.
    pub fn time(&self, items: usize, cost: u64) -> Micros {
        let us = self.overhead + self.per_item * items as f64 + self.per_cost * cost as f64;
        Micros((us.round() as u64).max(1))
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

    /// When a recording that began at `since` and would end at `ends` can stop: at the end of the window under way.
    pub fn window_end(&self, op: Op, since: Micros, now: Micros, ends: Micros) -> Micros {
        let line = self.line_of(op, Lane::Recordings);
        let window = line.per_cost * WINDOW_MS as f64;
        if window < 1.0 {
            return ends;
        }
        let under_way = (((now - since).0 as f64 - line.overhead) / window).ceil().max(1.0);
        (since + Micros((line.overhead + under_way * window).round() as u64)).clamp(now, ends)
    }

    /// Time of a batch. What has no line of its own takes as long as the other lane of its operation.
    pub fn time(&self, op: Op, lane: Lane, items: usize, cost: u64) -> Micros {
        self.line_of(op, lane).time(items, cost)
    }

    fn line_of(&self, op: Op, lane: Lane) -> Line {
        let other = if lane == Lane::Clips { Lane::Recordings } else { Lane::Clips };
        self.line(op, lane).or_else(|| self.line(op, other)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_seconds_of_audio_or_tokens_per_second() {
        let lane = LaneService { overhead_ms: 60.0, item_ms: 2.0, rate: 100.0 };
        let line = Line::of(&lane, Op::Transcribe);
        assert_eq!(line.time(3, 10_000), Micros(60_000 + 6_000 + 100_000));
        assert_eq!(Line::of(&lane, Op::Embed).time(1, 50), Micros(60_000 + 2_000 + 500_000));
        assert_eq!(Line::default().time(1, 1), Micros(1));
    }

    #[test]
    fn a_recording_stops_at_the_end_of_the_window_under_way() {
        let mut service = Service::default();
        // 10 s per window behind 1 s of overhead.
        let line = Line { overhead: 1e6, per_item: 0.0, per_cost: 1e7 / 30_000.0 };
        service.set(Op::Transcribe, Lane::Recordings, line);
        let s = Micros::from_secs;
        let end = |now, ends| service.window_end(Op::Transcribe, s(100), s(now), s(ends));
        assert_eq!((end(100, 141), end(105, 141), end(111, 141)), (s(111), s(111), s(111)));
        assert_eq!((end(112, 141), end(130, 141)), (s(121), s(131)));
        assert_eq!(end(140, 140), s(140), "never past its own end");
    }

    #[test]
    fn a_lane_that_was_never_seen_takes_as_long_as_the_other() {
        let mut service = Service::default();
        service.set(Op::Transcribe, Lane::Clips, Line { overhead: 5.0, per_item: 0.0, per_cost: 1.0 });
        assert_eq!(service.time(Op::Transcribe, Lane::Recordings, 1, 10), Micros(15));
        assert_eq!(service.time(Op::Embed, Lane::Clips, 1, 10), Micros(1));
    }
}
