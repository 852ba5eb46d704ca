//! Many durations, and what is said of them.

use std::time::Duration;

use serde::Serialize;

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Half are faster.
    pub p50_ms: f64,
    /// One in ten is slower.
    pub p90_ms: f64,
    /// One in a hundred is slower.
    pub p99_ms: f64,
    /// How many there are.
    pub count: usize,
}

/// The spread of these samples; zeros if there are none.
pub fn spread(mut samples: Vec<Duration>) -> Spread {
    samples.sort_unstable();
    let at = |share: f64| {
        let index = (samples.len() as f64 * share) as usize;
        samples.get(index.min(samples.len().saturating_sub(1))).map_or(0.0, |sample| sample.as_secs_f64() * 1e3)
    };
    Spread { p50_ms: at(0.5), p90_ms: at(0.9), p99_ms: at(0.99), count: samples.len() }
}
