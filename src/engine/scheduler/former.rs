//! The batch former of one (model, operation).

use super::due::{FlushReason, due, next_check};
use super::pending::Pending;
use super::rules::LaneRules;
use super::share::{Charge, Share, ShareView};
use super::slab::{CostKey, Entry};
use super::turns::{LaneWhy, Lanes, Owed, TurnKind, TurnView};
use super::{BatchCaps, Item, ItemId, Micros};
use crate::control::Lane;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// The rule by which a batch's items were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One recording, alone.
    Recording,
    /// Members of a turn, cheapest first.
    Turn,
    /// Cheapest first.
    Cost,
    /// Cheapest first behind the oldest, which had waited for the whole window.
    Aged,
}

/// A batch to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Formed {
    /// In the order in which they were chosen; never empty.
    pub items: Vec<Item>,
    /// What the batch is to compute: the sum of the items' costs, or of a slice its windows.
    pub cost: u64,
    pub lane: Lane,
    /// Why that lane.
    pub because: LaneWhy,
    pub why: FlushReason,
    pub order: Order,
    /// What kind of turn it belongs to; `None` outside turns.
    pub kind: Option<TurnKind>,
    /// Number of the turn of clips it belongs to.
    pub turn: Option<u64>,
    /// The effective cost cap at that time.
    pub cap: u64,
    /// How much of the recording may run; `None` = run to the end.
    pub slice: Option<Slice>,
    /// To be given back to [`Former::ran`] when the batch has run.
    pub charge: Charge,
}

/// A part of a recording. When it has run and the recording is not at its end, [`Former::put_back`] takes it back to the
/// head of its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub windows: NonZeroU32,
    pub item: Item,
    /// Its place in the order of submission.
    seq: u64,
}

/// What waits in one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneLoad {
    pub pending: usize,
    /// Sum of costs, saturating.
    pub cost: u64,
    pub oldest: Option<Micros>,
}

/// Pending items and whose turn it is. Every way to extract (due, drain, shutdown) goes through [`take`](Former::take)
/// and shares that state.
#[derive(Debug, Clone)]
pub struct Former {
    pub(super) caps: BatchCaps,
    pub(super) rules: LaneRules,
    pub(super) pending: Pending,
    pub(super) lanes: Lanes,
    pub(super) share: Share,
    /// Turns of recordings so far.
    recordings: u64,
    /// The turn of a recording that runs now.
    running: Option<TurnView>,
    /// What an operator holds: out of the queue until it is let go.
    pub(super) held: BTreeMap<ItemId, Entry>,
}

impl Former {
    /// A former under the default [`LaneRules`].
    pub fn new(caps: BatchCaps) -> Former {
        Former {
            caps,
            rules: LaneRules::default(),
            pending: Pending::default(),
            lanes: Lanes::default(),
            share: Share::default(),
            recordings: 0,
            running: None,
            held: BTreeMap::new(),
        }
    }

    pub fn caps(&self) -> &BatchCaps {
        &self.caps
    }

    /// New caps from the next extraction on. A turn under way keeps its members and its limit.
    pub fn set_caps(&mut self, caps: BatchCaps) {
        self.caps = caps;
    }

    pub fn rules(&self) -> &LaneRules {
        &self.rules
    }

    /// New rules from the next extraction on. A turn of clips under way keeps its members, a slice that runs is not cut
    /// short, and what is owed stays owed. Where a share begins to count, or another one does, both lanes begin level.
    pub fn set_rules(&mut self, rules: LaneRules) {
        [Lane::Clips, Lane::Recordings].into_iter().for_each(|lane| self.bound_idle(lane));
        if rules.policy() != self.rules.policy() {
            self.share.reset();
        }
        self.rules = rules;
    }

    /// Adds an item; false when one of this id is here already.
    pub fn push(&mut self, item: Item) -> bool {
        if self.held.contains_key(&item.id) {
            return false;
        }
        self.bound_idle(item.lane);
        self.pending.insert(item)
    }

    /// Takes a recording back whose slice has run, with what is left of its cost (at least 1): it is the head of its lane
    /// again, with its own arrival and deadline, and due at once. False when one of its id is pending already.
    ///
    /// One that has ended, or that nobody wants any more, is not put back.
    pub fn put_back(&mut self, slice: Slice, cost_left: u64) -> bool {
        self.pending.put_back(Item { cost: cost_left.max(1), ..slice.item }, slice.seq)
    }

    /// A batch has run (or was dropped, with zero): corrects what its lane was charged with. Once for each [`Formed`],
    /// also where recordings run whole: the estimates are learnt here.
    pub fn ran(&mut self, charge: Charge, engine_time: Micros) {
        self.share.settle(charge, engine_time, self.rules.policy());
        if charge.lane == Lane::Recordings && self.share.out(Lane::Recordings) == 0 {
            self.running = None;
        }
        // Its own lane may only look idle: the recording is about to be put back.
        self.bound_idle(match charge.lane {
            Lane::Clips => Lane::Recordings,
            Lane::Recordings => Lane::Clips,
        });
    }

    /// A lane with nothing to run (nothing pending and nothing out, or paused) saves up one turn of engine time at most.
    pub(super) fn bound_idle(&mut self, lane: Lane) {
        let empty = self.pending.lane(lane).is_empty() && self.share.out(lane) == 0;
        if empty || self.rules.paused.lane(lane) {
            self.share.bound_idle(lane, self.rules.policy());
        }
    }

