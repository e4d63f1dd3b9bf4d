//! Results of kernels, in memory that is used again: a pass makes the same matrices layer after layer, and fresh pages
//! would have to be cleared by the system each time.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Values (not bytes) that may wait for use in all buffers together: 64 MiB.
const KEPT_VALUES: usize = 16 << 20;
/// Buffers that may wait for use.
const KEPT: usize = 24;

/// Buffers that wait for use. Any thread may take and give; what is beyond the limits goes back to the allocator.
#[derive(Default)]
pub(super) struct Spare {
    waiting: Mutex<Vec<Vec<f32>>>,
}

impl Spare {
    /// A buffer of `len` values; what they are is left over from earlier use.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = waiting.iter().enumerate().filter(|(_, data)| data.len() >= len);
        let best = fitting.min_by_key(|(_, data)| data.len()).map(|(i, _)| i);
        let data = best.map(|i| waiting.swap_remove(i));
        drop(waiting);
        Buffer { data: data.unwrap_or_else(|| vec![0.0; len]), len, home: Some(self.clone()) }
    }

    fn give(&self, data: Vec<f32>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = waiting.iter().map(Vec::len).sum();
        if waiting.len() < KEPT && kept + data.len() <= KEPT_VALUES {
            waiting.push(data);
        }
    }
}

/// Values of a matrix; dropped, their memory waits for the next.
pub struct Buffer {
    /// At least `len` values.
    data: Vec<f32>,
    len: usize,
    home: Option<Arc<Spare>>,
}

impl Buffer {
    /// The values, for good.
    pub fn into_vec(mut self) -> Vec<f32> {
        let mut data = std::mem::take(&mut self.data);
        self.home = None;
        data.truncate(self.len);
        data
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give(std::mem::take(&mut self.data));
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[..self.len]
    }
}

impl From<Vec<f32>> for Buffer {
    fn from(data: Vec<f32>) -> Buffer {
        Buffer { len: data.len(), data, home: None }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        let Some(home) = &self.home else { return self.to_vec().into() };
        let mut copy = home.take(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Buffer) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_the_smallest_that_fits_goes_first() {
        let spare = Arc::new(Spare::default());
        let at = |b: &Buffer| b.as_ptr();
        let (small, large) = (spare.take(10), spare.take(1000));
        let (small_at, large_at) = (at(&small), at(&large));
        drop((large, small));
        let (a, b) = (spare.take(8), spare.take(8));
        assert_eq!((at(&a), at(&b)), (small_at, large_at));
        assert_eq!((a.len(), b.len()), (8, 8));
        assert_ne!(at(&spare.take(8)), large_at, "what is in use is not handed out");
    }

    #[test]
    fn what_leaves_for_good_has_its_own_length_and_does_not_come_back() {
        let spare = Arc::new(Spare::default());
        drop(spare.take(100));
        let mut taken = spare.take(3);
        taken.copy_from_slice(&[1.0, 2.0, 3.0]);
        assert_eq!(taken.clone(), taken);
        assert_eq!(taken.into_vec(), [1.0, 2.0, 3.0]);
        assert!(spare.waiting.lock().unwrap().iter().all(|data| data.len() < 100));
    }

    #[test]
    fn what_waits_is_bounded() {
        let spare = Arc::new(Spare::default());
        drop((0..2 * KEPT).map(|_| spare.take(1)).collect::<Vec<_>>());
        assert_eq!(spare.waiting.lock().unwrap().len(), KEPT);
        let spare = Arc::new(Spare::default());
        drop([spare.take(KEPT_VALUES), spare.take(1)]);
        assert_eq!(spare.waiting.lock().unwrap().len(), 1);
    }
}
