//! The published figures on the shipped loads, and the simulator's own rules.

mod counts;
mod published;
mod replay;
mod slices;
mod world;

use super::{Report, RunReport};
use crate::profile::{Env, Workload, WorkloadOverrides, load_workload};

/// A shipped load with some keys set.
fn load(name: &str, set: &[&str], clients: &[&str]) -> Workload {
    let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let overrides = WorkloadOverrides { set: strings(set), vary: Vec::new(), clients: strings(clients) };
    load_workload(name, &Env::empty(), &overrides).unwrap_or_else(|e| panic!("{e}")).value
}

fn run(name: &str, set: &[&str]) -> Report {
    of(&load(name, set, &[]))
}

fn of(load: &Workload) -> Report {
    super::simulate(load).unwrap_or_else(|e| panic!("{e}"))
}

/// A service of 1 s per batch and 1 s of audio per millisecond: times are counted in batches.
const SLOW: [&str; 6] = [
    "service.clips.overhead_ms=1000",
    "service.clips.rate=1000",
    "service.recordings.overhead_ms=1000",
    "service.recordings.rate=1000",
    "depth=1",
    "wait_ms=0",
];

/// One run of these clients on the slow service.
fn slow(set: &[&str], clients: &[&str]) -> RunReport {
    let all: Vec<&str> = SLOW.iter().chain(set).copied().collect();
    of(&load("mixed", &all, clients)).runs.remove(0)
}
