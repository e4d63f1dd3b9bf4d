//! A replay, run several times over.
//!
//! A clip that comes just after a turn of clips has begun waits for the next turn, so a millisecond here or there moves
//! single waits by seconds, and with a hundred requests the high percentiles by a tenth and more. No two real runs agree
//! to the millisecond, and one replay is as much a matter of chance as one run. The middle of several is not.

use super::random::Random;
use super::report::{Requests, RunReport, Waits};
use super::run;
use super::scenario::Scenario;
use super::settings::Settings;
use crate::profile::Spread;

/// Replays of each setting. An odd number has a middle.
const REPEATS: u64 = 21;

/// Requests that are replayed for one setting, all repeats together: where there are many, chance evens out by itself.
const REQUESTS: u64 = 100_000;

/// How far times of a batch are from each other when the same is run again: some percent, measured for speech.
const AGAIN: Spread = Spread::LogNormal { median: 1.0, sigma: 0.05 };

/// What makes the batches of one repeat a little slower or faster, each for itself.
#[derive(Debug, Clone)]
pub(super) struct Jitter(Random);

impl Jitter {
    fn of(scenario: &Scenario, repeat: u64) -> Jitter {
        // A stream that belongs to no sender.
        Jitter(Random::of(scenario.seed, scenario.sources.len(), repeat))
    }

    /// The time of the next batch, as a part of what it is meant to take.
    pub fn next(&mut self) -> f64 {
        self.0.draw(&AGAIN)
    }
}

/// How often so many requests are replayed under each setting: once, or an odd number of times.
pub(super) fn repeats(requests: usize) -> u64 {
    (REQUESTS / (requests as u64).max(1)).clamp(1, REPEATS).saturating_sub(1) | 1
}

/// A run with every time as it is meant to be, and of its waits the middle over so many runs, it among them.
pub(super) fn run(scenario: &Scenario, settings: &Settings, repeats: u64) -> RunReport {
    let one = |jitter: Option<Jitter>| RunReport::of(scenario, settings, &run::run(scenario, settings, jitter));
    let mut report = one(None);
    let again: Vec<RunReport> = (1..repeats).map(|repeat| one(Some(Jitter::of(scenario, repeat)))).collect();
    for lane in &mut report.lanes {
        let others = again.iter().filter_map(|run| run.lane(lane.lane)).map(|lane| &lane.requests);
        middle(&mut lane.requests, &others.collect::<Vec<_>>());
    }
    for (index, class) in report.classes.iter_mut().enumerate() {
        let others = again.iter().filter_map(|run| run.classes.get(index)).map(|class| &class.requests);
        middle(&mut class.requests, &others.collect::<Vec<_>>());
    }
    report
}

fn middle(of: &mut Requests, others: &[&Requests]) {
    let waits = |own: Waits, waits: fn(&Requests) -> Waits| {
        let all: Vec<Waits> = std::iter::once(own).chain(others.iter().map(|other| waits(other))).collect();
        let of = |time: fn(&Waits) -> Option<f64>| median(all.iter().filter_map(time).collect());
        Waits { p50_ms: of(|w| w.p50_ms), p95_ms: of(|w| w.p95_ms), p99_ms: of(|w| w.p99_ms), max_ms: of(|w| w.max_ms) }
    };
    of.queue = waits(of.queue, |r| r.queue);
    of.start = waits(of.start, |r| r.start);
    of.done = waits(of.done, |r| r.done);
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_requests_are_replayed_often_and_many_once() {
        assert_eq!([0, 1, 139, 4_761, 4_763].map(repeats), [21, 21, 21, 21, 19]);
        assert_eq!([30_000, 50_000, 65_536, 1 << 40].map(repeats), [3, 1, 1, 1]);
    }

    #[test]
    fn the_middle_is_that_of_each_percentile_and_leaves_out_what_is_unknown() {
        let waits = |p50: f64, max: f64| Waits { p50_ms: Some(p50), max_ms: Some(max), ..Waits::default() };
        let requests = |done: Waits| Requests {
            submitted: 1,
            served: 1,
            timeouts: 0,
            pending: 0,
            rate: None,
            queue: Waits::default(),
            start: Waits::default(),
            done,
        };
        let mut own = requests(waits(3.0, 50.0));
        middle(&mut own, &[&requests(waits(1.0, 90.0)), &requests(waits(2.0, 70.0))]);
        assert_eq!((own.done, own.queue), (waits(2.0, 70.0), Waits::default()));
    }

    proptest! {
        #[test]
        fn the_number_of_replays_is_odd_and_bounded(requests in 0usize..200_000) {
            let n = repeats(requests);
            prop_assert!(n % 2 == 1 && n <= REPEATS && (n == 1 || n * requests as u64 <= REQUESTS));
        }
    }
}
