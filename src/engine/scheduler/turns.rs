//! Whose turn it is: the memory by which recordings and clips alternate, and what a turn of clips is made of.
//!
//! Turns exist only while recordings are about. A turn of clips is chosen once, when it begins, and served batch by
//! batch; recordings run between two turns. What a recording's turn is (all of it, or some windows) and which lane is
//! next when both have work is the [`Policy`]; what is here is the same for all of them.

use super::pending::Pending;
use super::rules::{LaneRules, Policy};
use super::share::Share;
use super::slab::{AgeKey, CostKey};
use super::{Item, Micros};
use crate::control::Lane;

/// Whether a turn is of clips, of a recording to its end, or of some windows of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKind {
    Clips,
    Recording,
    Slice,
}

impl TurnKind {
    /// The name used in snapshots.
    pub fn name(self) -> &'static str {
        match self {
            TurnKind::Clips => "clips",
            TurnKind::Recording => "recording",
            TurnKind::Slice => "slice",
        }
    }
}

/// A turn as the snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnView {
    pub kind: TurnKind,
    /// Which turn of its lane since the start, from 1.
    pub number: u64,
    pub began: Micros,
    /// Items still to dispatch.
    pub members_left: usize,
    /// Cost dispatched so far.
    pub served_cost: u64,
    /// Cost that the whole turn may have.
    pub limit: u64,
}

/// Why a lane is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneWhy {
    /// Its turn is under way.
    TurnUnderWay,
    /// The other lane has nothing to run.
    OnlyLane,
    /// The other lane is paused.
    OtherPaused,
    /// The other lane went last.
    Alternation,
    /// It has the oldest item, and no lane went before.
    Oldest,
    /// It is behind its share of engine time.
    BehindShare,
}

impl LaneWhy {
    /// The name used in snapshots.
    pub fn name(self) -> &'static str {
        match self {
            LaneWhy::TurnUnderWay => "turn_under_way",
            LaneWhy::OnlyLane => "only_lane",
            LaneWhy::OtherPaused => "other_paused",
            LaneWhy::Alternation => "alternation",
            LaneWhy::Oldest => "oldest",
            LaneWhy::BehindShare => "behind_share",
        }
    }
}

/// A turn of clips under way. Its members are identities, in cost order; one that was cancelled stays in the list and is
/// passed by, since it is no longer pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub number: u64,
    /// Names it among the turns of both lanes.
    pub spell: u64,
    pub began: Micros,
    /// The clips pending when it began are those submitted before this mark.
    pub before: u64,
    /// The newest arrival among them.
    pub newest: Micros,
    /// Cost that the whole turn may have, fixed when it begins.
    pub limit: u64,
    members: Vec<CostKey>,
    /// Members before this place have been dispatched or have left.
    next: usize,
    /// Members still pending.
    pub left: usize,
    pub served_cost: u64,
}

impl Turn {
    /// Whether this pending clip is a member.
    pub fn has(&self, key: &CostKey) -> bool {
        self.members.get(self.next..).is_some_and(|rest| rest.binary_search(key).is_ok())
    }

    /// The members still to serve, cheapest first.
    pub fn rest<'a>(&'a self, pending: &'a Pending) -> impl Iterator<Item = &'a CostKey> {
        self.members.iter().skip(self.next).filter(|key| pending.get(key.age).is_some())
    }
}

/// Which clips are owed: those still pending that were submitted before `before`. A left-over clip was pending when a
/// turn began, and the marks of turns only rise, so one number says what a set of identities would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Owed {
    pub before: u64,
    /// None of them arrived after this: where a walk by age may stop.
    pub newest: Micros,
}

impl Owed {
    /// The owed clips, oldest first.
    pub fn clips(self, pending: &Pending) -> impl Iterator<Item = CostKey> {
        let of_then = move |key: &CostKey| (key.age.arrival, key.age.seq) < (self.newest, self.before);
        let by_age = pending.by_age(Lane::Clips).map(|(key, _)| key);
        by_age.take_while(of_then).filter(move |key| key.age.seq < self.before)
    }
}

