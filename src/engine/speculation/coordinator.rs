//! One sequence against a target whose replies may take their time.
//!
//! A state machine: [`Coordinator::next_action`] says what to do now, replies and failures are told to it, committed
//! tokens come out. Nothing is emitted that the target did not confirm, whatever is lost on the way; a lost route or a
//! failed rewind costs time, never the answer.

use super::acceptance::{Ending, accept};
use super::pipeline::{InFlight, OutOfOrder, Pipeline, WindowId};
use super::proposers::Proposer;
use super::supply::Supply;
use super::target::{Reply, Route, Target, TargetError};
use super::width::{Width, WidthLimits};
use super::window::Window;
use crate::control::speculation::SpeculationTally;

/// What bounds one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub width: WidthLimits,
    /// Windows that may be under way at once, where the route allows it.
    pub depth: usize,
    /// Tokens that may be committed.
    pub budget: usize,
    /// Tokens that end the answer.
    pub end_ids: Vec<u32>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this window.
    Open {
        id: WindowId,
        window: Window,
    },
    /// Have the target forget what lies at and beyond this position.
    Rewind(usize),
    /// Take a reply.
    Wait,
    Done,
}

/// A reply that cannot be right. The queue is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error(transparent)]
    Order(#[from] OutOfOrder),
    #[error("{id:?} has {got} predictions; its window asks for {expected}")]
    Predictions { id: WindowId, expected: usize, got: usize },
}

/// What went wrong so far, and was put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repairs {
    /// Rewinds that failed, after which the target was told the whole text again.
    pub reprefills: u64,
    /// Windows whose replies were given up.
    pub lost_windows: u64,
    /// Replies that came after their window had been given up.
    pub late_replies: u64,
}

/// The coordinator of one sequence.
pub struct Coordinator {
    limits: Limits,
    proposer: Box<dyn Proposer>,
    /// Whether new epochs may propose anything.
    speculating: bool,
    /// Prompt and answer: everything committed.
    history: Vec<u32>,
    prompt: usize,
    /// Tokens from the start that the target's cache is known to hold.
    cached: usize,
    width: Width,
    pipeline: Pipeline,
    supply: Supply,
    /// Tokens of the present epoch that are committed.
    held: usize,
    rewind: Option<usize>,
    done: bool,
    /// The newest window whose reply is not waited for any more.
    given_up: Option<WindowId>,
    newest: Option<WindowId>,
    tally: SpeculationTally,
    repairs: Repairs,
}

impl Coordinator {
    /// Begins behind `prompt`, of which the target's cache holds nothing yet. An empty prompt has no answer.
    pub fn new(limits: Limits, proposer: Box<dyn Proposer>, prompt: &[u32]) -> Coordinator {
        Coordinator {
            width: Width::new(limits.width),
            done: limits.budget == 0 || prompt.is_empty(),
            limits,
            proposer,
            speculating: true,
            history: prompt.to_vec(),
            prompt: prompt.len(),
            cached: 0,
            pipeline: Pipeline::default(),
            supply: Supply::default(),
            held: 0,
            rewind: None,
            given_up: None,
            newest: None,
            tally: SpeculationTally::default(),
            repairs: Repairs::default(),
        }
    }

    /// Whether new epochs may propose anything; what is under way goes on.
    pub fn set_speculating(&mut self, on: bool) {
        self.speculating = on;
    }

    /// The answer so far.
    pub fn answer(&self) -> &[u32] {
        &self.history[self.prompt..]
    }

    pub fn tally(&self) -> &SpeculationTally {
        &self.tally
    }

    pub fn repairs(&self) -> Repairs {
        self.repairs
    }

    /// Windows under way, the stale ones among them.
    pub fn in_flight(&self) -> usize {
        self.pipeline.len()
    }

    fn left(&self) -> usize {
        self.limits.budget - self.answer().len()
    }

    /// What to do now, given how replies come back.
    pub fn next_action(&mut self, route: Route) -> Action {
        if self.done {
            return Action::Done;
        }
        if let Some(to) = self.rewind.take() {
            return Action::Rewind(to);
        }
        let depth = route.depth(self.limits.depth);
        // A serial route answers one window at a time, the stale ones too. Else stale ones may pile up once over.
        let full = if depth == 1 { !self.pipeline.is_empty() } else { self.pipeline.len() >= 2 * depth };
        if full || self.pipeline.live() >= depth {
            return Action::Wait;
        }
        match self.plan() {
            None => Action::Wait,
            Some((window, bridge)) => {
                let InFlight { id, window, .. } = self.pipeline.push(window, bridge).clone();
                self.newest = Some(id);
                self.tally.in_flight_max = self.tally.in_flight_max.max(self.pipeline.live() as u64);
                Action::Open { id, window }
            }
        }
    }

    /// The next window and its bridge; `None` when nothing can be sent before a reply.
    fn plan(&mut self) -> Option<(Window, Option<u32>)> {
        let newest = self.pipeline.newest_live();
        let behind = newest.map(|w| (w.window.end(), w.bridge));
        // What will be committed once everything under way has held.
        let ahead = behind.map_or(0, |(end, _)| end + 1 - self.history.len());
        let left = self.left().checked_sub(ahead).filter(|left| *left > 0)?;
        let (start, current) = match behind {
            Some((end, bridge)) => (end, bridge?),
            None => (self.cached.min(self.history.len() - 1), *self.history.last()?),
        };
        if behind.is_none() && (self.supply.is_sealed() || self.held == 0) {
            self.supply = Supply::default();
            self.held = 0;
        }
        // One less than what is left: the target adds a token of its own.
        let width = self.width.current().min(left - 1);
        self.refill(width, left);
        let chunk = self.supply.cut(width)?;
        let missing = if behind.is_none() { &self.history[start..self.history.len() - 1] } else { &[] };
        Some((Window::behind(start, missing, current, &chunk.tokens, chunk.native), chunk.bridge))
    }

