//! Commits and lifecycles.

use super::super::commits::{Commit, CommitSettings, CommitSink, Terminal};
use super::super::lifecycle::{Lifecycle, Settled};
use crate::engine::scheduler::Micros;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// What an observer was told.
#[derive(Debug, Default)]
struct Told {
    started: usize,
    commits: Vec<(u64, u64, Vec<u32>)>,
    ended: Vec<(Terminal, u64, u64)>,
    settled: usize,
    /// Commits that are refused from now on.
    refuses: usize,
    /// Whether a commit's vector was longer than its tokens.
    spare: bool,
}

#[derive(Debug, Clone, Default)]
struct Observer(Rc<RefCell<Told>>);

impl CommitSink<u64> for Observer {
    fn started(&mut self, _: &u64) {
        self.0.borrow_mut().started += 1;
    }

    fn commit(&mut self, commit: Commit<u64>) -> Result<(), Commit<u64>> {
        let mut told = self.0.borrow_mut();
        if told.refuses > 0 {
            told.refuses -= 1;
            return Err(commit);
        }
        told.spare |= commit.tokens.capacity() != commit.tokens.len();
        told.commits.push((commit.total, commit.missed, commit.tokens));
        Ok(())
    }

    fn ended(&mut self, _: &u64, end: Terminal, total: u64, missed: u64) {
        self.0.borrow_mut().ended.push((end, total, missed));
    }

    fn settled(&mut self, _: &u64) {
        self.0.borrow_mut().settled += 1;
    }
}

fn start() -> (Lifecycle<u64, Observer>, Observer) {
    started(CommitSettings::default())
}

fn started(settings: CommitSettings) -> (Lifecycle<u64, Observer>, Observer) {
    let observer = Observer::default();
    (Lifecycle::start(7, settings, Some(observer.clone())), observer)
}

fn ms(ms: u64) -> Micros {
    Micros(ms * 1_000)
}

/// The commits so far as (total, tokens).
fn told(observer: &Observer) -> Vec<(u64, Vec<u32>)> {
    observer.0.borrow().commits.iter().map(|(total, _, tokens)| (*total, tokens.clone())).collect()
}

#[test]
fn vector_the_first_token_goes_at_once() {
    let (mut life, observer) = start();
    life.commit(&[42], ms(0)).expect("open");
    assert_eq!(told(&observer), [(1, vec![42])]);
}

#[test]
fn vector_tokens_within_the_interval_go_together() {
    let (mut life, observer) = start();
    for (token, at) in [(1, 0), (2, 10), (3, 20), (4, 30), (5, 100)] {
        life.commit(&[token], ms(at)).expect("open");
    }
    assert_eq!(told(&observer), [(1, vec![1]), (5, vec![2, 3, 4, 5])]);
}

#[test]
fn vector_a_full_batch_goes_whatever_the_time() {
    let (mut life, observer) = start();
    for token in 0..257 {
        life.commit(&[token], ms(0)).expect("open");
    }
    let told = told(&observer);
    assert_eq!(told.iter().map(|t| (t.0, t.1.len())).collect::<Vec<_>>(), [(1, 1), (257, 256)]);
}

