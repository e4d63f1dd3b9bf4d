//! Windows under way, first in, first out.

use super::window::Window;
use std::collections::VecDeque;

/// Identifies a window of one sequence; from 1, rising by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(pub u64);

/// A window under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    pub id: WindowId,
    /// Windows of one epoch build on each other's proposals.
    pub epoch: u64,
    pub window: Window,
    /// The token expected as the target's own, behind the proposals; the next window of the epoch begins with it.
    pub bridge: Option<u32>,
    /// It was sent behind a token that the target refuted: its reply means nothing.
    pub stale: bool,
}

/// A reply for another window than the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfOrder {
    #[error("window {got:?} came back, but {expected:?} is the oldest under way")]
    Expected { expected: WindowId, got: WindowId },
    #[error("window {got:?} came back, but none is under way")]
    Nothing { got: WindowId },
}

/// The queue of one sequence.
#[derive(Debug, Clone)]
pub struct Pipeline {
    next: u64,
    epoch: u64,
    windows: VecDeque<InFlight>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline { next: 1, epoch: 1, windows: VecDeque::new() }
    }
}

impl Pipeline {
    /// Adds a window of the present epoch behind all others.
    pub fn push(&mut self, window: Window, bridge: Option<u32>) -> &InFlight {
        let id = WindowId(self.next);
        self.next += 1;
        self.windows.push_back(InFlight { id, epoch: self.epoch, window, bridge, stale: false });
        &self.windows[self.windows.len() - 1]
    }

    /// Takes the oldest window out, which `id` must be. An error leaves the queue as it is.
    pub fn complete(&mut self, id: WindowId) -> Result<InFlight, OutOfOrder> {
        let expected = self.windows.front().ok_or(OutOfOrder::Nothing { got: id })?.id;
        if expected != id {
            return Err(OutOfOrder::Expected { expected, got: id });
        }
        self.windows.pop_front().ok_or(OutOfOrder::Nothing { got: id })
    }

    /// The present epoch's windows are stale from now on; a new epoch begins behind them. Says how many were marked.
    pub fn diverge(&mut self) -> usize {
        let mut marked = 0;
        for w in &mut self.windows {
            marked += usize::from(!w.stale);
            w.stale = true;
        }
        self.epoch += 1;
        marked
    }

    /// Drops all windows: their replies will never come. Says how many there were.
    pub fn clear(&mut self) -> usize {
        self.epoch += 1;
        let lost = self.windows.len();
        self.windows.clear();
        lost
    }

    /// A new epoch begins with nothing under way.
    pub fn begin(&mut self) {
        self.epoch += 1;
    }

    /// The oldest window, whose reply comes next.
    pub fn oldest(&self) -> Option<&InFlight> {
        self.windows.front()
    }

    /// The newest window that is not stale.
    pub fn newest_live(&self) -> Option<&InFlight> {
        self.windows.back().filter(|w| !w.stale)
    }

    /// Windows that are not stale.
    pub fn live(&self) -> usize {
        self.windows.iter().filter(|w| !w.stale).count()
    }

    pub fn len(&self) -> usize {
        self.windows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(start: usize) -> Window {
        Window::new(start, 1, &[2], 0)
    }

    #[test]
    fn ids_count_from_one_and_come_back_in_order() {
        let mut p = Pipeline::default();
        let ids: Vec<u64> = (0..3).map(|i| p.push(window(i), None).id.0).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(p.complete(WindowId(1)).map(|w| w.window.start()), Ok(0));
        assert_eq!(p.complete(WindowId(2)).map(|w| w.window.start()), Ok(1));
    }

    #[test]
    fn out_of_order_is_an_error_that_leaves_the_queue_intact() {
        let mut p = Pipeline::default();
        assert_eq!(p.complete(WindowId(1)), Err(OutOfOrder::Nothing { got: WindowId(1) }));
        p.push(window(0), None);
        p.push(window(2), None);
        let expected = OutOfOrder::Expected { expected: WindowId(1), got: WindowId(2) };
        assert_eq!(p.complete(WindowId(2)), Err(expected));
        assert_eq!(p.len(), 2);
        assert!(p.complete(WindowId(1)).is_ok() && p.complete(WindowId(2)).is_ok());
    }

    #[test]
    fn a_divergence_marks_what_is_under_way_and_new_work_goes_behind_it() {
        let mut p = Pipeline::default();
        p.push(window(0), Some(3));
        p.push(window(2), None);
        let first = p.complete(WindowId(1)).expect("the oldest");
        assert_eq!((first.stale, p.diverge()), (false, 1));
        assert_eq!((p.live(), p.newest_live()), (0, None));
        let fresh = p.push(window(1), None).clone();
        assert_eq!((fresh.id, fresh.stale, fresh.epoch), (WindowId(3), false, 2));
        assert_eq!((p.live(), p.diverge()), (1, 1), "what was stale is not marked again");
        assert!(p.complete(WindowId(2)).is_ok_and(|w| w.stale && w.epoch == 1));
    }

    proptest! {
        /// Whatever is pushed, diverged and completed (rightly or not): first in, first out, and stale exactly if its
        /// epoch is over.
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec((0u8..4, 0u64..12), 0..60)) {
            let mut p = Pipeline::default();
            let mut model: VecDeque<(u64, u64)> = VecDeque::new();
            let (mut next, mut epoch) = (1, 1);
            for (what, id) in steps {
                match what {
                    0 | 1 => {
                        p.push(window(0), None);
                        model.push_back((next, epoch));
                        next += 1;
                    }
                    2 => {
                        p.diverge();
                        epoch += 1;
                    }
                    _ => {
                        let before = p.len();
                        match p.complete(WindowId(id)) {
                            Ok(w) => {
                                let (front, of) = model.pop_front().expect("one");
                                prop_assert_eq!((w.id.0, w.epoch, w.stale), (front, of, of != epoch));
                                prop_assert_eq!(front, id);
                            }
                            Err(_) => {
                                prop_assert!(model.front().is_none_or(|f| f.0 != id));
                                prop_assert_eq!(p.len(), before);
                            }
                        }
                    }
                }
                prop_assert_eq!(p.live(), model.iter().filter(|m| m.1 == epoch).count());
            }
        }
    }
}
