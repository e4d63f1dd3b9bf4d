//! A fixed set of threads for parallel regions of a few microseconds and up.
//!
//! A region is opened by one caller, which works on it too. Workers join while it is open; a worker that was asleep or
//! had no core simply misses it, and the caller never waits for one that has not joined. So a region costs the caller
//! two atomic operations when the others are busy elsewhere, and a core taken away costs at most the task that ran on
//! it. Workers spin for some tens of microseconds between regions (a decode step has hundreds of them) and then park.
//!
//! One region at a time: a second model that calls while a region is open, and a call from inside a task, run their
//! tasks on their own thread. That keeps every core busy and no caller waits for another model's matrix.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Joined workers, in the low bits of the state.
const ACTIVE: u64 = 0xffff;
/// The region takes workers.
const OPEN: u64 = 1 << 16;
/// One step of the region counter, above both.
const EPOCH: u64 = 1 << 17;
/// Rounds a worker spins for the next region before it parks: about 30 µs.
const SPINS_BEFORE_PARK: u32 = 1500;
/// Rounds a caller spins for the last workers before it gives its core away between looks.
const SPINS_BEFORE_YIELD: u32 = 1000;

/// The task function of an open region, with its type erased.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
    tasks: usize,
}

struct Shared {
    /// Region counter, open flag and joined workers in one word, so that joining is one compare-and-swap.
    state: AtomicU64,
    next: AtomicUsize,
    job: UnsafeCell<Job>,
    panicked: AtomicBool,
    quit: AtomicBool,
    /// One flag per worker: parked, or about to be.
    parked: Vec<AtomicBool>,
}

// SAFETY: `job` is the only field that is not `Sync`. It is written by the one caller that holds `busy`, while the
// region is closed and nobody is joined; it is read only by workers that joined (acquire) after it was opened
// (release), and by the caller itself. `data` points to a closure that is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer inside `job` is used only between opening and the end of a region.
unsafe impl Send for Shared {}

/// A pool of `threads - 1` workers; the caller is the last thread.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: AtomicBool,
}

unsafe fn call<F: Fn(usize) + Sync>(data: *const (), task: usize) {
    // SAFETY: `data` was made from `&F` by `Pool::run`, which keeps the closure alive until no worker is joined.
    let f = unsafe { &*data.cast::<F>() };
    f(task);
}

unsafe fn nothing(_: *const (), _: usize) {}

impl Pool {
    /// A pool that works with `threads` threads in all, the caller included (at least 1, at most 256).
    pub fn new(threads: usize) -> Pool {
        let workers = threads.clamp(1, 256) - 1;
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            job: UnsafeCell::new(Job { call: nothing, data: std::ptr::null(), tasks: 0 }),
            panicked: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        });
        // A thread that the system refuses is one worker less: slower, never wrong.
        let spawn = |i: usize| {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("compute-{}", i + 1));
            thread.spawn(move || shared.serve(i)).ok()
        };
        let workers = (0..workers).map_while(spawn).collect();
        Pool { shared, workers, busy: AtomicBool::new(false) }
    }

    /// Threads that may work on a region, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f(0) .. f(tasks - 1)`, each once, on up to [`threads`](Self::threads) threads, and returns when all are
    /// done. Tasks are handed out in order, so put the longest first.
    ///
    /// # Panics
    /// When a task panicked; the pool stays usable.
    pub fn run<F: Fn(usize) + Sync>(&self, tasks: usize, f: F) {
        if tasks <= 1 || self.workers.is_empty() || self.busy.swap(true, Ordering::Acquire) {
            (0..tasks).for_each(f);
            return;
        }
        let _free_at_the_end = Busy(&self.busy);
        let shared = &*self.shared;
        // SAFETY: this thread holds `busy`, and the last region ended with no worker joined: nobody reads `job`.
        unsafe { *shared.job.get() = Job { call: call::<F>, data: (&raw const f).cast(), tasks } };
        shared.next.store(0, Ordering::Relaxed);
        shared.panicked.store(false, Ordering::Relaxed);
        let epoch = (shared.state.load(Ordering::Relaxed) & !(OPEN | ACTIVE)).wrapping_add(EPOCH);
        shared.state.store(epoch | OPEN, Ordering::SeqCst);
        let region = Region(shared);
        for (flag, worker) in shared.parked.iter().zip(&self.workers).take(tasks - 1) {
            if flag.load(Ordering::SeqCst) && flag.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        loop {
            let task = shared.next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            f(task);
        }
        drop(region);
        assert!(
            !shared.panicked.load(Ordering::Relaxed),
            "a task of a parallel region panicked; its own message is above"
        );
    }

    /// Splits `rows` rows into about equal ranges, at least `least` rows each, and calls `f` with every range.
    pub fn ranges(&self, rows: usize, least: usize, f: impl Fn(Range<usize>) + Sync) {
        let parts = (rows / least.max(1)).clamp(1, self.threads() * 4);
        self.run(parts, |i| f(i * rows / parts..(i + 1) * rows / parts));
    }
}

