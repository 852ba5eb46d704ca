//! Which undoing that failed may be tried again without a person's leave, as a journal tells it.

use std::collections::BTreeSet;

use super::Event;
use crate::path::{Path, Purpose};

/// Kept by whatever reads a journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoAgain {
    /// Effects whose author gave leave to repeat the undoing.
    may_repeat: BTreeSet<Path>,
    /// Effects whose last attempt to undo them may have undone them.
    uncertain: BTreeSet<Path>,
}

impl UndoAgain {
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::CompensationPrepared { path, undo } => {
                self.uncertain.remove(path);
                if undo.may_be_repeated() {
                    self.may_repeat.insert(path.clone());
                } else {
                    self.may_repeat.remove(path);
                }
            }
            Event::AttemptFailed { path, failure, .. } if path.purpose() == Purpose::Compensate => {
                if failure.class.is_uncertain() {
                    self.uncertain.insert(path.entry());
                } else {
                    self.uncertain.remove(&path.entry());
                }
            }
            _ => {}
        }
    }

    /// Whether the author of the effect at `path` gave leave.
    pub fn may_repeat(&self, path: &Path) -> bool {
        self.may_repeat.contains(path)
    }

    /// Whether undoing it, having failed, may be tried again: it certainly did nothing, or the author gave leave.
    pub fn permitted(&self, path: &Path) -> bool {
        !self.uncertain.contains(path) || self.may_repeat(path)
    }
}
