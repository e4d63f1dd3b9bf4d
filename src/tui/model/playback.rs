//! A recorded session that plays: where on the tape it is, how fast, and what is seen there. Pure: time is told.

use super::{History, Link, Seen};
use crate::client::{Moment, Tape};
use crate::control::knobs::Knobs;
use std::sync::Arc;

/// How fast a tape can play, in quarters of its own pace.
const SPEEDS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The place of its own pace.
const USUAL: usize = 2;

/// A tape and a place on it.
#[derive(Debug, Clone)]
pub struct Playback {
    tape: Arc<Tape>,
    /// When its first snapshot came: before it there is nothing to see.
    begins_ms: u64,
    /// Milliseconds since the recording began.
    at_ms: f64,
    speed: usize,
    pub paused: bool,
    /// Moments that have been reached: the history knows the snapshots among them.
    reached: usize,
    history: Arc<History>,
}

impl Playback {
    /// Begins at the tape's first snapshot.
    pub fn new(tape: Arc<Tape>) -> Playback {
        let first = tape.moments.iter().find(|(_, moment)| matches!(moment, Moment::Snapshot(_)));
        let begins_ms = first.map_or(0, |(t_ms, _)| *t_ms);
        let mut playback =
            Playback { tape, begins_ms, at_ms: 0.0, speed: USUAL, paused: false, reached: 0, history: Arc::default() };
        playback.seek(begins_ms);
        playback
    }

    pub fn at_ms(&self) -> u64 {
        self.at_ms as u64
    }

    pub fn length_ms(&self) -> u64 {
        self.tape.length_ms()
    }

    pub fn at_end(&self) -> bool {
        self.at_ms() >= self.length_ms()
    }

    /// The pace as people say it: `x2`, `x0.25`.
    pub fn pace(&self) -> String {
        format!("x{}", f64::from(SPEEDS[self.speed]) / 4.0)
    }

    /// Plays faster or slower, by so many steps.
    pub fn change_speed(&mut self, by: isize) {
        self.speed = self.speed.saturating_add_signed(by).min(SPEEDS.len() - 1);
    }

    /// Lets `passed_ms` go by; the tape's end stops it. Says whether it moved.
    pub fn pass(&mut self, passed_ms: u64) -> bool {
        if self.paused || passed_ms == 0 {
            return false;
        }
        self.go(self.at_ms + passed_ms as f64 * f64::from(SPEEDS[self.speed]) / 4.0);
        self.paused = self.at_end();
        true
    }

    /// Goes to a place on the tape.
    pub fn seek(&mut self, to_ms: u64) {
        self.go(to_ms as f64);
    }

    fn go(&mut self, to_ms: f64) {
        self.at_ms = to_ms.max(self.begins_ms as f64).min(self.length_ms() as f64);
        let at = self.at_ms();
        let reached = self.tape.moments.partition_point(|(t_ms, _)| *t_ms <= at);
        if reached < self.reached {
            (self.reached, self.history) = (0, Arc::default());
        }
        let history = Arc::make_mut(&mut self.history);
        for (_, moment) in &self.tape.moments[self.reached..reached] {
            if let Moment::Snapshot(snapshot) = moment {
                history.record(snapshot);
            }
        }
        self.reached = reached;
    }

    /// When, from now on, the next moment comes; absent while it stands.
    pub fn next_ms(&self) -> Option<u64> {
        let (t_ms, _) = self.tape.moments.get(self.reached).filter(|_| !self.paused)?;
        let left = (*t_ms as f64 - self.at_ms).max(0.0) * 4.0 / f64::from(SPEEDS[self.speed]);
        Some((left.ceil() as u64).max(1))
    }

    fn so_far(&self) -> &[(u64, Moment)] {
        &self.tape.moments[..self.reached]
    }

    /// What is seen here.
    pub fn seen(&self, now_ms: u64) -> Option<Seen> {
        let snapshot = self.so_far().iter().rev().find_map(|(_, moment)| match moment {
            Moment::Snapshot(snapshot) => Some(Arc::clone(snapshot)),
            Moment::Knobs(_) | Moment::Away(_) => None,
        })?;
        Some(Seen { snapshot, received_ms: now_ms, history: Arc::clone(&self.history) })
    }

