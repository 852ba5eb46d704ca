//! What scripts did to the world, which an engine learns of only through their reports.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use viat_engine::path::{Path, Purpose};

/// Effects, by the entry that has them.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// What is in place.
    pub standing: BTreeSet<Path>,
    /// What took place although it was in place.
    pub repeated: Vec<Path>,
    /// What was undone although it was not in place.
    pub undone_in_vain: Vec<Path>,
}

impl Effects {
    /// An attempt did what it is there for.
    pub(super) fn took_place(&mut self, path: &Path) {
        let entry = path.entry();
        match path.purpose() {
            Purpose::Resolve(_) => {}
            Purpose::Work => {
                if !self.standing.insert(entry.clone()) {
                    self.repeated.push(entry);
                }
            }
            Purpose::Compensate => {
                if !self.standing.remove(&entry) {
                    self.undone_in_vain.push(entry);
                }
            }
        }
    }

    /// An attempt failed, or nobody heard how it ended: it may have taken effect all the same.
    pub(super) fn unheard(&mut self, path: &Path, took_effect: bool) {
        if took_effect {
            self.took_place(path);
        }
    }

    /// What a script finds out about the attempt that it asks about.
    pub(super) fn answer(&self, path: &Path, unknown: bool) -> Value {
        match self.output(&path.entry()) {
            _ if unknown => json!({ "completed": "unknown" }),
            Some(output) => json!({ "completed": true, "output": output }),
            None => json!({ "completed": false }),
        }
    }

    /// The output of the entry at `path`, if it took effect: its path.
    pub(super) fn output(&self, path: &Path) -> Option<Value> {
        self.standing.contains(path).then(|| json!(path))
    }
}
