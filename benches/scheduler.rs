//! One extraction and one submission with a hundred thousand items pending, and what sorting the queue for each
//! extraction would cost instead.

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use lanekeeper::control::{Lane, Op};
use lanekeeper::engine::scheduler::{
    AUDIO_HARD_CAP_MS, BatchCaps, FlushReason, Formed, Former, Item, ItemId, LaneRules, Micros, SliceWindows,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PENDING: u64 = 100_000;

/// Submissions timed together: a clock costs as much as one.
const SUBMISSIONS: u64 = 1_000;

/// A load that never ends: mostly clips of 1 to 30 s, one item in twenty a recording.
struct Load {
    seed: u64,
    id: u64,
    now: u64,
}

impl Load {
    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    fn item(&mut self) -> Item {
        let lane = if self.random().is_multiple_of(20) { Lane::Recordings } else { Lane::Clips };
        self.item_in(lane)
    }

    fn item_in(&mut self, lane: Lane) -> Item {
        self.id += 1;
        self.now += 100;
        let cost = match lane {
            Lane::Clips => 1_000 + self.random() % 29_001,
            Lane::Recordings => 30_001 + self.random() % 600_000,
        };
        let arrival = Micros(self.now);
        Item {
            id: ItemId(self.id),
            op: Op::Transcribe,
            lane,
            cost,
            arrival,
            deadline: Some(Micros(self.now + 60_000_000)),
        }
    }
}

fn full(slice_windows: SliceWindows) -> (Former, Load) {
    let caps = BatchCaps { max_cost: AUDIO_HARD_CAP_MS, hard_cost: Some(AUDIO_HARD_CAP_MS), ..BatchCaps::default() };
    let mut former = Former::new(caps);
    former.set_rules(LaneRules { slice_windows, ..LaneRules::default() });
    let mut load = Load { seed: 42, id: 0, now: 0 };
    for _ in 0..PENDING {
        former.push(load.item());
    }
    (former, load)
}

/// The time of extractions for which `counts` holds; the queue is filled up again in between, untimed.
fn extractions(bencher: &mut Bencher<'_>, slices: SliceWindows, counts: impl Fn(&Formed, Option<u64>) -> bool) {
    let (mut former, mut load) = full(slices);
    let mut turn = None;
    bencher.iter_custom(|wanted| {
        let (mut spent, mut seen) = (Duration::ZERO, 0);
        while seen < wanted {
            let began = Instant::now();
            let formed = former.take(Micros(load.now), FlushReason::CostCap, usize::MAX);
            let took = began.elapsed();
            let formed = black_box(formed).expect("the queue is never empty");
            if counts(&formed, turn) {
                (spent, seen) = (spent + took, seen + 1);
            }
            turn = formed.turn.or(turn);
            formed.items.iter().for_each(|item| assert!(former.push(load.item_in(item.lane))));
            former.ran(formed.charge, Micros(60_000 + 10 * formed.cost));
        }
        spent
    });
}

/// What a queue without indexes does for each batch of a turn: sort by cost, take from the front.
fn sorted(pending: &mut Vec<Item>) -> Vec<Item> {
    let mut order: Vec<usize> = (0..pending.len()).filter(|i| pending[*i].lane == Lane::Clips).collect();
    order.sort_by_key(|i| (pending[*i].cost, pending[*i].arrival, pending[*i].id));
    let (mut sum, mut taken) = (0, Vec::new());
    for i in order.into_iter().take(12) {
        sum += pending[i].cost;
        if !taken.is_empty() && sum > AUDIO_HARD_CAP_MS {
            break;
        }
        taken.push(pending[i]);
    }
    pending.retain(|item| !taken.iter().any(|out: &Item| out.id == item.id));
    taken
}

fn scheduler(criterion: &mut Criterion) {
    let one = SliceWindows::windows(1).expect("one is not zero");
    for (name, slices) in [("whole recordings", SliceWindows::Whole), ("slices", one)] {
        criterion.bench_function(&format!("one extraction, {PENDING} pending, {name}"), |bencher| {
            extractions(bencher, slices, |_, _| true);
        });
    }
    criterion.bench_function(&format!("one extraction that begins a turn, {PENDING} pending"), |bencher| {
        extractions(bencher, SliceWindows::Whole, |formed, last| formed.turn.is_some() && formed.turn != last);
    });
    criterion.bench_function(&format!("one extraction by sorting, {PENDING} pending"), |bencher| {
        let mut load = Load { seed: 42, id: 0, now: 0 };
        let mut pending: Vec<Item> = (0..PENDING).map(|_| load.item()).collect();
        bencher.iter_custom(|wanted| {
            let mut spent = Duration::ZERO;
            for _ in 0..wanted {
                let began = Instant::now();
                let taken = black_box(sorted(&mut pending));
                spent += began.elapsed();
                pending.extend(taken.iter().map(|item| load.item_in(item.lane)));
            }
            spent
        });
    });
    criterion.bench_function(&format!("one submission, {PENDING} pending"), |bencher| {
        let (mut former, mut load) = full(SliceWindows::Whole);
        bencher.iter_custom(|wanted| {
            let rounds = wanted.div_ceil(SUBMISSIONS);
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                let items: Vec<Item> = (0..SUBMISSIONS).map(|_| load.item()).collect();
                let began = Instant::now();
                for item in &items {
                    black_box(former.push(*item));
                }
                spent += began.elapsed();
                items.iter().for_each(|item| assert!(former.remove(item.id).is_some()));
            }
            spent.mul_f64(wanted as f64 / (rounds * SUBMISSIONS) as f64)
        });
    });
}

criterion_group!(benches, scheduler);
criterion_main!(benches);
