//! Whose turn it is: the memory by which recordings and clips alternate, and what a turn of clips is made of.
//!
//! Turns exist only while recordings are about. A turn of clips is chosen once, when it begins, and served batch by
//! batch; one recording runs between two turns. Later modes (slices of a recording, shares of engine time, windows of
//! recordings merged into the clips' batches) change what "one recording, alone" means, not what is here.

use super::Micros;
use super::pending::{CostKey, Pending};
use crate::control::Lane;
use std::collections::BTreeSet;

/// A turn of clips under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub number: u64,
    pub began: Micros,
    /// The clips pending when it began are those submitted before this mark.
    pub before: u64,
    /// Cost that the whole turn may have, fixed when it begins.
    pub limit: u64,
    /// Still to serve, in cost order.
    pub members: BTreeSet<CostKey>,
    pub served_cost: u64,
}

/// A turn as the snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnView {
    pub number: u64,
    pub began: Micros,
    pub members_left: usize,
    pub served_cost: u64,
    pub limit: u64,
}

/// What is remembered between extractions; it survives an empty queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    pub turn: Option<Turn>,
    /// Left over = the clips still pending that were submitted before this mark. A left-over clip was pending when a
    /// turn began, and the marks of turns only rise, so one number says what a set of identities would.
    pub owed_before: u64,
    /// The lane that was served last.
    pub last: Option<Lane>,
    /// Turns begun so far.
    pub turns: u64,
}

/// What the next extraction takes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// The oldest recording, alone.
    Recording,
    /// The turn under way.
    Turn,
    /// A new turn.
    Begin(Turn),
    /// No recordings about: plain packing.
    Plain,
}

impl Lanes {
    /// Decides, and changes nothing. `limit` is the effective cost cap.
    pub fn choose(&self, pending: &Pending, limit: u64, now: Micros) -> Option<Choice> {
        let oldest = pending.oldest()?;
        if self.turn.is_some() {
            return Some(Choice::Turn);
        }
        let clips = !pending.clips.by_age.is_empty();
        let recording = pending.recordings.by_age.first();
        if let Some(first) = recording {
            let goes = match self.last {
                _ if !clips => true,
                Some(Lane::Clips) => true,
                Some(Lane::Recordings) => false,
                None => *first == oldest,
            };
            if goes {
                return Some(Choice::Recording);
            }
        }
        if recording.is_some() || self.last == Some(Lane::Recordings) {
            return Some(Choice::Begin(self.begin(pending, limit, now)));
        }
        Some(Choice::Plain)
    }

    /// The members of a turn that would begin now: first what is owed, oldest first, then the cheapest of the rest.
    fn begin(&self, pending: &Pending, limit: u64, now: Micros) -> Turn {
        let before = pending.watermark();
        let mut members = BTreeSet::new();
        let mut sum = 0u64;
        for age in pending.clips.by_age.iter().filter(|age| age.seq < self.owed_before) {
            let Some(item) = pending.get(age.seq) else { continue };
            let with = sum.saturating_add(item.cost);
            if !members.is_empty() && with > limit {
                break;
            }
            members.insert(CostKey { cost: item.cost, age: *age });
            sum = with;
        }
        for key in &pending.clips.by_cost {
            if members.contains(key) {
                continue;
            }
            let with = sum.saturating_add(key.cost);
            if !members.is_empty() && with > limit {
                break;
            }
            members.insert(*key);
            sum = with;
        }
        Turn { number: self.turns + 1, began: now, before, limit, members, served_cost: 0 }
    }

    /// Adopts a turn that [`choose`](Self::choose) proposed.
    pub fn start(&mut self, turn: Turn) {
        self.turns = turn.number;
        self.turn = Some(turn);
    }

    /// An item left the queue, served or not; a turn whose last member leaves ends.
    pub fn left(&mut self, key: CostKey, served: bool) {
        let Some(turn) = &mut self.turn else { return };
        if turn.members.remove(&key) && served {
            turn.served_cost = turn.served_cost.saturating_add(key.cost);
        }
        if turn.members.is_empty() {
            self.owed_before = turn.before;
            self.last = Some(Lane::Clips);
            self.turn = None;
        }
    }

    pub fn view(&self) -> Option<TurnView> {
        let turn = self.turn.as_ref()?;
        Some(TurnView {
            number: turn.number,
            began: turn.began,
            members_left: turn.members.len(),
            served_cost: turn.served_cost,
            limit: turn.limit,
        })
    }
}
