//! Label sets, at most so many: what comes later shares one that is called `other`.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands for a name that came too late.
pub const OTHER: &str = "other";

/// A value for each label set. Writers of values share the read lock; only a new label set takes the other.
pub struct Bounded<const LABELS: usize, T> {
    most: usize,
    sets: RwLock<BTreeMap<[String; LABELS], Arc<T>>>,
}

impl<const LABELS: usize, T: Default> Bounded<LABELS, T> {
    /// None yet, and at most `most`, `other` not counted.
    pub fn new(most: usize) -> Self {
        Bounded { most, sets: RwLock::default() }
    }

    /// The value of a label set.
    pub fn get(&self, labels: [String; LABELS]) -> Arc<T> {
        if let Some(found) = self.sets.read().unwrap_or_else(PoisonError::into_inner).get(&labels) {
            return Arc::clone(found);
        }
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let labels = if sets.contains_key(&labels) || sets.len() < self.most { labels } else { std::array::from_fn(|_| OTHER.to_owned()) };
        Arc::clone(sets.entry(labels).or_default())
    }

    /// All of them, sorted; the lock is not held while they are looked at.
    pub fn all(&self) -> Vec<([String; LABELS], Arc<T>)> {
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        sets.iter().map(|(labels, value)| (labels.clone(), Arc::clone(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn what_comes_too_late_shares_one() {
        let bounded: Bounded<2, AtomicU64> = Bounded::new(2);
        for (workflow, step) in [("w", "a"), ("w", "b"), ("w", "c"), ("v", "a"), ("w", "a"), ("other", "other")] {
            bounded.get([workflow.to_owned(), step.to_owned()]).fetch_add(1, Ordering::Relaxed);
        }
        let counted: Vec<_> = bounded.all().into_iter().map(|(labels, value)| (labels.join("/"), value.load(Ordering::Relaxed))).collect();
        assert_eq!(counted, [("other/other".to_owned(), 3), ("w/a".to_owned(), 2), ("w/b".to_owned(), 1)]);
    }
}
