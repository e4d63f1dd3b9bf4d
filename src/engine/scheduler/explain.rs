//! Why an item waits and until when, what is owed, and what the next extraction would be.

use super::former::{Former, Order};
use super::plan::Plan;
use super::rules::Policy;
use super::slab::CostKey;
use super::turns::{LaneWhy, Owed, Turn};
use super::{FlushReason, ItemId, Micros};
use crate::control::{Lane, WaitCode};
use std::collections::{BTreeMap, BTreeSet};

/// What would be extracted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub lane: Lane,
    /// Why that lane.
    pub because: LaneWhy,
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
    /// Place in its lane, 1 = next; `None` while it is held: it has none.
    pub position: Option<u64>,
    /// The most turns of clips that can still begin until it is served, for a clip the one that serves it included.
    ///
    /// For a clip it is stated while there are turns, and holds as long as there are (or `keep_owed` is on): a gap without
    /// recordings forgets what is owed. For a recording it is stated where lanes alternate; where they share engine time,
    /// what is ahead is time and not turns, and only the recording that goes now has a number (0).
    pub turns_left: Option<u64>,
}

/// A clip that a turn passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwedClip {
    pub id: ItemId,
    pub cost: u64,
    pub arrival: Micros,
    /// The most turns that can still begin until it is served, that one included.
    pub turns_left: u64,
}

impl Former {
    /// What the next extraction would be, and whether it is due.
    pub fn preview(&self, now: Micros) -> Option<Preview> {
        let plan = self.plan(now, usize::MAX)?;
        let (lane, because) = (plan.lane(), plan.because);
        Some(Preview { lane, because, items: plan.batch.len(), cost: plan.cost, why: self.due(now, false) })
    }

    /// Why the item waits; `None` when it is neither pending nor held.
    pub fn explain(&self, id: ItemId, now: Micros) -> Option<Explained> {
        self.explain_all(now).into_iter().find(|e| e.id == id)
    }

    /// Why each item waits: recordings, then clips, each in the order of their positions, then what is held.
    pub fn explain_all(&self, now: Micros) -> Vec<Explained> {
        self.explain_first(now, usize::MAX)
    }

    /// The same for the first `per_lane` of each lane. Nothing is sorted; the clips are walked once.
    pub fn explain_first(&self, now: Micros, per_lane: usize) -> Vec<Explained> {
        let plan = self.plan(now, usize::MAX);
        // What the next batch takes waits for the window, or, when it is due, for a worker that is free.
        let ready = if self.due(now, false).is_some() { WaitCode::SlotBusy } else { WaitCode::WindowOpen };
        let mut all = self.explain_recordings(ready, plan.as_ref(), per_lane);
        all.extend(self.explain_clips(ready, plan.as_ref(), per_lane));
        all.extend(self.explain_held().take(per_lane));
        all
    }

    fn explain_held(&self) -> impl Iterator<Item = Explained> {
        self.held().map(|item| Explained {
            id: item.id,
            lane: item.lane,
            cost: item.cost,
            arrival: item.arrival,
            code: WaitCode::Held,
            position: None,
            turns_left: None,
        })
    }

    fn explain_recordings(&self, ready: WaitCode, plan: Option<&Plan>, first: usize) -> Vec<Explained> {
        let clips = !self.pending.clips.is_empty() && !self.rules.paused.clips;
        let goes_next = plan.is_some_and(|plan| plan.order == Order::Recording);
        let code = |place: u64| match place {
            _ if self.rules.paused.recordings => WaitCode::LanePaused,
            0 if goes_next => ready,
            _ if goes_next && !clips => WaitCode::CapReached,
            _ => WaitCode::TurnOfOtherLane,
        };
        // Where lanes alternate, turns that begin before the first recording goes: none while one is under way, it is
        // begun already; and one between two recordings.
        let turns_before = u64::from(!goes_next && self.lanes.turn.is_none());
        let turns_left = |place: u64| match self.rules.policy() {
            Policy::Whole => Some(turns_before + place),
            Policy::Slices { .. } => (place == 0 && goes_next).then_some(0),
        };
        let by_age = self.pending.by_age(Lane::Recordings).take(first);
        let explained = (0u64..).zip(by_age).map(|(place, (_, item))| Explained {
            id: item.id,
            lane: Lane::Recordings,
            cost: item.cost,
            arrival: item.arrival,
            code: code(place),
            position: Some(place + 1),
            turns_left: turns_left(place),
        });
        explained.collect()
    }

