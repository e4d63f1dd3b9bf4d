//! A generation loop in virtual time: sequences whose target emits a given text, passes that cost what a model says.

use super::super::assist::Wanting;
use super::super::proposers::{copying, drafting};
use super::super::*;
use crate::control::speculation::SpeculationChoice;
use crate::engine::scheduler::Micros;
use crate::profile::SpeculationSettings;

/// What a pass takes: rows and sequences to microseconds.
pub(super) type Cost<'a> = &'a dyn Fn(usize, usize) -> u64;

/// A quantised model on a few cores: reading the weights dominates, each row adds a fifth.
pub(super) fn memory_bound(rows: usize, _: usize) -> u64 {
    8_000 + 2_000 * rows as u64
}

/// Every row costs the same: nothing to gain unless almost all holds.
pub(super) fn compute_bound(rows: usize, _: usize) -> u64 {
    500 + 9_500 * rows as u64
}

/// What a draft of the model's head takes, for any number of sequences.
pub(super) const DRAFT_US: u64 = 600;

/// One sequence: the prompt, and everything that the target will say.
pub(super) struct Line {
    pub history: Vec<u32>,
    pub target: Vec<u32>,
    pub emitted: usize,
    pub speculator: Speculator,
    /// Drafts of the model's head, and how many of a hundred are right.
    head: Option<(Lcg, u32)>,
}

impl Line {
    pub(super) fn new(
        settings: &SpeculationSettings,
        choice: SpeculationChoice,
        prompt: &[u32],
        target: Vec<u32>,
    ) -> Line {
        let speculator = Speculator::new(settings, choice, copying(settings));
        let mut history = prompt.to_vec();
        history.extend(target.first());
        Line { history, emitted: target.len().min(1), target, speculator, head: None }
    }

    /// The same where the model has a head of which so many drafts of a hundred are right.
    pub(super) fn with_head(
        settings: &SpeculationSettings,
        choice: SpeculationChoice,
        prompt: &[u32],
        target: Vec<u32>,
        right: u32,
    ) -> Line {
        let speculator = Speculator::new(settings, choice, drafting(settings));
        Line { speculator, head: Some((Lcg(5), right)), ..Line::new(settings, choice, prompt, target) }
    }

    fn draft(&mut self, depth: usize) {
        let Some((lcg, right)) = &mut self.head else { return };
        let coming = &self.target[self.emitted..(self.emitted + depth).min(self.target.len())];
        let draft = coming.iter().map(|t| if lcg.next(100) < *right { *t } else { 60_000 }).collect();
        let at = self.history.len();
        self.speculator.feed(Draft::new(at, draft, self.speculator.origin(at)));
    }

    pub(super) fn left(&self) -> usize {
        self.target.len() - self.emitted
    }
}

/// A run's result.
#[derive(Debug, Default)]
pub(super) struct Ran {
    pub took: u64,
    pub plainly: u64,
    /// The part of `took` that drafts took.
    pub drafting: u64,
    pub turns: Vec<(usize, crate::control::speculation::GateVerdict)>,
}

impl Ran {
    /// Speed over that of plain steps.
    pub(super) fn speed(&self) -> f64 {
        self.plainly as f64 / self.took as f64
    }
}

/// Runs all lines to their end together.
pub(super) fn run(gate: &mut Gate, lines: &mut [Line], cost: Cost<'_>) -> Ran {
    run_noisy(gate, lines, cost, |_| 0)
}

