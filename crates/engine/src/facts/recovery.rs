//! What is counted of undoing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Count, Fact};
use crate::journal::{Event, UndoAgain, Undone};
use crate::path::Path;

/// What of a run's undoing has to be remembered to count it.
#[derive(Clone, Debug, Default)]
pub(super) struct Undoing {
    /// Whether the run is undoing its effects, as its last act.
    ending: bool,
    again: UndoAgain,
    /// Effects that are undone.
    undone: BTreeSet<Path>,
    /// What each `compensate` entry names: ids, and where they are.
    named: BTreeMap<Path, Vec<(String, Path)>>,
}

impl Undoing {
    pub fn event(&mut self, event: &Event, facts: &mut Vec<Fact>) {
        self.again.event(event);
        match event {
            Event::CompensationStarted { .. } => self.ending = true,
            Event::CompensateEntered { path, targets, .. } => {
                self.named.insert(path.clone(), targets.clone());
            }
            Event::EffectIrreversible { path } => facts.push(Fact::Counted(Count::Irreversible, path.clone())),
            Event::CompensationFailed { path, .. } => facts.push(Fact::Counted(Count::CompensationFailed, path.clone())),
            Event::CompensateCompleted { path, outcomes } => self.skipped(path, outcomes, facts),
            Event::Resolved { path, output: Some(_), .. } | Event::Settled { path, output: Some(_), .. } => self.done(path),
            _ => {}
        }
    }

    /// What a `compensate` entry named and found nothing to undo in.
    fn skipped(&mut self, entry: &Path, outcomes: &[(String, Undone)], facts: &mut Vec<Fact>) {
        let named = self.named.remove(entry).unwrap_or_default();
        for (id, _) in outcomes.iter().filter(|(_, undone)| *undone == Undone::Skip) {
            let target = named.iter().find(|(name, _)| name == id).map_or_else(|| entry.parent().child(id), |(_, path)| path.clone());
            let again = self.undone.iter().any(|path| *path == target || path.is_inside(&target));
            facts.push(Fact::Counted(if again { Count::CompensationRepeated } else { Count::CompensationIdle }, target));
        }
    }

    /// The entry at `path` took effect.
    pub fn done(&mut self, path: &Path) {
        if !self.undone.is_empty() {
            self.undone.remove(path);
        }
    }

    /// The effect of the entry at `path` is undone.
    pub fn undone(&mut self, path: Path) {
        self.undone.insert(path);
    }

    /// Whether undoing that was cut short is not the last word: the run's end takes it up again.
    pub fn is_taken_up_again(&self, entry: &Path) -> bool {
        !self.ending && self.again.may_repeat(entry)
    }

    /// The run goes on.
    pub fn begin_anew(&mut self) {
        self.ending = false;
    }
}
