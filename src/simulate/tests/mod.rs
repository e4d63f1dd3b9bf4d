//! The published figures on the shipped loads, and the simulator's own rules.

mod published;
mod replay;
mod world;

use super::Report;
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