/// Frees the pool for the next region, whichever way this one ends.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Closes the region and waits for the joined workers, also when the caller's own task panics.
struct Region<'a>(&'a Shared);

impl Drop for Region<'_> {
    fn drop(&mut self) {
        // After a panic of the caller there may be tasks left: nobody is to take them.
        self.0.next.store(usize::MAX / 2, Ordering::Relaxed);
        let mut state = self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while state & ACTIVE != 0 {
            spins += 1;
            if spins < SPINS_BEFORE_YIELD {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            state = self.0.state.load(Ordering::Acquire);
        }
    }
}

impl Shared {
    /// A worker's life: join every region that it sees open, once.
    fn serve(&self, me: usize) {
        let mut last = 0;
        let mut spins = 0;
        while !self.quit.load(Ordering::Acquire) {
            let state = self.state.load(Ordering::SeqCst);
            let epoch = state & !(OPEN | ACTIVE);
            if state & OPEN != 0 && epoch != last {
                if self.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    last = epoch;
                    self.work();
                    self.state.fetch_sub(1, Ordering::Release);
                }
                spins = 0;
            } else if spins < SPINS_BEFORE_PARK {
                spins += 1;
                std::hint::spin_loop();
            } else {
                self.parked[me].store(true, Ordering::SeqCst);
                // Look again behind the flag: a region opened in between has either seen the flag or is seen here.
                let now = self.state.load(Ordering::SeqCst);
                if now == state && !self.quit.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.parked[me].store(false, Ordering::SeqCst);
                spins = 0;
            }
        }
    }

    fn work(&self) {
        // SAFETY: this worker is joined, so the caller waits in `Region::drop` and writes no new job meanwhile.
        let job = unsafe { *self.job.get() };
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= job.tasks {
                return;
            }
            // SAFETY: `data` belongs to `call` and outlives the region, see `call`.
            if catch_unwind(AssertUnwindSafe(|| unsafe { (job.call)(job.data, task) })).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches its tasks' panics, so it ends cleanly; nothing is left to report either way.
            let _ = worker.join();
        }
    }
}

/// A slice whose disjoint parts are written by different tasks of a region.
pub(super) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    _borrow: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: a `Parts` only hands out slices through `part`, whose callers promise that they do not overlap.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Parts { start: slice.as_mut_ptr(), len: slice.len(), _borrow: std::marker::PhantomData }
    }

    /// Elements `range`.
    ///
    /// # Safety
    /// No two parts alive at the same time may overlap.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "handing out disjoint parts of one borrow is what this type is for")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "part {range:?} of {} elements", self.len);
        // SAFETY: inside the borrowed slice by the assertion; not overlapping by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 4] {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 7, 100] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                for _ in 0..50 {
                    pool.run(tasks, |i| {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    });
                }
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 50), "{threads} threads, {tasks} tasks");
            }
        }
    }

    #[test]
    fn ranges_cover_all_rows() {
        let pool = Pool::new(3);
        for rows in [0, 1, 5, 64, 1000] {
            let seen = AtomicUsize::new(0);
            pool.ranges(rows, 8, |r| {
                seen.fetch_add(r.len(), Ordering::Relaxed);
            });
            assert_eq!(seen.load(Ordering::Relaxed), rows);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(3);
        for bad in [0, 9] {
            let caught = catch_unwind(AssertUnwindSafe(|| pool.run(10, |i| assert_ne!(i, bad))));
            assert!(caught.is_err());
            let n = AtomicUsize::new(0);
            pool.run(10, |_| {
                n.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(n.load(Ordering::Relaxed), 10);
        }
    }

    #[test]
    fn callers_from_several_threads_and_nested_calls_finish() {
        let pool = Pool::new(2);
        let n = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..200 {
                        pool.run(4, |_| {
                            pool.run(2, |_| {
                                n.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(n.load(Ordering::Relaxed), 3 * 200 * 4 * 2);
    }
}
