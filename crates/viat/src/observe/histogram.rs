//! How long things took, in buckets, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds of an attempt's duration and of its wait for a worker, in seconds.
pub const ATTEMPT_BOUNDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// Bounds of a commit, in seconds.
pub const COMMIT_BOUNDS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// A histogram with fixed bounds.
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than the bounds: the last is for what is beyond all of them.
    buckets: Vec<AtomicU64>,
    nanos: AtomicU64,
}

/// What a histogram has.
#[derive(Debug, PartialEq)]
pub struct Reading {
    /// Each bound, and how many took that long or less.
    pub up_to: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
    /// How long all of them took, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// An empty one; `bounds` ascend.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), nanos: AtomicU64::new(0) }
    }

    /// Adds one.
    pub fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What it has now.
    pub fn read(&self) -> Reading {
        let mut count = 0;
        let mut sums = self.buckets.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let up_to: Vec<(f64, u64)> = self.bounds.iter().copied().zip(&mut sums).collect();
        let count = sums.last().unwrap_or(0);
        Reading { up_to, count, sum: self.nanos.load(Ordering::Relaxed) as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_in_its_bucket() {
        let histogram = Histogram::new(&[0.5, 1.0]);
        for millis in [0, 500, 501, 1000, 1001] {
            histogram.add(Duration::from_millis(millis));
        }
        assert_eq!(histogram.read(), Reading { up_to: vec![(0.5, 2), (1.0, 4)], count: 5, sum: 3.002 });
    }
}
