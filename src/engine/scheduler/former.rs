//! The batch former of one (model, operation).

use super::due::{FlushReason, due, next_check};
use super::pending::{CostKey, Pending};
use super::turns::{Choice, Lanes, Turn, TurnView};
use super::{BatchCaps, Item, ItemId, Micros};
use crate::control::Lane;

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
    /// Sum of the items' costs.
    pub cost: u64,
    pub lane: Lane,
    pub why: FlushReason,
    pub order: Order,
    /// Number of the turn of clips it belongs to.
    pub turn: Option<u64>,
    /// The effective cost cap at that time.
    pub cap: u64,
}

/// What waits in one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneLoad {
    pub pending: usize,
    /// Sum of costs, saturating.
    pub cost: u64,
    pub oldest: Option<Micros>,
}

/// What an extraction would take: decided before anything changes.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub batch: Vec<CostKey>,
    pub order: Order,
    /// The turn that this extraction begins.
    pub begins: Option<Turn>,
}

/// Pending items and whose turn it is. Every way to extract (due, drain, shutdown) goes through [`take`](Former::take)
/// and shares that state.
#[derive(Debug, Clone)]
pub struct Former {
    pub(super) caps: BatchCaps,
    pub(super) pending: Pending,
    pub(super) lanes: Lanes,
}

impl Former {
    pub fn new(caps: BatchCaps) -> Former {
        Former { caps, pending: Pending::default(), lanes: Lanes::default() }
    }

    pub fn caps(&self) -> &BatchCaps {
        &self.caps
    }

    /// New caps from the next extraction on. A turn under way keeps its members and its limit.
    pub fn set_caps(&mut self, caps: BatchCaps) {
        self.caps = caps;
    }

    /// Adds an item; false when one of this id is pending already.
    pub fn push(&mut self, item: Item) -> bool {
        self.pending.insert(item)
    }

    /// Takes out an item that is no longer wanted; `None` when it is not pending.
    pub fn remove(&mut self, id: ItemId) -> Option<Item> {
        let key = self.pending.key_of(id)?;
        self.take_out(key, false)
    }

    /// Takes out the items whose deadline has come.
    pub fn expire(&mut self, now: Micros) -> Vec<Item> {
        let mut gone = Vec::new();
        while let Some((deadline, seq)) = self.pending.first_deadline() {
            if deadline > now {
                break;
            }
            let id = self.pending.get(seq).map(|item| item.id);
            gone.extend(id.and_then(|id| self.remove(id)));
        }
        gone
    }

    /// The first deadline of what is pending.
    pub fn next_deadline(&self) -> Option<Micros> {
        self.pending.first_deadline().map(|(deadline, _)| deadline)
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
            pending: index.by_age.len(),
            cost: u64::try_from(index.cost).unwrap_or(u64::MAX),
            oldest: index.by_age.first().map(|age| age.arrival),
        }
    }

    /// The oldest pending item's arrival.
    pub fn oldest(&self) -> Option<Micros> {
        self.pending.oldest().map(|age| age.arrival)
    }

    /// The turn of clips under way.
    pub fn turn(&self) -> Option<TurnView> {
        self.lanes.view()
    }

    /// Why a batch is due now, if one is. `idle`: the worker asks after an idle period.
    pub fn due(&self, now: Micros, idle: bool) -> Option<FlushReason> {
        due(&self.pending, &self.caps, now, idle)
    }

    /// Time until a window closes by itself: zero when one has closed, [`Micros::MAX`] when none ever does, `None` when
    /// nothing is pending.
    pub fn next_check(&self, now: Micros) -> Option<Micros> {
        next_check(&self.pending, &self.caps, now)
    }

    /// A batch, if one is due.
    pub fn poll(&mut self, now: Micros, idle: bool, max_items: usize) -> Option<Formed> {
        // The reason is asked first: after the extraction the queue is another one.
        let why = self.due(now, idle)?;
        self.take(now, why, max_items)
    }

    /// A batch, due or not, labelled `why`; `None` (and nothing changes) when nothing is pending or `max_items` is 0.
    pub fn take(&mut self, now: Micros, why: FlushReason, max_items: usize) -> Option<Formed> {
        let plan = self.plan(now, max_items)?;
        let lane = if plan.order == Order::Recording { Lane::Recordings } else { Lane::Clips };
        if let Some(turn) = plan.begins {
            self.lanes.start(turn);
        }
        let turn = self.lanes.turn.as_ref().map(|turn| turn.number);
        if matches!(plan.order, Order::Cost | Order::Aged) && !self.caps.keep_owed {
            self.lanes.owed_before = 0;
        }
        let items: Vec<Item> = plan.batch.iter().filter_map(|key| self.take_out(*key, true)).collect();
        self.lanes.last = Some(lane);
        let cost = items.iter().fold(0u64, |sum, item| sum.saturating_add(item.cost));
        Some(Formed { items, cost, lane, why, order: plan.order, turn, cap: self.caps.effective_cost() })
    }

    fn take_out(&mut self, key: CostKey, served: bool) -> Option<Item> {
        let item = self.pending.remove(key.age.seq)?;
        self.lanes.left(key, served);
        Some(item)
    }

    /// What [`take`](Self::take) would take now.
    pub(super) fn plan(&self, now: Micros, max_items: usize) -> Option<Plan> {
        if max_items == 0 {
            return None;
        }
        let cap = self.caps.effective_cost();
        let count = self.caps.count().min(max_items);
        let choice = self.lanes.choose(&self.pending, cap, now)?;
        let (batch, order, begins) = match choice {
            Choice::Recording => {
                let age = self.pending.recordings.by_age.first()?;
                let cost = self.pending.get(age.seq)?.cost;
                (vec![CostKey { cost, age: *age }], Order::Recording, None)
            }
            Choice::Turn => {
                let members = &self.lanes.turn.as_ref()?.members;
                (pack(members.iter(), count, cap), Order::Turn, None)
            }
            Choice::Begin(turn) => (pack(turn.members.iter(), count, cap), Order::Turn, Some(turn)),
            Choice::Plain => {
                let by_cost = &self.pending.clips.by_cost;
                match self.aged(now) {
                    Some(aged) => {
                        let rest = by_cost.iter().filter(|key| **key != aged);
                        (pack(std::iter::once(&aged).chain(rest), count, cap), Order::Aged, None)
                    }
                    None => (pack(by_cost.iter(), count, cap), Order::Cost, None),
                }
            }
        };
        Some(Plan { batch, order, begins })
    }

    /// The oldest clip, when it has waited for the whole window.
    fn aged(&self, now: Micros) -> Option<CostKey> {
        let age = *self.pending.clips.by_age.first()?;
        let waited = self.caps.wait != Micros::MAX && now - age.arrival >= self.caps.wait;
        let cost = self.pending.get(age.seq)?.cost;
        (self.caps.aged_promotion && waited).then_some(CostKey { cost, age })
    }
}

/// Takes from the front while there is room: the first always, then each while the sum stays within the cap. Behind its
/// first key the order is by cost, so what comes after one that does not fit does not fit either.
fn pack<'a>(keys: impl Iterator<Item = &'a CostKey>, count: usize, cap: u64) -> Vec<CostKey> {
    let mut batch = Vec::new();
    let mut sum = 0u64;
    for key in keys.take(count) {
        let with = sum.saturating_add(key.cost);
        if !batch.is_empty() && with > cap {
            break;
        }
        batch.push(*key);
        sum = with;
    }
    batch
}