    /// The share of engine time: what is set, whether it counts, and which lane is behind.
    pub fn share(&self) -> ShareView {
        self.share.view(self.rules.recordings_share, self.rules.policy())
    }

    /// Takes out an item that is no longer wanted; `None` when it is neither pending nor held.
    pub fn remove(&mut self, id: ItemId) -> Option<Item> {
        if let Some(entry) = self.held.remove(&id) {
            return Some(entry.item);
        }
        let key = self.pending.key_of(id)?;
        self.take_out(key, false)
    }

    /// Takes out the items whose deadline has come, held or not.
    pub fn expire(&mut self, now: Micros) -> Vec<Item> {
        let mut gone = Vec::new();
        self.held.retain(|_, entry| {
            let over = entry.item.deadline.is_some_and(|deadline| deadline <= now);
            gone.extend(over.then_some(entry.item));
            !over
        });
        while let Some((_, age)) = self.pending.first_deadline().filter(|(deadline, _)| *deadline <= now) {
            let Some(item) = self.pending.get(age) else { break };
            gone.extend(self.take_out(CostKey { cost: item.cost, age }, false));
        }
        gone
    }

    /// The first deadline of what is pending or held.
    pub fn next_deadline(&self) -> Option<Micros> {
        let held = self.held.values().filter_map(|entry| entry.item.deadline);
        self.pending.first_deadline().map(|(deadline, _)| deadline).into_iter().chain(held).min()
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub fn lane(&self, lane: Lane) -> LaneLoad {
        let index = self.pending.lane(lane);
        LaneLoad {
            pending: index.len(),
            cost: u64::try_from(index.cost).unwrap_or(u64::MAX),
            oldest: self.pending.oldest(lane).map(|key| key.age.arrival),
        }
    }

    /// Arrival of the oldest item that may run.
    pub fn oldest(&self) -> Option<Micros> {
        self.pending.runnable(self.rules.paused).oldest.map(|age| age.arrival)
    }

    /// The turn of clips under way.
    pub fn turn(&self) -> Option<TurnView> {
        self.lanes.view()
    }

    /// The turn of the recording that runs now: whole, or a slice.
    pub fn recording_turn(&self) -> Option<TurnView> {
        self.running.clone()
    }

    /// Why a batch is due now, if one is. `idle`: the worker asks after an idle period.
    pub fn due(&self, now: Micros, idle: bool) -> Option<FlushReason> {
        due(&self.pending.runnable(self.rules.paused), &self.caps, now, idle)
    }

    /// Time until a window closes by itself: zero when one has closed, [`Micros::MAX`] when none ever does, `None` when
    /// nothing is pending that may run.
    pub fn next_check(&self, now: Micros) -> Option<Micros> {
        next_check(&self.pending.runnable(self.rules.paused), &self.caps, now)
    }

    /// A batch, if one is due.
    pub fn poll(&mut self, now: Micros, idle: bool, max_items: usize) -> Option<Formed> {
        // The reason is asked first: after the extraction the queue is another one.
        let why = self.due(now, idle)?;
        self.take(now, why, max_items)
    }

    /// A batch, due or not, labelled `why`; `None` (and nothing changes) when nothing is pending that may run or
    /// `max_items` is 0.
    pub fn take(&mut self, now: Micros, why: FlushReason, max_items: usize) -> Option<Formed> {
        let plan = self.plan(now, max_items)?;
        let lane = plan.lane();
        let seq = plan.batch.first()?.age.seq;
        if let Some(turn) = plan.begins {
            self.lanes.start(turn);
        }
        let turn = self.lanes.turn.as_ref().filter(|_| plan.order == Order::Turn);
        let turn = turn.map(|turn| (turn.number, turn.spell));
        let spell = turn.map_or(self.lanes.spells + 1, |(_, spell)| spell);
        self.lanes.spells = self.lanes.spells.max(spell);
        let plain = matches!(plan.order, Order::Cost | Order::Aged);
        // Recordings that an operator holds are still about: what is owed to clips because of them is not forgotten.
        if plain && !self.rules.keep_owed && self.pending.recordings.is_empty() {
            self.lanes.owed = Owed::default();
        }
        let items: Vec<Item> = plan.batch.iter().filter_map(|key| self.take_out(*key, true)).collect();
        self.lanes.last = Some(lane);
        let slice = plan.windows.zip(items.first()).map(|(windows, item)| Slice { windows, item: *item, seq });
        let kind = match plan.order {
            Order::Turn => Some(TurnKind::Clips),
            Order::Recording if slice.is_some() => Some(TurnKind::Slice),
            Order::Recording => Some(TurnKind::Recording),
            Order::Cost | Order::Aged => None,
        };
        if let Some(kind) = kind.filter(|_| lane == Lane::Recordings) {
            self.recordings += 1;
            let (number, cost) = (self.recordings, plan.cost);
            let view = TurnView { kind, number, began: now, members_left: 0, served_cost: cost, limit: cost };
            self.running = Some(view);
        }
        let charge = self.share.charge(lane, plan.cost, spell, slice.is_some(), self.rules.policy());
        Some(Formed {
            items,
            cost: plan.cost,
            lane,
            because: plan.because,
            why,
            order: plan.order,
            kind,
            turn: turn.map(|(number, _)| number),
            cap: self.caps.effective_cost(),
            slice,
            charge,
        })
    }

    fn take_out(&mut self, key: CostKey, served: bool) -> Option<Item> {
        let item = self.pending.remove(key)?;
        self.lanes.left(key, served);
        Some(item)
    }
}
