//! The event loop: the scheduler's own formers and rounds, in virtual time.

use super::random::Random;
use super::repeat::Jitter;
use super::scenario::{Ask, Scenario};
use super::service::Work;
use super::settings::Settings;
use super::tally::Tally;
use super::windows::Windows;
use crate::control::{Lane, Op};
use crate::engine::scheduler::{Adaptive, Charge, FlushReason, Former, Item, ItemId, Micros, Rounds, Slice};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The operations that are batched.
const OPS: [Op; 3] = [Op::Transcribe, Op::Embed, Op::Rerank];

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender sends its next request.
    Send { source: usize, sender: u64 },
    /// A client has waited long enough.
    GiveUp { request: u64 },
    /// The batch on the device ends, unless it was cut short meanwhile.
    Ends { batch: u64, version: u32 },
}

/// A client, or a stream of requests.
struct Sender {
    random: Random,
    sent: u64,
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub source: usize,
    sender: u64,
    /// Which of the sender's requests it is.
    n: u64,
    ask: Ask,
    pub op: Op,
    pub lane: Lane,
    pub cost: u64,
    /// Still to be run.
    windows: Windows,
    pub submitted: Micros,
    /// Left the queue.
    pub taken: Option<Micros>,
    /// The device began with it.
    pub started: Option<Micros>,
    pub ended: Option<(Micros, End)>,
    retries: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Served,
    GivenUp,
}

/// A batch that was extracted and has not ended.
struct Flying {
    number: u64,
    op: Op,
    lane: Lane,
    items: Vec<Item>,
    /// What it computes of its items' costs.
    cost: u64,
    slice: Option<Slice>,
    /// Windows that it runs, where it is a slice.
    windows: u64,
    /// The time it takes, as a part of what the service model says.
    pace: f64,
    charge: Charge,
    why: FlushReason,
    cap: u64,
    /// Since when it is on the device.
    since: Option<Micros>,
    ends: Micros,
    version: u32,
}