/// What is remembered between extractions; it survives an empty queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    pub turn: Option<Turn>,
    pub owed: Owed,
    /// The lane that was served last.
    pub last: Option<Lane>,
    /// Turns of clips begun so far.
    pub turns: u64,
    /// Turns of both lanes, and batches outside turns.
    pub spells: u64,
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
    pub fn choose(
        &self,
        pending: &Pending,
        rules: &LaneRules,
        share: &Share,
        limit: u64,
        now: Micros,
    ) -> Option<(Choice, LaneWhy)> {
        if self.turn.is_some() && !rules.paused.clips {
            return Some((Choice::Turn, LaneWhy::TurnUnderWay));
        }
        let (clips, recordings) = (pending.oldest(Lane::Clips), pending.oldest(Lane::Recordings));
        let (clips, recordings) = (clips.map(|key| key.age), recordings.map(|key| key.age));
        let runs = |lane| !rules.paused.lane(lane);
        let (lane, why) = match (clips.filter(|_| runs(Lane::Clips)), recordings.filter(|_| runs(Lane::Recordings))) {
            (None, None) => return None,
            (Some(_), None) => (Lane::Clips, alone(recordings)),
            (None, Some(_)) => (Lane::Recordings, alone(clips)),
            (Some(clip), Some(recording)) => self.between(&clip, &recording, rules.policy(), share),
        };
        if lane == Lane::Recordings {
            return Some((Choice::Recording, why));
        }
        // A recording in the middle of its slices is about although it is not pending.
        let about = recordings.is_some_and(|_| runs(Lane::Recordings)) || share.slices_out() > 0;
        if about || self.last == Some(Lane::Recordings) {
            return Some((Choice::Begin(self.begin(pending, rules, limit, now)), why));
        }
        Some((Choice::Plain, why))
    }

    /// The lane that is next when both have work and no turn of clips is under way.
    fn between(&self, clip: &AgeKey, recording: &AgeKey, policy: Policy, share: &Share) -> (Lane, LaneWhy) {
        if let Policy::Slices { share: part, .. } = policy
            && let Some(lane) = share.behind(part)
        {
            return (lane, LaneWhy::BehindShare);
        }
        match self.last {
            Some(Lane::Clips) => (Lane::Recordings, LaneWhy::Alternation),
            Some(Lane::Recordings) => (Lane::Clips, LaneWhy::Alternation),
            None if recording < clip => (Lane::Recordings, LaneWhy::Oldest),
            None => (Lane::Clips, LaneWhy::Oldest),
        }
    }

    /// The members of a turn that would begin now: first what is owed, oldest first, then the cheapest of the rest.
    fn begin(&self, pending: &Pending, rules: &LaneRules, limit: u64, now: Micros) -> Turn {
        let mut owed: Vec<CostKey> = Vec::new();
        let mut sum = 0u64;
        for key in self.owed.clips(pending).take_while(|_| rules.owed) {
            let with = sum.saturating_add(key.cost);
            if !owed.is_empty() && with > limit {
                break;
            }
            owed.push(key);
            sum = with;
        }
        owed.sort_unstable();
        // Both runs are in cost order: what is owed is met again on the way through the cheapest, or is dearer than all
        // of them.
        let mut members = Vec::with_capacity(owed.len());
        let mut owed = owed.into_iter().peekable();
        let mut any = owed.peek().is_some();
        for key in &pending.clips.by_cost {
            if owed.next_if_eq(key).is_some() {
                members.push(*key);
                continue;
            }
            let with = sum.saturating_add(key.cost);
            if any && with > limit {
                break;
            }
            members.push(*key);
            any = true;
            sum = with;
        }
        members.extend(owed);
        Turn {
            number: self.turns + 1,
            spell: self.spells + 1,
            began: now,
            before: pending.watermark(),
            newest: pending.newest(Lane::Clips).map_or(Micros::ZERO, |age| age.arrival),
            limit,
            left: members.len(),
            members,
            next: 0,
            served_cost: 0,
        }
    }

    /// Adopts a turn that [`choose`](Self::choose) proposed.
    pub fn start(&mut self, turn: Turn) {
        self.turns = turn.number;
        self.turn = Some(turn);
    }

    /// A clip was taken out by hand: it is no member any more, not even where it comes back.
    pub fn forget(&mut self, key: CostKey) {
        self.left(key, false);
        let Some(turn) = &mut self.turn else { return };
        if let Some(at) = turn.members.get(turn.next..).and_then(|rest| rest.binary_search(&key).ok()) {
            turn.members.remove(turn.next + at);
        }
    }

    /// An item came (back) into the lane of clips with a number of its own. If turns have passed since it was submitted,
    /// it is owed from now on, like what they passed over: a walk by age must not stop before it.
    pub fn joined(&mut self, item: &Item, seq: u64) {
        if item.lane == Lane::Clips && seq < self.owed.before {
            self.owed.newest = self.owed.newest.max(item.arrival);
        }
        if let Some(turn) = self.turn.as_mut().filter(|turn| item.lane == Lane::Clips && seq < turn.before) {
            turn.newest = turn.newest.max(item.arrival);
        }
    }

    /// A clip left the queue, served or not; a turn whose last member leaves ends.
    pub fn left(&mut self, key: CostKey, served: bool) {
        let Some(turn) = &mut self.turn else { return };
        if !turn.has(&key) {
            return;
        }
        turn.left -= 1;
        if served {
            turn.served_cost = turn.served_cost.saturating_add(key.cost);
            // Batches are taken from the front: what lies before this member is gone.
            while turn.members.get(turn.next).is_some_and(|member| *member <= key) {
                turn.next += 1;
            }
        }
        if turn.left == 0 {
            self.owed = Owed { before: turn.before, newest: turn.newest };
            self.last = Some(Lane::Clips);
            self.turn = None;
        }
    }

    pub fn view(&self) -> Option<TurnView> {
        let turn = self.turn.as_ref()?;
        Some(TurnView {
            kind: TurnKind::Clips,
            number: turn.number,
            began: turn.began,
            members_left: turn.left,
            served_cost: turn.served_cost,
            limit: turn.limit,
        })
    }
}

/// Why a lane goes when the other does not: `other` is what the other has pending.
fn alone(other: Option<AgeKey>) -> LaneWhy {
    if other.is_some() { LaneWhy::OtherPaused } else { LaneWhy::OnlyLane }
}