    /// Looks up more when the supply lacks a window and a bridge.
    fn refill(&mut self, width: usize, left: usize) {
        if !self.speculating || self.supply.available() > width {
            return;
        }
        self.proposer.sync(&self.history);
        let wanted = (self.width.max() + 1) * self.limits.depth.max(1);
        let found = self.proposer.propose(self.supply.from(self.held), wanted.min(left));
        self.supply.append(&found);
    }

    /// Takes a reply; gives the tokens that it commits.
    pub fn reply(&mut self, reply: &Reply) -> Result<Vec<u32>, ReplyError> {
        if self.given_up.is_some_and(|last| reply.id <= last) {
            self.repairs.late_replies += 1;
            return Ok(Vec::new());
        }
        if let Some(oldest) = self.pipeline.oldest().filter(|w| w.id == reply.id) {
            let (expected, got) = (oldest.window.width() + 1, reply.predictions.len());
            if expected != got {
                return Err(ReplyError::Predictions { id: reply.id, expected, got });
            }
        }
        let done = self.pipeline.complete(reply.id)?;
        if done.stale {
            self.tally.stale_discarded += 1;
            return Ok(Vec::new());
        }
        Ok(self.settle(&done, &reply.predictions))
    }

    fn settle(&mut self, done: &InFlight, predictions: &[u32]) -> Vec<u32> {
        let width = done.window.width();
        let ends = |t: u32| self.limits.end_ids.contains(&t);
        let accepted = accept(done.window.proposals(), predictions, self.left(), ends);
        let ended = accepted.commit.last().is_some_and(|t| ends(*t));
        self.history.extend_from_slice(&accepted.commit);
        self.cached = self.history.len() - 1;
        if width > 0 {
            let t = &mut self.tally;
            t.windows += 1;
            t.draft_n += width as u64;
            t.draft_n_accepted += accepted.accepted as u64;
            t.width_sum += width as u64;
            t.width_max = t.width_max.max(width as u64);
        }
        let own = accepted.commit.last().copied();
        let bridged = accepted.ending == Ending::AllAccepted && done.bridge.is_some() && done.bridge == own;
        let held = self.held + accepted.accepted + usize::from(bridged);
        let over = ended || self.left() == 0;
        match accepted.ending {
            Ending::AllAccepted if width > 0 => self.width.held(),
            Ending::Rejected => self.width.refuted(),
            _ => {}
        }
        if over {
            let refuted =
                accepted.rejected() || (done.bridge.is_some() && !bridged && accepted.ending == Ending::AllAccepted);
            self.retire(held, if refuted { Ending::Rejected } else { Ending::AcceptedStop });
            self.done = true;
            self.tally.stale_discarded += self.pipeline.clear() as u64;
        } else if bridged {
            self.held = held;
        } else if accepted.ending == Ending::AllAccepted && done.bridge.is_none() {
            self.retire(held, Ending::AllAccepted);
            self.pipeline.begin();
        } else {
            self.retire(held, Ending::Rejected);
            self.pipeline.diverge();
            self.rewind = Some(self.cached);
        }
        accepted.commit
    }

    /// Ends the epoch: counts its proposals' fates and forgets what is left of them.
    fn retire(&mut self, held: usize, ending: Ending) {
        for retired in self.supply.retire(held, ending) {
            retired.count(&mut self.tally.survival);
        }
        self.supply = Supply::default();
        self.held = 0;
    }

    /// The windows under way are lost; what they carried is sent again.
    pub fn lost(&mut self) {
        self.given_up = self.newest;
        self.repairs.lost_windows += self.pipeline.clear() as u64;
        self.retire(self.held, Ending::AcceptedStop);
    }

    /// The target could not forget what it was told to: it gets everything again.
    pub fn rewind_failed(&mut self) {
        self.cached = 0;
        self.repairs.reprefills += 1;
    }
}

/// Runs a sequence to its end; `commit` gets tokens as they are committed. An error means that the target is gone; what
/// was committed until then stands.
pub fn drive(
    coordinator: &mut Coordinator,
    target: &mut dyn Target,
    mut commit: impl FnMut(&[u32]),
) -> Result<(), TargetError> {
    loop {
        let failed = match coordinator.next_action(target.route()) {
            Action::Done => return Ok(()),
            Action::Open { id, window } => target.open(id, &window).err(),
            Action::Rewind(to) => target.rewind(to).err(),
            Action::Wait => match target.next_reply() {
                Err(error) => Some(error),
                Ok(reply) => match coordinator.reply(&reply) {
                    Ok(tokens) => {
                        if !tokens.is_empty() {
                            commit(&tokens);
                        }
                        None
                    }
                    Err(error) => Some(TargetError::RouteLost(error.to_string())),
                },
            },
        };
        match failed {
            None => {}
            Some(TargetError::RouteLost(_)) => coordinator.lost(),
            Some(TargetError::Rewind { .. }) => coordinator.rewind_failed(),
            Some(gone @ TargetError::Gone(_)) => return Err(gone),
        }
    }
}
