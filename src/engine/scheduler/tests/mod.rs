//! The former against an independent model of its rules, and edge by edge.

mod bound;
mod due;
mod edges;
mod explain;
mod fairness;
mod forecast;
mod hands;
mod model;
mod oracle;
mod pause;
mod random;
mod review;
mod slices;
mod worked;

use super::*;
use crate::control::{Lane, Op};

/// A clip of `cost` ms.
fn clip(id: u64, cost: u64, arrival: u64) -> Item {
    Item { id: ItemId(id), op: Op::Transcribe, lane: Lane::Clips, cost, arrival: Micros(arrival), deadline: None }
}

/// A recording of `cost` ms.
fn recording(id: u64, cost: u64, arrival: u64) -> Item {
    Item { lane: Lane::Recordings, ..clip(id, cost, arrival) }
}

fn former(max_cost: u64) -> Former {
    Former::new(BatchCaps { max_cost, hard_cost: Some(AUDIO_HARD_CAP_MS), ..BatchCaps::default() })
}

/// Extracts whatever is next and says which ids.
fn take(former: &mut Former, now: u64) -> Vec<u64> {
    let formed = former.take(Micros(now), FlushReason::Drain, usize::MAX);
    formed.map(|f| f.items.iter().map(|i| i.id.0).collect()).unwrap_or_default()
}
