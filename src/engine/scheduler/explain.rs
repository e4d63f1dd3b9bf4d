//! Why an item waits and until when, and what the next extraction would be.

use super::former::{Former, Order};
use super::pending::CostKey;
use super::turns::Turn;
use super::{FlushReason, ItemId, Micros};
use crate::control::{Lane, WaitCode};
use std::collections::{BTreeMap, BTreeSet};

/// What would be extracted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub lane: Lane,
    pub items: usize,
    pub cost: u64,
    /// The rule that makes it due; `None` while the windows are open.
    pub why: Option<FlushReason>,
}

/// Why one item waits, as far as the former knows. The runtime knows more (loading, draining, a busy device).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explained {
    pub id: ItemId,
    pub lane: Lane,
    pub cost: u64,
    pub arrival: Micros,
    pub code: WaitCode,
    /// Place in its lane, 1 = next.
    pub position: u64,
    /// The most turns of clips that can still begin until it is served, the one that serves it included; absent while
    /// no recordings are about and there are no turns.
    pub turns_left: Option<u64>,
}

impl Former {
    /// What the next extraction would be, and whether it is due.
    pub fn preview(&self, now: Micros) -> Option<Preview> {
        let plan = self.plan(now, usize::MAX)?;
        let lane = if plan.order == Order::Recording { Lane::Recordings } else { Lane::Clips };
        let cost = plan.batch.iter().fold(0u64, |sum, key| sum.saturating_add(key.cost));
        Some(Preview { lane, items: plan.batch.len(), cost, why: self.due(now, false) })
    }

    /// Why the item waits; `None` when it is not pending.
    pub fn explain(&self, id: ItemId, now: Micros) -> Option<Explained> {
        self.explain_all(now).into_iter().find(|e| e.id == id)
    }

    /// Why each pending item waits: recordings, then clips, each in the order of their positions.
    pub fn explain_all(&self, now: Micros) -> Vec<Explained> {
        let Some(plan) = self.plan(now, usize::MAX) else { return Vec::new() };
        // What the next batch takes waits for the window, or, when it is due, for a worker that is free.
        let ready = if self.due(now, false).is_some() { WaitCode::SlotBusy } else { WaitCode::WindowOpen };
        let turn = self.lanes.turn.as_ref().or(plan.begins.as_ref());
        let mut all = self.explain_recordings(ready, plan.order == Order::Recording);
        all.extend(self.explain_clips(ready, &plan.batch, turn, plan.order));
        all
    }

    fn explain_recordings(&self, ready: WaitCode, goes_next: bool) -> Vec<Explained> {
        let clips = !self.pending.clips.by_age.is_empty();
        // Turns that begin before the first recording goes: none while one is under way, it is begun already.
        let turns_before = u64::from(!goes_next && self.lanes.turn.is_none());
        let code = |place: u64| match place {
            0 if goes_next => ready,
            _ if goes_next && !clips => WaitCode::CapReached,
            _ => WaitCode::TurnOfOtherLane,
        };
        let by_age = self.pending.recordings.by_age.iter();
        (0u64..)
            .zip(by_age)
            .filter_map(|(place, age)| {
                let item = self.pending.get(age.seq)?;
                Some(Explained {
                    id: item.id,
                    lane: Lane::Recordings,
                    cost: item.cost,
                    arrival: item.arrival,
                    code: code(place),
                    position: place + 1,
                    turns_left: Some(turns_before + place),
                })
            })
            .collect()
    }

    fn explain_clips(&self, ready: WaitCode, batch: &[CostKey], turn: Option<&Turn>, order: Order) -> Vec<Explained> {
        let batch: BTreeSet<u64> = batch.iter().map(|key| key.age.seq).collect();
        let bounds = self.turn_bounds(order);
        // A clip submitted before this mark and not in the turn is owed: the turn under way (or about to begin) saw it
        // and passed it over, or an earlier one did.
        let owed_before = self.lanes.turn.as_ref().map_or(self.lanes.owed_before, |turn| turn.before);
        let member = |key: &CostKey| turn.is_some_and(|turn| turn.members.contains(key));
        let owed = |key: &CostKey| key.age.seq < owed_before;
        let mut keys: Vec<CostKey> = self.pending.clips.by_cost.iter().copied().collect();
        // Expected order of service: the next batch, the rest of the turn, what is owed by age, the others by cost.
        keys.sort_by_key(|key| match () {
            _ if batch.contains(&key.age.seq) => (0, key.cost, key.age),
            _ if member(key) => (1, key.cost, key.age),
            _ if owed(key) => (2, 0, key.age),
            _ => (3, key.cost, key.age),
        });
        let code = |key: &CostKey| match () {
            _ if order == Order::Recording => WaitCode::TurnOfOtherLane,
            _ if batch.contains(&key.age.seq) => ready,
            _ if member(key) || turn.is_none() => WaitCode::CapReached,
            _ if owed(key) => WaitCode::OwedNextTurn,
            _ => WaitCode::NotInThisTurn,
        };
        (1u64..)
            .zip(&keys)
            .filter_map(|(position, key)| {
                let item = self.pending.get(key.age.seq)?;
                Some(Explained {
                    id: item.id,
                    lane: Lane::Clips,
                    cost: item.cost,
                    arrival: item.arrival,
                    code: code(key),
                    position,
                    turns_left: bounds.as_ref().and_then(|b| b.get(&key.age.seq).copied()),
                })
            })
            .collect()
    }

    /// For each pending clip the most turns that can still begin until it is served. Each turn serves at least the
    /// oldest clip it owes: the k-th oldest owed clip goes within k turns. A clip that no turn has seen yet becomes owed
    /// by the next one at the latest, behind the clips that are older than it: one turn more. Later arrivals never add.
    fn turn_bounds(&self, order: Order) -> Option<BTreeMap<u64, u64>> {
        let turns_about = self.lanes.turn.is_some()
            || !self.pending.recordings.by_age.is_empty()
            || self.lanes.last == Some(Lane::Recordings);
        if !turns_about && !matches!(order, Order::Turn | Order::Recording) {
            return None;
        }
        let turn = self.lanes.turn.as_ref();
        let seen_before = turn.map_or(self.lanes.owed_before, |turn| turn.before);
        let (mut older, mut owed) = (0u64, 0u64);
        let mut bounds = BTreeMap::new();
        for age in &self.pending.clips.by_age {
            let Some(item) = self.pending.get(age.seq) else { continue };
            let key = CostKey { cost: item.cost, age: *age };
            let bound = if turn.is_some_and(|turn| turn.members.contains(&key)) {
                0
            } else if age.seq < seen_before {
                older += 1;
                owed += 1;
                owed
            } else {
                older += 1;
                older + 1
            };
            bounds.insert(age.seq, bound);
        }
        Some(bounds)
    }
}
