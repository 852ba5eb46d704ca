//! When something is due of which frame, findable by the frame and by the time.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::Millis;
use crate::path::Path;

/// Frames and when time changes each. Every look-up takes the logarithm of how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Calendar {
    when: BTreeMap<Path, Millis>,
    order: BTreeSet<(Millis, Path)>,
}

impl Calendar {
    /// Notes when `path` is due; `None`: not at all.
    pub(crate) fn set(&mut self, path: &Path, at: Option<Millis>) {
        let before = self.when.get(path).copied();
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, path.clone()));
        }
        match at {
            Some(at) => {
                self.when.insert(path.clone(), at);
                self.order.insert((at, path.clone()));
            }
            None => {
                self.when.remove(path);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Calendar::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.when.is_empty()
    }

    /// The frames in the order of their paths.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Path> {
        self.when.keys()
    }

    /// What is due at `from` or later, the earliest first; of the same time in the order of the paths.
    pub(crate) fn since(&self, from: Millis) -> impl Iterator<Item = &(Millis, Path)> {
        self.order.range((from, Path::root())..)
    }

    /// When the first of all is due.
    pub(crate) fn first(&self) -> Option<Millis> {
        self.order.first().map(|(at, _)| *at)
    }

    /// What is due by `now`, in the order of the paths.
    pub(crate) fn by(&self, now: Millis) -> Vec<Path> {
        let mut due: Vec<Path> = self.order.iter().take_while(|(at, _)| *at <= now).map(|(_, path)| path.clone()).collect();
        due.sort_unstable();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_first_and_each_once() {
        let mut calendar = Calendar::default();
        for (path, at) in [("c", 5), ("a[10]", 7), ("a[2]", 7), ("b", 1), ("c", 9), ("b", 3)] {
            calendar.set(&Path::from(path), Some(at));
        }
        let since = |calendar: &Calendar, from| calendar.since(from).map(|(at, path)| (*at, path.to_string())).collect::<Vec<_>>();
        assert_eq!(since(&calendar, 4), [(7, "a[2]".to_owned()), (7, "a[10]".to_owned()), (9, "c".to_owned())]);
        assert_eq!((calendar.first(), calendar.by(8)), (Some(3), vec![Path::from("a[2]"), Path::from("a[10]"), Path::from("b")]));
        calendar.set(&Path::from("b"), None);
        assert_eq!((calendar.first(), calendar.frames().count()), (Some(7), 3));
        calendar.clear();
        assert!(calendar.is_empty() && calendar.first().is_none());
    }
}