#[test]
fn vector_five_hundred_tokens_come_out_as_they_went_in() {
    let (mut life, observer) = start();
    for token in 0..500u32 {
        life.commit(&[token], ms(3 * u64::from(token))).expect("open");
    }
    life.end(Terminal::Finished).expect("open");
    let told = told(&observer);
    assert_eq!(told.iter().flat_map(|t| t.1.clone()).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
    assert!(told.len() >= 15, "every 100 ms: {}", told.len());
    let mut sum = 0;
    for (total, tokens) in told {
        sum += tokens.len() as u64;
        assert_eq!(total, sum);
    }
    assert!(!observer.0.borrow().spare, "copies are of exact length");
}

#[test]
fn a_flush_goes_once_and_does_not_move_the_next_commit() {
    let (mut life, observer) = start();
    life.commit(&[1], ms(0)).expect("open");
    life.commit(&[2], ms(50)).expect("open");
    life.flush().expect("open");
    life.flush().expect("open");
    assert_eq!(told(&observer), [(1, vec![1]), (2, vec![2])]);
    // Due 100 ms after the first commit, not after the flush.
    life.commit(&[3], ms(100)).expect("open");
    assert_eq!(told(&observer).len(), 3);
}

#[test]
fn what_is_refused_goes_with_the_next() {
    let (mut life, observer) = start();
    life.commit(&[1], ms(0)).expect("open");
    observer.0.borrow_mut().refuses = 2;
    life.commit(&[2], ms(100)).expect("open");
    life.commit(&[3], ms(200)).expect("open");
    life.commit(&[4], ms(201)).expect("open");
    assert_eq!(told(&observer), [(1, vec![1]), (4, vec![2, 3, 4])]);
    assert_eq!(observer.0.borrow().commits[1].1, 0, "nothing was lost");
}

#[test]
fn beyond_what_is_kept_the_oldest_are_dropped_and_the_gap_is_told() {
    let (mut life, observer) = started(CommitSettings { interval: ms(100), capacity: 4, kept: 8 });
    life.commit(&[0], ms(0)).expect("open");
    observer.0.borrow_mut().refuses = 1_000;
    life.commit(&(1..=30).collect::<Vec<_>>(), ms(10)).expect("open");
    observer.0.borrow_mut().refuses = 0;
    life.commit(&[31], ms(200)).expect("open");
    let (total, missed, tokens) = observer.0.borrow().commits[1].clone();
    assert_eq!(total, 32);
    assert!(missed > 0 && tokens.len() <= 8 && 1 + missed + tokens.len() as u64 == total);
    assert_eq!(tokens.last(), Some(&31));
}

#[test]
fn an_observer_that_never_takes_anything_still_learns_the_end_and_its_gap() {
    let (mut life, observer) = start();
    observer.0.borrow_mut().refuses = usize::MAX;
    life.commit(&[1, 2, 3], ms(0)).expect("open");
    life.end(Terminal::Finished).expect("open");
    assert_eq!(observer.0.borrow().ended, [(Terminal::Finished, 3, 3)]);
}

#[test]
fn after_the_end_everything_is_settled_and_counted() {
    let (mut life, observer) = start();
    life.commit(&[1], ms(0)).expect("open");
    life.end(Terminal::Finished).expect("open");
    assert_eq!(life.commit(&[2], ms(1)), Err(Settled));
    assert_eq!(life.end(Terminal::Aborted), Err(Settled));
    assert_eq!(life.flush(), Err(Settled));
    assert_eq!((life.rejected(), observer.0.borrow().settled), (3, 3));
    drop(life);
    let told = observer.0.borrow();
    assert_eq!((told.ended.as_slice(), told.commits.len()), ([(Terminal::Finished, 1, 0)].as_slice(), 1));
}

#[test]
fn dropped_before_its_end_a_request_flushes_and_is_aborted() {
    let (mut life, observer) = start();
    life.commit(&[1], ms(0)).expect("open");
    life.commit(&[2], ms(1)).expect("open");
    drop(life);
    assert_eq!(told(&observer), [(1, vec![1]), (2, vec![2])]);
    assert_eq!(observer.0.borrow().ended, [(Terminal::Aborted, 2, 0)]);
}

#[test]
fn a_panic_ends_a_request_as_aborted() {
    let observer = Observer::default();
    let inner = observer.clone();
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let mut life = Lifecycle::start(7, CommitSettings::default(), Some(inner));
        life.commit(&[1, 2], ms(0)).expect("open");
        std::panic::resume_unwind(Box::new("inside"));
    }));
    assert!(ran.is_err());
    assert_eq!(observer.0.borrow().ended, [(Terminal::Aborted, 2, 0)]);
}

#[test]
fn without_a_listener_nothing_is_held() {
    let mut life: Lifecycle<u64, Observer> = Lifecycle::start(7, CommitSettings::default(), None);
    life.commit(&[1, 2, 3], ms(0)).expect("open");
    assert!(life.end(Terminal::Finished).is_ok() && life.end(Terminal::Finished).is_err());
    assert_eq!(life.rejected(), 1);
}

proptest! {
    /// Whatever comes when, and however often the observer is full: one start, one end, and the commits put together are
    /// the tokens, less the gaps that were told.
    #[test]
    fn commits_put_together_are_the_answer(
        steps in prop::collection::vec((0u64..150, 0usize..7, 0usize..4), 0..120),
        capacity in 1usize..12,
        kept in 1usize..40,
        interval in 0u64..200,
        finish in prop::option::of(any::<bool>()),
    ) {
        let (mut life, observer) = started(CommitSettings { interval: ms(interval), capacity, kept });
        let mut answer = Vec::new();
        let mut now = 0;
        for (gap, n, refuses) in steps {
            now += gap;
            let tokens: Vec<u32> = (0..n).map(|i| (answer.len() + i) as u32).collect();
            observer.0.borrow_mut().refuses = if refuses == 3 { 9 } else { 0 };
            life.commit(&tokens, ms(now)).expect("open");
            answer.extend(tokens);
        }
        match finish {
            Some(true) => life.end(Terminal::Finished).expect("open"),
            Some(false) => life.end(Terminal::Aborted).expect("open"),
            None => {}
        }
        drop(life);
        let told = observer.0.borrow();
        prop_assert_eq!((told.started, told.ended.len(), told.settled), (1, 1, 0));
        let (end, total, untold) = told.ended[0];
        prop_assert_eq!(end == Terminal::Finished, finish == Some(true));
        prop_assert_eq!(total, answer.len() as u64);
        let mut at = 0u64;
        for (total, missed, tokens) in &told.commits {
            at += missed;
            prop_assert_eq!(&answer[at as usize..at as usize + tokens.len()], tokens.as_slice());
            at += tokens.len() as u64;
            prop_assert_eq!(at, *total);
        }
        prop_assert_eq!(at + untold, total);
    }
}
