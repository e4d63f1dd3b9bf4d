//! What is simulated: who sends what, how fast it is computed, and for how long.

use super::random::Random;
use super::service::Service;
use super::windows::Windows;
use crate::control::{Lane, Op};
use crate::engine::scheduler::{Item, ItemId, Micros, WINDOW_MS};
use crate::profile::{ArrivalPattern, ClientClass, Workload};

/// A load with its engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub duration: Micros,
    /// What is sent before is served but not counted.
    pub warm_up: Micros,
    pub seed: u64,
    /// Ends the run after so many batches.
    pub batches: Option<u64>,
    pub sources: Vec<Source>,
    pub service: Service,
}

impl Scenario {
    pub fn of(load: &Workload) -> Scenario {
        Scenario {
            duration: seconds(load.duration_s),
            warm_up: seconds(load.warm_up_s),
            seed: load.seed,
            batches: load.batches,
            sources: load.clients.iter().cloned().map(Source::Class).collect(),
            service: Service::of_lanes(&load.clips, &load.recordings),
        }
    }
}

/// Where requests come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    Class(ClientClass),
    /// Requests that came once, at these times.
    Recorded {
        name: String,
        arrivals: Vec<Recorded>,
    },
}

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recorded {
    pub at: Micros,
    pub op: Op,
    pub lane: Lane,
    pub cost: u64,
    pub windows: Windows,
    /// The time of its batches, as a part of what the service model says.
    pub pace: f64,
    /// After so long its client went away, if it had no answer by then.
    pub patience: Option<Micros>,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ask {
    pub op: Op,
    pub lane: Lane,
    pub cost: u64,
    pub windows: Windows,
    pub pace: f64,
    pub patience: Option<Micros>,
}

impl Source {
    pub fn name(&self) -> &str {
        match self {
            Source::Class(class) => &class.name,
            Source::Recorded { name, .. } => name,
        }
    }

    /// Independent senders in it.
    pub(super) fn senders(&self) -> u64 {
        match self {
            Source::Class(ClientClass { arrivals: ArrivalPattern::Closed { clients, .. }, .. }) => *clients,
            Source::Class(_) | Source::Recorded { .. } => 1,
        }
    }

    /// When a sender's first request comes.
    pub(super) fn first(&self, random: &mut Random) -> Option<Micros> {
        match self {
            Source::Class(class) => match class.arrivals {
                ArrivalPattern::Open { per_s, poisson: true } => {
                    Some(seconds(class.start_s) + seconds(random.exponential(1.0 / per_s)))
                }
                _ => Some(seconds(class.start_s)),
            },
            Source::Recorded { arrivals, .. } => arrivals.first().map(|first| first.at),
        }
    }

    /// The sender's n-th request, counted from 0.
    pub(super) fn ask(&self, n: u64, random: &mut Random) -> Option<Ask> {
        match self {
            Source::Class(class) => {
                let item = item_of_length(class.op, random.draw(&class.length));
                let patience = class.timeout_s.map(seconds);
                let windows = Windows::expected(item.cost, WINDOW_MS);
                Some(Ask { op: class.op, lane: item.lane, cost: item.cost, windows, pace: 1.0, patience })
            }
            Source::Recorded { arrivals, .. } => {
                let Recorded { op, lane, cost, windows, pace, patience, .. } =
                    *arrivals.get(usize::try_from(n).ok()?)?;
                Some(Ask { op, lane, cost, windows, pace, patience })
            }
        }
    }

    /// When the sender sends again after its n-th request was sent now; `None` when it first waits for the answer, or
    /// has no more to send.
    pub(super) fn next_after_send(&self, n: u64, now: Micros, random: &mut Random) -> Option<Micros> {
        match self {
            Source::Class(class) => match class.arrivals {
                ArrivalPattern::Closed { .. } => None,
                _ if class.requests.is_some_and(|most| n + 1 >= most) => None,
                ArrivalPattern::Open { per_s, poisson: true } => Some(now + seconds(random.exponential(1.0 / per_s))),
                // From the start, so that rounding never adds up.
                ArrivalPattern::Open { per_s, poisson: false } => {
                    Some(seconds(class.start_s + (n + 1) as f64 / per_s).max(now))
                }
            },
            Source::Recorded { arrivals, .. } => {
                arrivals.get(usize::try_from(n + 1).ok()?).map(|next| next.at.max(now))
            }
        }
    }

    /// When the sender sends again after its n-th request was answered or given up now.
    pub(super) fn next_after_end(&self, n: u64, now: Micros, random: &mut Random) -> Option<Micros> {
        let Source::Class(class) = self else { return None };
        match &class.arrivals {
            ArrivalPattern::Closed { think_s, .. } if class.requests.is_none_or(|most| n + 1 < most) => {
                Some(now + seconds(random.draw(think_s)))
            }
            _ => None,
        }
    }

    /// How often a request that was given up is sent again.
    pub(super) fn retries(&self) -> u64 {
        match self {
            Source::Class(class) => class.retries,
            Source::Recorded { .. } => 0,
        }
    }
}

/// The item of a request of `length` seconds of audio or tokens of text, as a door makes it.
fn item_of_length(op: Op, length: f64) -> Item {
    let id = ItemId(0);
    match op {
        Op::Embed => Item::embed(id, [length.round() as usize], Micros::ZERO),
        Op::Rerank => Item::rerank(id, 0, [length.round() as usize], Micros::ZERO),
        Op::Transcribe | Op::Generate => Item::transcribe(id, (length * 16_000.0).round() as u64, Micros::ZERO),
    }
}

fn seconds(s: f64) -> Micros {
    Micros::from_ms(s * 1_000.0)
}