/// Runs a scenario under one setting, its batches as long as they are meant to be or by chance a little longer or shorter.
pub(super) fn run(scenario: &Scenario, settings: &Settings, jitter: Option<Jitter>) -> Tally {
    let mut simulation = Simulation::new(scenario, settings, jitter);
    simulation.go();
    simulation.tally.finish(simulation.now, &simulation.requests);
    simulation.tally
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    depth: usize,
    now: Micros,
    /// What is to come; the number keeps the order of what comes at the same time.
    events: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    scheduled: u64,
    senders: Vec<Vec<Sender>>,
    requests: Vec<Request>,
    formers: Vec<(Op, Former)>,
    /// What decides the formers' windows and cost caps, one each.
    adaptive: BTreeMap<Op, Adaptive>,
    rounds: Rounds,
    /// The first is on the device, the others wait for it.
    flying: VecDeque<Flying>,
    batches: u64,
    jitter: Option<Jitter>,
    tally: Tally,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, settings: &Settings, jitter: Option<Jitter>) -> Simulation<'a> {
        let mut simulation = Simulation {
            scenario,
            depth: settings.depth,
            now: Micros::ZERO,
            events: BinaryHeap::new(),
            scheduled: 0,
            senders: Vec::new(),
            requests: Vec::new(),
            formers: OPS.map(|op| (op, settings.former(op))).into(),
            adaptive: OPS.into_iter().filter_map(|op| Some((op, settings.adaptive()?))).collect(),
            rounds: Rounds::default(),
            flying: VecDeque::new(),
            batches: 0,
            jitter,
            tally: Tally::new(scenario.warm_up),
        };
        for (index, source) in scenario.sources.iter().enumerate() {
            let mut senders = Vec::new();
            for number in 0..source.senders() {
                let mut random = Random::of(scenario.seed, index, number);
                if let Some(at) = source.first(&mut random) {
                    simulation.schedule(at, Event::Send { source: index, sender: number });
                }
                senders.push(Sender { random, sent: 0 });
            }
            simulation.senders.push(senders);
        }
        simulation
    }

    fn schedule(&mut self, at: Micros, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    fn go(&mut self) {
        loop {
            // All that happens at one time happens before the dispatcher looks.
            while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, _, event))) = self.events.pop() else { break };
                self.handle(event);
            }
            if self.scenario.batches.is_some_and(|most| self.tally.batches_run() >= most) {
                return;
            }
            self.dispatch();
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let next = match (event, self.window()) {
                (Some(event), Some(window)) => event.min(window),
                (Some(at), None) | (None, Some(at)) => at,
                // Nothing will ever happen again.
                (None, None) => break,
            };
            if next > self.scenario.duration {
                break;
            }
            self.now = next;
        }
        self.now = self.now.max(self.scenario.duration);
    }

    /// When a window closes by itself: as the engine's dispatcher, only a free slot looks at windows.
    fn window(&self) -> Option<Micros> {
        if self.flying.len() >= self.depth {
            return None;
        }
        let checks = self.formers.iter().filter_map(|(_, former)| former.next_check(self.now));
        checks.filter(|check| *check != Micros::MAX).min().map(|check| self.now + check.max(Micros(1)))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send { source, sender } => self.send(source, sender),
            Event::GiveUp { request } => self.give_up(request),
            Event::Ends { batch, version } => {
                if self.flying.front().is_some_and(|front| front.number == batch && front.version == version) {
                    self.ends();
                }
            }
        }
    }

    fn send(&mut self, source: usize, number: u64) {
        let scenario = self.scenario;
        let origin = &scenario.sources[source];
        let sender = &mut self.senders[source][number as usize];
        let n = sender.sent;
        sender.sent += 1;
        let ask = origin.ask(n, &mut sender.random);
        let again = origin.next_after_send(n, self.now, &mut sender.random);
        if let Some(at) = again {
            self.schedule(at, Event::Send { source, sender: number });
        }
        if let Some(ask) = ask {
            self.submit(source, number, n, ask, origin.retries());
        }
    }

    fn submit(&mut self, source: usize, sender: u64, n: u64, ask: Ask, retries: u64) {
        let id = self.requests.len() as u64;
        let Ask { op, lane, cost, windows, patience, .. } = ask;
        self.requests.push(Request {
            source,
            sender,
            n,
            ask,
            op,
            lane,
            cost,
            windows,
            submitted: self.now,
            taken: None,
            started: None,
            ended: None,
            retries,
        });
        let item = Item { id: ItemId(id), op, lane, cost, arrival: self.now, deadline: None };
        if let Some((_, former)) = self.formers.iter_mut().find(|(known, _)| *known == op) {
            former.push(item);
        }
        if let Some(patience) = patience {
            self.schedule(self.now + patience, Event::GiveUp { request: id });
        }
    }

    fn give_up(&mut self, id: u64) {
        let request = &mut self.requests[id as usize];
        if request.ended.is_some() {
            return;
        }
        request.ended = Some((self.now, End::GivenUp));
        let Request { source, sender, n, ask, retries, .. } = *request;
        for (_, former) in &mut self.formers {
            former.remove(ItemId(id));
        }
        self.cut_short(id);
        match retries.checked_sub(1) {
            Some(retries) => self.submit(source, sender, n, ask, retries),
            None => self.after_end(source, sender, n),
        }
    }

    /// A recording whose client has gone stops at its next window; a batch of clips goes on for the others.
    fn cut_short(&mut self, id: u64) {
        let Some(front) = self.flying.front_mut() else { return };
        let (Lane::Recordings, Some(since)) = (front.lane, front.since) else { return };
        if !front.items.iter().any(|item| item.id.0 == id) {
            return;
        }
        let ends = self.scenario.service.window_end(front.op, since, self.now, front.ends, front.pace);
        front.ends = ends;
        front.version += 1;
        let event = Event::Ends { batch: front.number, version: front.version };
        self.schedule(ends, event);
    }

    fn after_end(&mut self, source: usize, sender: u64, n: u64) {
        let origin = &self.scenario.sources[source];
        let random = &mut self.senders[source][sender as usize].random;
        if let Some(at) = origin.next_after_end(n, self.now, random) {
            self.schedule(at, Event::Send { source, sender });
        }
    }

    /// Slot first, extraction second.
    fn dispatch(&mut self) {
        while self.flying.len() < self.depth {
            let busy = !self.flying.is_empty();
            let mut formers: Vec<(Op, &mut Former)> = self.formers.iter_mut().map(|(op, f)| (*op, f)).collect();
            let Some((op, formed)) = self.rounds.next(&mut formers, self.now, busy, usize::MAX) else { return };
            for item in &formed.items {
                let request = &mut self.requests[item.id.0 as usize];
                request.taken.get_or_insert(self.now);
            }
            self.batches += 1;
            self.tally.formed(&formed);
            self.flying.push_back(Flying {
                number: self.batches,
                op,
                lane: formed.lane,
                items: formed.items,
                cost: formed.cost,
                slice: formed.slice,
                windows: 0,
                pace: 1.0,
                charge: formed.charge,
                why: formed.why,
                cap: formed.cap,
                since: None,
                ends: self.now,
                version: 0,
            });
            if self.flying.len() == 1 {
                self.start();
            }
        }
    }

    /// The first batch in line goes on the device.
    fn start(&mut self) {
        let now = self.now;
        let Some(front) = self.flying.front_mut() else { return };
        // As the engine's runner, which looks once more whether an answer is still wanted.
        front.items.retain(|item| self.requests[item.id.0 as usize].ended.is_none());
        for item in &front.items {
            self.requests[item.id.0 as usize].started.get_or_insert(now);
        }
        front.since = Some(now);
        if front.slice.is_none() {
            front.cost = front.items.iter().fold(0u64, |sum, item| sum.saturating_add(item.cost));
        }
        let service = &self.scenario.service;
        let line = service.line_of(front.op, front.lane);
        let most = front.slice.map(|slice| u64::from(slice.windows.get()));
        let mut all = Work::default();
        // Of what the line says of each item, and of what the item is said to take.
        let (mut plain, mut paced) = (0.0, 0.0);
        for item in &front.items {
            let request = &self.requests[item.id.0 as usize];
            let cost = if front.slice.is_some() { front.cost } else { item.cost };
            let one = Work { items: 1, windows: request.windows.slice(most), cost };
            all = Work { items: all.items + 1, windows: all.windows.saturating_add(one.windows), cost: front.cost };
            plain += line.of_items(one);
            paced += line.of_items(one) * request.ask.pace;
            front.windows = one.windows;
        }
        if plain > 0.0 {
            front.pace = paced / plain;
        }
        if let Some(jitter) = &mut self.jitter {
            front.pace *= jitter.next();
        }
        front.ends = match all.items {
            0 => now,
            _ => now + service.time(front.op, front.lane, all, front.pace),
        };
        let (at, event) = (front.ends, Event::Ends { batch: front.number, version: front.version });
        self.schedule(at, event);
    }

    /// As the engine's dispatcher: the controller hears of the batch, and the former of what it decides.
    fn adapt(&mut self, batch: &Flying, took: Micros, answered: &[Micros]) {
        let Some(adaptive) = self.adaptive.get_mut(&batch.op) else { return };
        adaptive.inferred(took);
        adaptive.filled(batch.cost, batch.cap);
        answered.iter().for_each(|latency| adaptive.answered(*latency));
        if batch.why == FlushReason::Drain {
            return;
        }
        let moves = adaptive.completed(self.now, Some(batch.items.len()));
        self.tally.moved(&moves);
        if let Some((_, former)) = self.formers.iter_mut().find(|(op, _)| *op == batch.op) {
            // The window and the cost cap alone are its own: the others pass through.
            former.set_caps(adaptive.caps(*former.caps()));
        }
    }

    /// Tells the former that its batch has run; a recording that is not at its end and still wanted goes back.
    fn settle(&mut self, batch: &Flying, took: Micros) {
        let Some((_, former)) = self.formers.iter_mut().find(|(op, _)| *op == batch.op) else { return };
        if let Some(slice) = batch.slice {
            let request = &mut self.requests[slice.item.id.0 as usize];
            let (windows, left) = request.windows.after(batch.windows, slice.item.cost);
            request.windows = windows;
            if left > 0 && request.ended.is_none() {
                former.put_back(slice, left);
            }
        }
        // After what it put aside has come back: a lane is not idle between two slices.
        former.ran(batch.charge, took);
    }

    /// The batch on the device has ended.
    fn ends(&mut self) {
        let Some(batch) = self.flying.pop_front() else { return };
        let since = batch.since.unwrap_or(self.now);
        self.rounds.ran(self.now);
        self.tally.ran(batch.lane, since, self.now);
        self.settle(&batch, self.now - since);
        let mut answered = Vec::with_capacity(batch.items.len());
        for item in &batch.items {
            let request = &mut self.requests[item.id.0 as usize];
            if request.ended.is_some() {
                continue;
            }
            if batch.slice.is_some() && request.windows.count > 0 {
                continue;
            }
            request.ended = Some((self.now, End::Served));
            let Request { source, sender, n, submitted, .. } = *request;
            answered.push(self.now - submitted);
            self.after_end(source, sender, n);
        }
        self.adapt(&batch, self.now - since, &answered);
        if !self.flying.is_empty() {
            self.start();
        }
    }
}
