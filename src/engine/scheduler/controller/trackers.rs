//! Windows of the newest samples.

use std::collections::VecDeque;

/// The newest samples, at most so many.
#[derive(Debug, Clone)]
pub(super) struct Window {
    samples: VecDeque<f64>,
    capacity: usize,
}

impl Window {
    pub fn new(capacity: usize) -> Window {
        Window { samples: VecDeque::new(), capacity: capacity.max(1) }
    }

    pub fn push(&mut self, sample: f64) {
        if self.samples.len() == self.capacity {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Keeps the newest where there is less room.
    pub fn resize(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
        let surplus = self.samples.len().saturating_sub(self.capacity);
        self.samples.drain(..surplus);
    }

    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// The sample at `trunc(p/100 × (n − 1))` of the sorted ones; `None` with fewer than `least`.
    pub fn percentile(&self, p: f64, least: usize) -> Option<f64> {
        if self.samples.len() < least.max(1) {
            return None;
        }
        let mut sorted: Vec<f64> = self.samples.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let index = (p / 100.0 * (sorted.len() - 1) as f64).trunc() as usize;
        sorted.get(index).copied()
    }

    pub fn mean(&self) -> Option<f64> {
        let n = self.samples.len();
        (n > 0).then(|| self.samples.iter().sum::<f64>() / n as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_truncates_its_index() {
        let mut window = Window::new(200);
        for sample in [40.0, 10.0, 30.0, 20.0] {
            window.push(sample);
        }
        assert_eq!(window.percentile(50.0, 4), Some(20.0), "trunc(0.5 × 3) = 1");
        assert_eq!(window.percentile(99.0, 4), Some(30.0), "trunc(0.99 × 3) = 2");
        assert_eq!(window.percentile(100.0, 4), Some(40.0));
        assert_eq!(window.percentile(50.0, 5), None);
    }

    #[test]
    fn the_oldest_samples_make_room() {
        let mut window = Window::new(3);
        (1..=5).for_each(|n| window.push(f64::from(n)));
        assert_eq!(window.mean(), Some(4.0));
        assert_eq!(window.percentile(50.0, 4), None, "three are kept");
        window.resize(1);
        assert_eq!(window.mean(), Some(5.0));
        window.clear();
        assert_eq!((window.mean(), window.percentile(50.0, 1)), (None, None));
    }
}
