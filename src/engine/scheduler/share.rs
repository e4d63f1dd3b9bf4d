//! Measured engine time per lane, and which lane is behind its share of it.
//!
//! With share `s` of recordings, time `r` that recordings ran and time `c` that clips ran, the balance is
//! `(1 − s)·r − s·c`: zero when the share is met, positive when recordings are ahead. A batch is charged with an estimate
//! when it is dispatched and corrected when it has run, so that with two batches in flight the second choice knows of the
//! first.
//!
//! While both lanes have work and each turn goes to the lane behind, a turn of time `t` moves the balance towards the
//! other lane by `(1 − s)·t` or `s·t`, and only a lane that is behind (or level) is moved. So the balance stays between
//! `−s·C` and `(1 − s)·R`, where `C` and `R` are the longest turns of clips and of recordings: over any stretch in which
//! both have work, each lane has its share of the time but for one turn of each. A lane without work falls behind without
//! end; [`Share::bound_idle`] lets it save up one turn, not more.

use super::Micros;
use super::rules::Policy;
use crate::control::Lane;

/// Weight of the newest batch in the estimate of time per cost.
const NEWEST: f64 = 0.2;

/// Closer than this, in µs, is level.
const LEVEL: f64 = 0.5;

/// What a batch was charged with when it was dispatched. Give it back to [`Former::ran`](super::Former::ran) when the
/// batch has run, once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Charge {
    pub lane: Lane,
    pub cost: u64,
    /// Engine time it is expected to take; zero while nothing has been measured.
    pub estimate: Micros,
    /// Whether the recording will be put back: see [`Slice`](super::Slice).
    pub(super) slice: bool,
    /// The batches of one turn carry one number.
    turn: u64,
    /// The balance that it was charged to.
    epoch: u64,
}

/// The share of engine time, for people.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareView {
    /// The part set for recordings.
    pub recordings: f64,
    /// False where recordings run whole: the lanes alternate, and the share has no effect.
    pub in_effect: bool,
    /// The lane that is behind, and by how much of its own engine time; `None` when level or not in effect.
    pub behind: Option<(Lane, Micros)>,
    /// Engine time measured since the start.
    pub clips_ran: Micros,
    pub recordings_ran: Micros,
    /// Engine time of the last turn of clips, and of recordings; zero before the first.
    pub last_turns: [Micros; 2],
}

/// One lane's time.
#[derive(Debug, Clone, Copy, Default)]
struct LaneTime {
    /// µs of engine time per unit of cost.
    per_cost: Option<f64>,
    /// Batches dispatched that have not come back.
    out: usize,
    /// The last turn that has run (a part of), and its measured time in µs.
    turn: Option<(u64, f64)>,
    total: Micros,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Share {
    /// The balance of what has run (see the head of this file), in µs.
    settled: f64,
    /// What the batches that are out were charged with, on the same scale. Kept apart: an idle lane's savings are bounded by
    /// what was measured, and an estimate that is far off is gone without a trace when its batch has run.
    charged: f64,
    epoch: u64,
    clips: LaneTime,
    recordings: LaneTime,
    slices_out: usize,
}

impl Share {
    fn lane(&self, lane: Lane) -> &LaneTime {
        match lane {
            Lane::Clips => &self.clips,
            Lane::Recordings => &self.recordings,
        }
    }

    fn lane_mut(&mut self, lane: Lane) -> &mut LaneTime {
        match lane {
            Lane::Clips => &mut self.clips,
            Lane::Recordings => &mut self.recordings,
        }
    }

    /// Batches of the lane that are out.
    pub fn out(&self, lane: Lane) -> usize {
        self.lane(lane).out
    }

    /// Recordings that run a slice now and will be put back or end.
    pub fn slices_out(&self) -> usize {
        self.slices_out
    }

    /// Begins anew with both lanes level. Estimates and totals stay.
    pub fn reset(&mut self) {
        (self.settled, self.charged) = (0.0, 0.0);
        self.epoch += 1;
    }

    fn balance(&self) -> f64 {
        self.settled + self.charged
    }

