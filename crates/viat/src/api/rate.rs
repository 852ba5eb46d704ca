//! How often one client may come: a bucket of permissions for each, which fills up by itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Clients that are remembered before those are forgotten who may come as they like.
const MANY: usize = 10_000;

#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// A limit, for each client by itself.
pub struct Rate {
    per_second: f64,
    burst: f64,
    clients: Mutex<BTreeMap<String, Bucket>>,
}

impl Rate {
    /// So many requests a second, and so many at once after a silence.
    pub fn new(per_second: f64, burst: f64) -> Rate {
        Rate { per_second, burst, clients: Mutex::default() }
    }

    /// Takes a permission, or says when there will be one.
    pub fn take(&self, client: &str, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bucket = self.filled(clients.get(client).copied(), now);
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / self.per_second));
        }
        bucket.left -= 1.0;
        clients.insert(client.to_owned(), bucket);
        if clients.len() > MANY {
            clients.retain(|_, bucket| self.filled(Some(*bucket), now).left < self.burst);
        }
        Ok(())
    }

    fn filled(&self, bucket: Option<Bucket>, now: Instant) -> Bucket {
        let Some(Bucket { left, at }) = bucket else { return Bucket { left: self.burst, at: now } };
        let gained = now.saturating_duration_since(at).as_secs_f64() * self.per_second;
        Bucket { left: (left + gained).min(self.burst), at: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills() {
        let rate = Rate::new(2.0, 3.0);
        let start = Instant::now();
        let take = |client: &str, ms| rate.take(client, start + Duration::from_millis(ms));
        assert!((0..3).all(|_| take("a", 0).is_ok()));
        assert_eq!(take("a", 0), Err(Duration::from_millis(500)));
        assert!(take("b", 0).is_ok(), "each client has its own");
        assert_eq!(take("a", 250), Err(Duration::from_millis(250)));
        assert!(take("a", 500).is_ok());
        assert!((0..3).all(|_| take("a", 60_000).is_ok()));
        assert!(take("a", 60_000).is_err(), "there is never more than a burst");
    }
}
