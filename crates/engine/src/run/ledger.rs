//! What a run knows of its effects and of what its entries came to: asked before an entry starts, and when effects are undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::failure::RunError;
use crate::journal::{Undo, UndoScript};
use crate::path::Path;
use crate::record::{LedgerRecord, LedgerStatus};
use crate::run::Run;

/// By the path of the entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    entries: BTreeMap<Path, LedgerEntry>,
    /// How many entries were reached, and how many effects completed, so far.
    entered: u32,
    completed: u32,
    /// Whether the run was begun anew at its root, so that what entries came to is used again.
    pub reentered: bool,
}

/// One entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LedgerEntry {
    /// Its place in the order in which entries were reached first.
    pub entered: u32,
    /// Its last attempt; of a review, how often it was asked for.
    pub attempts: u32,
    /// How often its effect was undone.
    pub generation: u32,
    pub memo: Option<Memo>,
    pub effect: Option<Effect>,
    /// How the last attempt ended, if that says nothing of its effect and nobody has found out yet.
    pub uncertain: Option<RunError>,
    /// The last attempt to find out about it.
    pub resolutions: u32,
    /// What it names, if it is a `compensate` entry.
    pub names: Vec<Path>,
}

/// What an entry came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Memo {
    /// This is what its name stands for.
    Bound(Arc<Value>),
    /// `on_error: continue` took this.
    Continued(RunError),
    /// `on_error: catch` took this; what the recovery came to is in its own entries.
    Caught(RunError),
}

/// Something that a script did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effect {
    /// Its place in the order of completion.
    pub order: u32,
    pub standing: Standing,
    pub undo: Option<Arc<Undo>>,
    /// The last attempt to undo it.
    pub undo_attempts: u32,
    /// Whether that attempt may have undone it, though it failed.
    pub undo_uncertain: bool,
    /// How it stood before it was being undone.
    pub before: Standing,
}

impl Effect {
    /// Whether undoing it, having failed, may be tried again: it certainly did nothing, or the author gave leave.
    pub fn may_be_undone_again(&self) -> bool {
        !self.undo_uncertain || self.undo.as_deref().is_some_and(Undo::may_be_repeated)
    }
}

/// How an effect stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In place.
    Completed,
    /// Being undone.
    Undoing,
    /// Undone.
    Compensated,
    /// Not undone, or not known to be.
    CompensationFailed,
    /// In place for good.
    Irreversible,
}

impl Ledger {
    pub fn get(&self, path: &Path) -> Option<&LedgerEntry> {
        self.entries.get(path)
    }

    pub fn get_mut(&mut self, path: &Path) -> Option<&mut LedgerEntry> {
        self.entries.get_mut(path)
    }

    /// What the entry at `path` came to before the run was begun anew.
    pub fn memo(&self, path: &Path) -> Option<&Memo> {
        if self.reentered { self.entries.get(path)?.memo.as_ref() } else { None }
    }

    /// Notes that an entry was reached.
    pub fn enter(&mut self, path: &Path) -> &mut LedgerEntry {
        let entered = &mut self.entered;
        self.entries.entry(path.clone()).or_insert_with(|| {
            *entered += 1;
            LedgerEntry { entered: *entered, ..LedgerEntry::default() }
        })
    }

    pub fn remember(&mut self, path: &Path, memo: Memo) {
        self.enter(path).memo = Some(memo);
    }

    /// Notes that a script took effect.
    pub fn complete(&mut self, path: &Path) {
        self.completed += 1;
        let order = self.completed;
        let entry = self.enter(path);
        entry.uncertain = None;
        let undo_attempts = entry.effect.as_ref().map_or(0, |effect| effect.undo_attempts);
        entry.effect = Some(Effect { order, standing: Standing::Completed, undo: None, undo_attempts, undo_uncertain: false, before: Standing::Completed });
    }

    /// Notes what is to be found out about the last attempt of the entry at `path`; `None`: nothing.
    pub fn leave_open(&mut self, path: &Path, error: Option<RunError>) {
        self.enter(path).uncertain = error;
    }

    pub fn effect(&self, path: &Path) -> Option<&Effect> {
        self.entries.get(path)?.effect.as_ref()
    }

    pub fn effect_mut(&mut self, path: &Path) -> Option<&mut Effect> {
        self.entries.get_mut(path)?.effect.as_mut()
    }

    /// The script that undoes the effect at `path`.
    pub fn undo_script(&self, path: &Path) -> Option<&UndoScript> {
        match self.effect(path)?.undo.as_deref()? {
            Undo::Script(script) => Some(script),
            Undo::Irreversible(_) | Undo::Unusable(_) => None,
        }
    }

    /// The effects that somebody said how to undo, at `within` or inside it, newest first.
    pub fn undoable(&self, within: &Path, wanted: impl Fn(Standing) -> bool) -> Vec<Path> {
        let effects = self.entries.iter().filter(|(path, _)| *path == within || path.is_inside(within));
        let with_undo = effects.filter_map(|(path, entry)| {
            let effect = entry.effect.as_ref()?;
            (effect.undo.is_some() && wanted(effect.standing)).then_some((effect.order, path))
        });
        let mut found: Vec<(u32, &Path)> = with_undo.collect();
        found.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        found.into_iter().map(|(_, path)| path.clone()).collect()
    }

    /// The run is begun anew: what could not be undone is in place, and its next end tries again where that is permitted.
    pub fn retry_undoing(&mut self) {
        let effects = self.entries.values_mut().filter_map(|entry| entry.effect.as_mut());
        for effect in effects.filter(|effect| effect.standing == Standing::CompensationFailed) {
            if effect.may_be_undone_again() {
                effect.standing = Standing::Completed;
            }
        }
    }

