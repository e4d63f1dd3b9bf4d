//! When will each pending item start? A walk of the former's own state ahead in virtual time.
//!
//! Nothing is decided here: a copy of the former is asked for batch after batch, each batch takes as long as such batches
//! took so far, a recording that is not at its end is put back, and clips go on arriving at the pace they came. So the
//! estimate knows turns, what is owed, caps, slices and shares as they are, and stays right when a rule changes.
//!
//! The walk is bounded: it ends when everything asked about has started, after so many batches, or at a horizon. What has
//! not started by then has no estimate, which is better than a guess.

use super::{Charge, Formed, Former, Item, ItemId, Micros, Service, Slice};
use crate::control::{Lane, Op};
use std::collections::HashMap;

/// Batches that a walk looks ahead.
const BATCHES: usize = 400;

/// Time that a walk looks ahead.
const HORIZON: Micros = Micros(1_800_000_000);

/// Ids of clips that have not arrived yet begin here; the engine's own count from one.
const EXPECTED: u64 = 1 << 62;

/// A batch that runs now.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// When it is expected to end.
    pub ends: Micros,
    pub charge: Charge,
    /// Its expected time in all.
    pub takes: Micros,
    /// The recording whose slice it is.
    pub slice: Option<Slice>,
}

/// Clips as they have come lately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrivals {
    /// Time between two of them.
    pub every: Micros,
    /// Mean cost.
    pub cost: u64,
}

/// What a walk goes by.
#[derive(Debug, Clone, Default)]
pub struct Outlook {
    /// How long batches of each lane take; absent = unknown, and the walk ends at the first batch of that lane.
    pub clips: Option<Service>,
    pub recordings: Option<Service>,
    /// The part of a window by which a recording moves on in one: speech is cut between words, not at 30 s sharp.
    pub window_advance: f64,
    /// Batches that may run at once.
    pub slots: usize,
    pub running: Vec<Running>,
    /// Clips to come; absent = none.
    pub arrivals: Option<Arrivals>,
}

impl Outlook {
    fn takes(&self, lane: Lane, items: usize, cost: u64) -> Option<Micros> {
        let service = match lane {
            Lane::Clips => self.clips.or(self.recordings),
            Lane::Recordings => self.recordings.or(self.clips),
        };
        // A batch that took no time at all would never let the walk get on.
        service.map(|service| service.of(items, cost).max(Micros(1)))
    }

    /// What is left of a recording after a slice of so much cost.
    fn left(&self, item: Item, slice: u64) -> u64 {
        let advance = if self.window_advance.is_finite() { self.window_advance.clamp(0.1, 1.0) } else { 1.0 };
        // Its last slice takes it to its end, however far windows move it on otherwise.
        if slice >= item.cost { 0 } else { item.cost.saturating_sub((slice as f64 * advance) as u64) }
    }
}

/// The time from `now` until each pending item starts (for a recording that was put aside: goes on). Items that the walk
/// did not reach are left out.
pub fn forecast(former: &Former, now: Micros, outlook: &Outlook) -> HashMap<ItemId, Micros> {
    Walk::new(former, now, outlook).run()
}

struct Walk<'a> {
    former: Former,
    outlook: &'a Outlook,
    began: Micros,
    now: Micros,
    running: Vec<Running>,
    starts: HashMap<ItemId, Micros>,
    /// Items asked about that have not started.
    left: usize,
    next_arrival: Option<Micros>,
    arrived: u64,
    op: Op,
}

impl<'a> Walk<'a> {
    fn new(former: &Former, now: Micros, outlook: &'a Outlook) -> Walk<'a> {
        // A batch that is late ends at once.
        let running = outlook.running.iter().map(|r| Running { ends: r.ends.max(now), ..*r }).collect();
        // Later clips tell only where recordings compete with them: no clip waits for a younger one.
        let waiting = former.lane(Lane::Recordings).pending;
        let next_arrival = outlook.arrivals.filter(|_| waiting > 0).map(|arrivals| now + arrivals.every);
        Walk {
            former: former.clone(),
            outlook,
            began: now,
            now,
            running,
            starts: HashMap::new(),
            left: former.len(),
            next_arrival,
            arrived: 0,
            op: Op::Transcribe,
        }
    }

    fn run(mut self) -> HashMap<ItemId, Micros> {
        let mut batches = 0;
        while self.left > 0 && batches < BATCHES && self.now - self.began <= HORIZON {
            self.arrive();
            if self.running.len() < self.outlook.slots.max(1)
                && let Some(formed) = self.form()
            {
                batches += 1;
                if !self.start(formed) {
                    break;
                }
                continue;
            }
            if !self.wait() {
                break;
            }
        }
        self.starts
    }

    /// A batch that is due now. A worker that was busy finds the windows of what came meanwhile closed or not, as it would.
    fn form(&mut self) -> Option<Formed> {
        let why = self.former.due(self.now, false)?;
        self.former.take(self.now, why, usize::MAX)
    }

    fn start(&mut self, formed: Formed) -> bool {
        for item in &formed.items {
            // A recording starts once, and goes on in later slices.
            if self.asked(item.id) && !self.starts.contains_key(&item.id) {
                self.starts.insert(item.id, self.now - self.began);
                self.left = self.left.saturating_sub(1);
            }
        }
        let Some(takes) = self.outlook.takes(formed.lane, formed.items.len(), formed.cost) else { return false };
        self.running.push(Running { ends: self.now + takes, charge: formed.charge, takes, slice: formed.slice });
        true
    }

    /// Whether the item was pending when the walk began: neither one to come, nor a recording that ran.
    fn asked(&self, id: ItemId) -> bool {
        let ran = |r: &Running| r.slice.is_some_and(|slice| slice.item.id == id);
        id.0 < EXPECTED && !self.outlook.running.iter().any(ran)
    }

    /// Goes on to what happens next; false when nothing ever does.
    fn wait(&mut self) -> bool {
        let ends = self.running.iter().map(|r| r.ends).min();
        let free = self.running.len() < self.outlook.slots.max(1);
        let check = self.former.next_check(self.now).filter(|wait| free && *wait != Micros::MAX);
        // A window that has closed and gives no batch must not hold the walk up.
        let check = check.map(|wait| self.now + wait.max(Micros(1)));
        let Some(next) = [ends, check, self.next_arrival].into_iter().flatten().min() else { return false };
        self.now = next.max(self.now);
        let mut index = 0;
        while let Some(running) = self.running.get(index).copied() {
            if running.ends > self.now {
                index += 1;
                continue;
            }
            self.running.swap_remove(index);
            self.end(running);
        }
        true
    }

    fn end(&mut self, running: Running) {
        if let Some(slice) = running.slice {
            let left = self.outlook.left(slice.item, running.charge.cost);
            if left > 0 {
                self.former.put_back(slice, left);
            }
        }
        self.former.ran(running.charge, running.takes);
    }

    /// Lets the clips in that have come by now.
    fn arrive(&mut self) {
        let Some(Arrivals { every, cost }) = self.outlook.arrivals else { return };
        while let Some(at) = self.next_arrival.filter(|at| *at <= self.now) {
            let id = ItemId(EXPECTED + self.arrived);
            self.arrived += 1;
            let item = Item { id, op: self.op, lane: Lane::Clips, cost: cost.max(1), arrival: at, deadline: None };
            self.former.push(item);
            self.next_arrival = Some(at + every.max(Micros(1_000)));
        }
    }
}