/// As [`run`], with `pause(pass)` added to a pass's time. A pause counts in neither sum: it comes whatever is done.
pub(super) fn run_noisy(gate: &mut Gate, lines: &mut [Line], cost: Cost<'_>, pause: impl Fn(usize) -> u64) -> Ran {
    let mut ran = Ran { plainly: plain_cost(lines, cost), ..Ran::default() };
    for pass in 0.. {
        let mut live: Vec<&mut Line> = lines.iter_mut().filter(|l| l.left() > 0).collect();
        if live.is_empty() {
            break;
        }
        ran.drafting += draft(gate, &mut live);
        let offers: Vec<_> = live
            .iter_mut()
            .map(|l| {
                let budget = l.left();
                l.speculator.offer(&l.history, budget, gate.survival())
            })
            .collect();
        let allotment = gate.allot(&offers);
        let (mut rows, mut committed) = (0, 0);
        let sequences = live.len();
        for (line, width) in live.iter_mut().zip(&allotment.widths) {
            let window = line.speculator.open(&line.history, *width).expect("a history");
            assert!(window.width() <= *width && window.end() <= line.history.len() + line.left());
            rows += window.inputs().len();
            let mut check = Check::new(&window, line.left());
            let mut at = line.emitted;
            while check.next() == Next::More {
                check.take(line.target[at], at + 1 == line.target.len());
                at += 1;
            }
            let accepted = check.finish();
            line.history.extend(&accepted.commit);
            line.emitted += accepted.commit.len();
            committed += accepted.commit.len();
            assert_eq!(line.history[line.history.len() - line.emitted..], line.target[..line.emitted]);
            for evidence in line.speculator.settle(&accepted).evidence() {
                gate.note_evidence(evidence);
            }
        }
        let took = cost(rows, sequences);
        ran.took += took;
        let took = Micros(took + pause(pass));
        gate.note_pass(&Pass { sequences, rows, prompt_rows: 0, committed, took, purpose: allotment.purpose });
        ran.turns.extend(gate.take_turn().map(|v| (pass, v)));
    }
    ran.took += ran.drafting;
    ran
}

/// Has the heads draft where the gate expects that to pay; gives the time that it takes.
fn draft(gate: &mut Gate, live: &mut [&mut Line]) -> u64 {
    let sequences = live.len();
    let (mut whose, mut wanting) = (Vec::new(), Vec::new());
    for line in live.iter_mut().filter(|l| l.head.is_some()) {
        let budget = line.left();
        if let Some(wants) = line.speculator.wants_draft(&line.history, budget, gate.survival()) {
            whose.push(line);
            wanting.push(Wanting { unread: 0, room: wants.room.min(DEEPEST), ..wants });
        }
    }
    let depths = gate.drafts(sequences, &wanting, |_| Some(DRAFT_US as f64));
    let deepest = depths.iter().copied().max().unwrap_or(0);
    whose.iter_mut().zip(&depths).filter(|(_, depth)| **depth > 0).for_each(|(line, _)| line.draft(deepest));
    let took = DRAFT_US * deepest as u64;
    gate.note_assisting(Micros(took), None);
    took
}

/// What the same lines take without windows.
fn plain_cost(lines: &[Line], cost: Cost<'_>) -> u64 {
    let longest = lines.iter().map(Line::left).max().unwrap_or(0);
    (0..longest)
        .map(|step| {
            let n = lines.iter().filter(|l| l.left() > step).count();
            cost(n, n)
        })
        .sum()
}

/// Random numbers for texts.
pub(super) struct Lcg(pub u64);

impl Lcg {
    pub(super) fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(below)) as u32
    }
}

/// Text like prose: common words often, rare ones seldom; short runs repeat and then go on otherwise.
pub(super) fn prose(seed: u64, n: usize) -> Vec<u32> {
    let mut lcg = Lcg(seed);
    (0..n)
        .map(|_| match lcg.next(10) {
            0..=4 => lcg.next(12),
            5..=7 => 20 + lcg.next(150),
            _ => 300 + lcg.next(20_000),
        })
        .collect()
}

/// A prompt, and an answer that copies it with a change here and there.
pub(super) fn copying_text(seed: u64, n: usize, every: usize) -> (Vec<u32>, Vec<u32>) {
    let prompt = prose(seed, n);
    let mut lcg = Lcg(seed ^ 99);
    let answer = prompt.iter().enumerate().map(|(i, t)| if i % every == every - 1 { lcg.next(50_000) } else { *t });
    let answer = answer.collect();
    (prompt, answer)
}
