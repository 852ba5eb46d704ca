//! The driver's clock: wall time at its start, then the monotonic clock, so that a step of the wall clock ends nothing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use viat_engine::journal::Millis;

/// A clock that only goes forward. In a rehearsal it can skip the time in which nothing real happens.
#[derive(Clone, Debug)]
pub struct Clock {
    wall_at_start: Millis,
    started: Instant,
    skipped: Millis,
}

impl Clock {
    /// A clock that shows the wall time now.
    pub fn start() -> Clock {
        Clock { wall_at_start: wall_now(), started: Instant::now(), skipped: 0 }
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> Millis {
        let elapsed = Millis::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX);
        self.wall_at_start.saturating_add(elapsed).saturating_add(self.skipped)
    }

    /// How long from now until `at`; zero if it is past.
    pub fn until(&self, at: Millis) -> Duration {
        Duration::from_millis(u64::try_from(at.saturating_sub(self.now())).unwrap_or(0))
    }

    /// Skips to `at`, if that lies ahead.
    pub fn skip_to(&mut self, at: Millis) {
        self.skipped += at.saturating_sub(self.now()).max(0);
    }
}

/// The wall clock, in milliseconds since 1970.
pub fn wall_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