    /// The run is begun anew. What its flow has undone is used again only if the flow is certain to come past the entry that undid
    /// it: everything that was reached before that entry is used again, so whatever decides the way is as it was. Otherwise both
    /// are done again, and so is every such entry that names what is done again. Gives what is forgotten.
    pub fn forget_undone(&mut self) -> Vec<Path> {
        let mut forgotten = Vec::new();
        loop {
            let Some(first) = self.first_done_again() else { return forgotten };
            let after = self.entries.iter().filter(|(_, entry)| !entry.names.is_empty() && entry.memo.is_some() && entry.entered > first);
            let mut more: Vec<Path> = Vec::new();
            for (path, entry) in after {
                let (undone, redone) = self.named_by(entry);
                if !undone.is_empty() || redone {
                    more.push(path.clone());
                    more.extend(undone);
                }
            }
            if more.is_empty() {
                return forgotten;
            }
            more.iter().for_each(|path| self.forget(path));
            forgotten.extend(more);
        }
    }

    /// When the first entry was reached that is to be run again; what contains others is what they make of it.
    fn first_done_again(&self) -> Option<u32> {
        let again = self.entries.iter().filter(|(path, entry)| entry.memo.is_none() && self.inside(path).next().is_none());
        again.map(|(_, entry)| entry.entered).min()
    }

    /// The entries inside the one at `path`.
    fn inside(&self, path: &Path) -> impl Iterator<Item = (&Path, &LedgerEntry)> {
        path.inner_prefixes().into_iter().flat_map(|prefix| {
            let from = self.entries.range(Path::from(prefix.as_str())..);
            from.take_while(move |(inner, _)| inner.as_str().starts_with(&prefix))
        })
    }

    /// Of what a `compensate` entry names: the effects that are undone and would be used again, and whether something is done again.
    fn named_by(&self, entry: &LedgerEntry) -> (Vec<Path>, bool) {
        let mut undone = Vec::new();
        let mut redone = false;
        for name in &entry.names {
            let itself = self.entries.get_key_value(name);
            for (path, entry) in itself.into_iter().chain(self.inside(name)) {
                let Some(effect) = &entry.effect else { continue };
                redone |= entry.memo.is_none();
                if entry.memo.is_some() && effect.standing == Standing::Compensated {
                    undone.push(path.clone());
                }
            }
        }
        (undone, redone)
    }

    /// The effects that are used though it is not known whether they were undone.
    pub fn perhaps_undone(&self) -> impl Iterator<Item = &Path> {
        let perhaps = |effect: &Effect| effect.standing == Standing::CompensationFailed && effect.undo_uncertain;
        self.entries.iter().filter(move |(_, entry)| entry.memo.is_some() && entry.effect.as_ref().is_some_and(perhaps)).map(|(path, _)| path)
    }

    /// What the entry at `path` came to does not hold any more, so neither does what the loops around it came to.
    pub fn forget(&mut self, path: &Path) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.memo = None;
        }
        for around in path.ancestors() {
            if let Some(entry) = self.entries.get_mut(&around)
                && matches!(entry.memo, Some(Memo::Bound(_)))
            {
                entry.memo = None;
            }
        }
    }

    /// The entries that `text` names: by path, by the path of a container around them, or by the id of a single one.
    ///
    /// # Errors
    /// The entries of that id if there are several; none if there is none.
    pub fn named(&self, text: &str) -> Result<Vec<Path>, Vec<Path>> {
        let exact = Path::from(text);
        let at = |wanted: &dyn Fn(&Path) -> bool| self.entries.keys().filter(|path| wanted(path)).cloned().collect::<Vec<_>>();
        let found = at(&|path| *path == exact || path.is_inside(&exact));
        if !found.is_empty() {
            return Ok(found);
        }
        let of_id = at(&|path| path.last() == text);
        if of_id.len() == 1 { Ok(of_id) } else { Err(of_id) }
    }

    /// The entries that were reached at or after the first of these, in the order in which they were.
    pub fn from(&self, first: &[Path]) -> Vec<(&Path, &LedgerEntry)> {
        let Some(start) = first.iter().filter_map(|path| self.entries.get(path)).map(|entry| entry.entered).min() else { return Vec::new() };
        let mut found: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.entered >= start).collect();
        found.sort_by_key(|(_, entry)| entry.entered);
        found
    }

    /// The entries whose outcome would be used again.
    pub fn remembered(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter(|(_, entry)| entry.memo.is_some()).map(|(path, _)| path)
    }
}

impl Run {
    /// The run's effects, in order of completion, without reasons. One that is being undone is in place still.
    pub fn effects(&self) -> Vec<LedgerRecord> {
        let effects = self.ledger.entries.iter().filter_map(|(path, entry)| entry.effect.as_ref().map(|effect| (path, effect)));
        let rows = effects.map(|(path, effect)| LedgerRecord { path: path.clone(), status: effect.standing.shown(), order: effect.order, reason: None });
        let mut rows: Vec<LedgerRecord> = rows.collect();
        rows.sort_by_key(|row| row.order);
        rows
    }
}

impl Run {
    /// The entries of which nobody knows whether their last attempt took effect, sorted.
    pub fn uncertain(&self) -> Vec<&Path> {
        self.ledger.entries.iter().filter(|(_, entry)| entry.uncertain.is_some()).map(|(path, _)| path).collect()
    }
}

impl Standing {
    fn shown(self) -> LedgerStatus {
        match self {
            Standing::Completed | Standing::Undoing => LedgerStatus::Completed,
            Standing::Compensated => LedgerStatus::Compensated,
            Standing::CompensationFailed => LedgerStatus::CompensationFailed,
            Standing::Irreversible => LedgerStatus::Irreversible,
        }
    }
}