    /// The lane whose turn it is by its share; `None` when they are level.
    pub fn behind(&self, share: f64) -> Option<Lane> {
        match self.balance() {
            _ if share <= 0.0 => Some(Lane::Clips),
            _ if share >= 1.0 => Some(Lane::Recordings),
            b if b > LEVEL => Some(Lane::Clips),
            b if b < -LEVEL => Some(Lane::Recordings),
            _ => None,
        }
    }

    fn estimate(&self, lane: Lane, cost: u64) -> Micros {
        let other = match lane {
            Lane::Clips => self.recordings.per_cost,
            Lane::Recordings => self.clips.per_cost,
        };
        // What the other lane needs is a better guess than nothing.
        self.lane(lane).per_cost.or(other).map_or(Micros::ZERO, |per| Micros((per * cost as f64) as u64))
    }

    /// What time of a lane is on the scale of the balance.
    fn signed(lane: Lane, policy: Policy, us: f64) -> f64 {
        match (policy, lane) {
            (Policy::Whole, _) => 0.0,
            (Policy::Slices { share, .. }, Lane::Recordings) => (1.0 - share) * us,
            (Policy::Slices { share, .. }, Lane::Clips) => -share * us,
        }
    }

    /// A batch is dispatched. `turn`: one number for all batches of a turn.
    pub fn charge(&mut self, lane: Lane, cost: u64, turn: u64, slice: bool, policy: Policy) -> Charge {
        let estimate = self.estimate(lane, cost);
        self.charged += Share::signed(lane, policy, estimate.0 as f64);
        self.lane_mut(lane).out += 1;
        self.slices_out += usize::from(slice);
        Charge { lane, cost, estimate, slice, turn, epoch: self.epoch }
    }

    /// It has run for `took`; zero when it never ran.
    pub fn settle(&mut self, charge: Charge, took: Micros, policy: Policy) {
        let Charge { lane, cost, estimate, slice, turn, epoch } = charge;
        // What was charged before the balance began anew is not in it.
        if epoch == self.epoch {
            self.charged -= Share::signed(lane, policy, estimate.0 as f64);
            self.settled += Share::signed(lane, policy, took.0 as f64);
        }
        self.slices_out = self.slices_out.saturating_sub(usize::from(slice));
        let time = self.lane_mut(lane);
        time.out = time.out.saturating_sub(1);
        if took == Micros::ZERO {
            return;
        }
        let us = took.0 as f64;
        time.total = time.total + took;
        time.turn = match time.turn {
            Some((number, before)) if number == turn => Some((turn, before + us)),
            _ => Some((turn, us)),
        };
        let per_cost = us / cost.max(1) as f64;
        time.per_cost = Some(time.per_cost.map_or(per_cost, |old| old + NEWEST * (per_cost - old)));
    }

    /// A lane that has nothing to run saves up at most one turn: as long as its last one took.
    pub fn bound_idle(&mut self, lane: Lane, policy: Policy) {
        let Policy::Slices { share, .. } = policy else { return };
        let one = self.lane(lane).turn.map_or(0.0, |(_, us)| us);
        self.settled = match lane {
            Lane::Recordings => self.settled.max(-(1.0 - share) * one),
            Lane::Clips => self.settled.min(share * one),
        };
    }

    pub fn view(&self, set: f64, policy: Policy) -> ShareView {
        let behind = match policy {
            Policy::Whole => None,
            Policy::Slices { share, .. } => match self.balance() {
                b if b > LEVEL && share > 0.0 => Some((Lane::Clips, Micros((b / share) as u64))),
                b if b < -LEVEL && share < 1.0 => Some((Lane::Recordings, Micros((-b / (1.0 - share)) as u64))),
                _ => None,
            },
        };
        ShareView {
            recordings: set,
            in_effect: policy != Policy::Whole,
            behind,
            clips_ran: self.clips.total,
            recordings_ran: self.recordings.total,
            last_turns: [self.clips, self.recordings]
                .map(|lane| lane.turn.map_or(Micros::ZERO, |(_, us)| Micros(us as u64))),
        }
    }
}
