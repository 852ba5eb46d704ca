//! The last failure of each entry that is not through yet: what a deadline's error names as its cause.

use std::collections::BTreeMap;

use super::inside;
use crate::failure::RunError;
use crate::path::Path;

/// Failures by the entry, and in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    of: BTreeMap<Path, (u64, RunError)>,
    order: BTreeMap<u64, Path>,
}

impl PartialEq for Failures {
    /// What counts is the order, not the numbers.
    fn eq(&self, other: &Failures) -> bool {
        self.newest().eq(other.newest())
    }
}

impl Failures {
    /// The entry at `path` failed; that it or something inside it failed before is forgotten.
    pub(crate) fn note(&mut self, path: &Path, error: RunError) {
        self.forget(path);
        let number = self.order.last_key_value().map_or(0, |(last, _)| last + 1);
        self.order.insert(number, path.clone());
        self.of.insert(path.clone(), (number, error));
    }

    /// Forgets what failed at `path` or inside it.
    pub(crate) fn forget(&mut self, path: &Path) {
        if self.of.is_empty() {
            return;
        }
        for path in inside(&self.of, path).iter().chain([path]) {
            if let Some((number, _)) = self.of.remove(path) {
                self.order.remove(&number);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Failures::default();
    }

    /// The failure of the entry at `path`.
    pub(crate) fn at(&self, path: &Path) -> Option<&RunError> {
        self.of.get(path).map(|(_, error)| error)
    }

    /// The newest first, with their entries.
    pub(crate) fn newest(&self) -> impl Iterator<Item = (&Path, &RunError)> {
        self.order.values().rev().filter_map(|path| Some((path, self.at(path)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::policies::class::Class;

    #[test]
    fn what_is_inside_goes_with_it() {
        let mut failures = Failures::default();
        for name in ["a", "each[1].s", "each[2].s", "eachother", "a"] {
            let path = Path::from(name);
            failures.note(&path, RunError::of_entry(&path, path.last(), Some(1), &Failure::new(Class::Exception, "no")));
        }
        let names = |failures: &Failures| failures.newest().map(|(path, _)| path.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&failures), ["a", "eachother", "each[2].s", "each[1].s"]);
        failures.forget(&Path::from("each"));
        assert_eq!(names(&failures), ["a", "eachother"]);
        assert!(failures.at(&Path::from("a")).is_some() && failures.at(&Path::from("each[1].s")).is_none());
    }
}