    /// The settings as they were here.
    pub fn knobs(&self) -> Option<Arc<Knobs>> {
        self.so_far().iter().rev().find_map(|(_, moment)| match moment {
            Moment::Knobs(knobs) => Some(Arc::clone(knobs)),
            Moment::Snapshot(_) | Moment::Away(_) => None,
        })
    }

    /// Whether the engine could be reached here.
    pub fn link(&self, now_ms: u64) -> Link {
        match self.so_far().last() {
            Some((_, Moment::Away(why))) => Link::Away { attempt: 1, retry_at_ms: now_ms, why: why.clone() },
            _ => Link::Live { missed: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{knobs, recorded};
    use super::*;
    use crate::control::recording::{Header, SCHEMA};
    use proptest::prelude::*;

    /// Ten snapshots, a second apart; settings at the beginning, the engine away at 6.5 s.
    fn tape() -> Arc<Tape> {
        let header = Header {
            schema: SCHEMA.into(),
            snapshots: crate::control::snapshot::SCHEMA.into(),
            node: "demo".into(),
            version: "0".into(),
            at_ms: 0,
            interval_ms: 1000,
        };
        let mut moments = vec![(0, Moment::Knobs(Arc::new(knobs())))];
        for second in 0..10u64 {
            let mut snapshot = recorded("busy");
            snapshot.seq = second;
            snapshot.uptime_ms += second * 1000;
            moments.push((second * 1000, Moment::Snapshot(Arc::new(snapshot))));
            if second == 6 {
                moments.push((6500, Moment::Away("gone".into())));
            }
        }
        Arc::new(Tape { header, moments, cut: false })
    }

    fn seq(playback: &Playback) -> u64 {
        playback.seen(0).unwrap().snapshot.seq
    }

    #[test]
    fn it_plays_at_its_pace_and_stops_at_its_end() {
        let mut playback = Playback::new(tape());
        assert_eq!((seq(&playback), playback.next_ms()), (0, Some(1000)));
        assert!(playback.pass(999) && seq(&playback) == 0 && playback.next_ms() == Some(1));
        playback.pass(1);
        assert_eq!(seq(&playback), 1);
        playback.change_speed(1);
        assert_eq!((playback.pace().as_str(), playback.next_ms()), ("x2", Some(500)));
        playback.pass(1000);
        assert_eq!(seq(&playback), 3);
        playback.change_speed(-9);
        assert_eq!((playback.pace().as_str(), playback.next_ms()), ("x0.25", Some(4000)));
        playback.paused = true;
        assert!(!playback.pass(60_000) && playback.next_ms().is_none() && seq(&playback) == 3);
        playback.paused = false;
        playback.pass(600_000);
        assert!(playback.paused && playback.at_end() && seq(&playback) == 9);
    }

    #[test]
    fn where_the_engine_was_away_it_is_away() {
        let mut playback = Playback::new(tape());
        playback.seek(6_499);
        assert_eq!(playback.link(0), Link::Live { missed: 0 });
        playback.seek(6_600);
        assert!(matches!(playback.link(0), Link::Away { .. }) && seq(&playback) == 6);
        playback.seek(7_000);
        assert_eq!(playback.link(0), Link::Live { missed: 0 });
        assert!(playback.knobs().is_some());
    }

    proptest! {
        /// However one got to a place, what is seen there is the same: snapshot, past and all.
        #[test]
        fn the_way_to_a_place_does_not_matter(ways in prop::collection::vec(0u64..10_000, 1..8)) {
            let mut playback = Playback::new(tape());
            for way in &ways {
                playback.seek(*way);
            }
            let mut straight = Playback::new(tape());
            straight.seek(*ways.last().unwrap());
            prop_assert_eq!(seq(&playback), seq(&straight));
            prop_assert_eq!(playback.seen(0).unwrap().history, straight.seen(0).unwrap().history);
            prop_assert_eq!(seq(&playback), ways.last().unwrap() / 1000);
        }
    }
}