    fn explain_clips(&self, ready: WaitCode, plan: Option<&Plan>, first: usize) -> Vec<Explained> {
        let batch: &[CostKey] = plan.filter(|plan| plan.lane() == Lane::Clips).map_or(&[], |plan| &plan.batch);
        let taken: BTreeSet<u64> = batch.iter().map(|key| key.age.seq).collect();
        let turn: Option<&Turn> = self.lanes.turn.as_ref().or(plan.and_then(|plan| plan.begins.as_ref()));
        let owed = self.owed_mark();
        let left = |key: &CostKey| !taken.contains(&key.age.seq) && !turn.is_some_and(|turn| turn.has(key));
        let recording_next = plan.is_some_and(|plan| plan.order == Order::Recording);
        let code = |waits: WaitCode| match waits {
            _ if self.rules.paused.clips => WaitCode::LanePaused,
            _ if recording_next => WaitCode::TurnOfOtherLane,
            code => code,
        };
        let of_none = |code| if turn.is_none() { WaitCode::CapReached } else { code };
        let members = turn.into_iter().flat_map(|turn| turn.rest(&self.pending));
        let members = members.filter(|key| !taken.contains(&key.age.seq)).map(|key| (*key, WaitCode::CapReached));
        let passed_over = owed.clips(&self.pending).filter(left).map(|key| (key, of_none(WaitCode::OwedNextTurn)));
        let others = self.pending.clips.by_cost.iter().copied();
        let others = others.filter(|key| key.age.seq >= owed.before && left(key));
        let others = others.map(|key| (key, of_none(WaitCode::NotInThisTurn)));
        // Expected order of service: the next batch, the rest of the turn, what is owed by age, the others by cost.
        let keys = batch.iter().map(|key| (*key, ready)).chain(members).chain(passed_over).chain(others);
        let keys: Vec<(CostKey, WaitCode)> = keys.take(first).map(|(key, waits)| (key, code(waits))).collect();
        let bounds = self.turn_bounds(keys.iter().map(|(key, _)| key.age.seq).collect());
        let explained = (1u64..).zip(keys).filter_map(|(position, (key, code))| {
            let item = self.pending.get(key.age)?;
            Some(Explained {
                id: item.id,
                lane: Lane::Clips,
                cost: item.cost,
                arrival: item.arrival,
                code,
                position: Some(position),
                turns_left: bounds.as_ref().and_then(|b| b.get(&key.age.seq).copied()),
            })
        });
        explained.collect()
    }

    /// The clips that the turn under way, or an earlier one, passed over; the first `most`, oldest first.
    pub fn owed(&self, most: usize) -> Vec<OwedClip> {
        let turn = self.lanes.turn.as_ref();
        let keys = self.owed_mark().clips(&self.pending).filter(|key| !turn.is_some_and(|turn| turn.has(key)));
        let owed = (1u64..).zip(keys).filter_map(|(turns_left, key)| {
            let item = self.pending.get(key.age)?;
            Some(OwedClip { id: item.id, cost: item.cost, arrival: item.arrival, turns_left })
        });
        owed.take(most).collect()
    }

    /// Clips of before this mark that are not in the turn under way are owed: it saw them and passed them over, or an
    /// earlier one did.
    fn owed_mark(&self) -> Owed {
        let turn = self.lanes.turn.as_ref();
        turn.map_or(self.lanes.owed, |turn| Owed { before: turn.before, newest: turn.newest })
    }

    /// For each of these clips the most turns of clips that can still begin until it is served; `None` while there are no
    /// turns.
    ///
    /// A turn always takes the oldest clip it owes, and what a turn has seen and not taken is owed by the next. So the
    /// k-th oldest owed clip goes within k turns: each turn until then takes at least one that is older. A clip that no
    /// turn has seen is seen by the next one and owed from then on, behind the clips that are older than it, of which
    /// there are no more than now: one turn more. Later arrivals are younger and never add. Nothing of this asks what runs
    /// between two turns: it holds for whole recordings, for slices at any share, and for a lane that is paused and let go.
    /// (It counts turns, not time: at a share of 1 the next turn begins when no recording waits.)
    fn turn_bounds(&self, mut wanted: BTreeSet<u64>) -> Option<BTreeMap<u64, u64>> {
        let turn = self.lanes.turn.as_ref();
        let recordings = !self.pending.recordings.is_empty() || self.share.slices_out() > 0;
        if turn.is_none() && !recordings && self.lanes.last != Some(Lane::Recordings) {
            return None;
        }
        let seen_before = self.owed_mark().before;
        let (mut older, mut owed) = (0u64, 0u64);
        let mut bounds = BTreeMap::new();
        for (key, _) in self.pending.by_age(Lane::Clips) {
            if wanted.is_empty() {
                break;
            }
            let bound = if turn.is_some_and(|turn| turn.has(&key)) {
                0
            } else if key.age.seq < seen_before {
                older += 1;
                owed += 1;
                owed
            } else {
                older += 1;
                older + 1
            };
            if wanted.remove(&key.age.seq) {
                bounds.insert(key.age.seq, bound);
            }
        }
        Some(bounds)
    }
}
