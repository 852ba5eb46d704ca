//! Folding how effects are undone: by the run as its last act, or by a `compensate` entry.

use std::sync::Arc;

use crate::failure::{Outcome, RunError};
use crate::journal::{Ending, Millis, Undo, Undone};
use crate::mutants::{self, Mutant};
use crate::path::Path;
use crate::policies::retry::Decision;
use crate::run::{EntryUndo, FrameState, Run, RunUndo, ScriptState, Standing, Status, Stopping, Undoing};

impl Run {
    pub(super) fn start_undoing(&mut self, outcome: Ending, error: &RunError, deadline: Option<Millis>) {
        // A person who asks for it after the end gives leave to try again what failed.
        let again = self.status.is_terminal();
        let wanted = |standing| standing == Standing::Completed || (again && standing == Standing::CompensationFailed);
        self.close_all();
        let mut queue = self.ledger.undoable(&Path::root(), wanted);
        if mutants::on(Mutant::UndoForwards) {
            queue.reverse();
        }
        self.status = Status::Compensating;
        // What ended the run ends nothing any more: undoing has retries and a time of its own.
        self.stopping = None;
        self.undo_jobs = queue.iter().map(|effect| (effect.clone(), None)).collect();
        let undoing = Undoing { queue: queue.into(), job: None };
        self.undo = Some(RunUndo { outcome, error: error.clone(), deadline, expired: false, undoing });
    }

    pub(super) fn enter_compensate(&mut self, path: &Path, targets: &[(String, Path)], effects: &[Path]) {
        let Some((frame, number)) = self.locate(path) else { return };
        self.ledger.enter(path).names = targets.iter().map(|(_, target)| target.clone()).collect();
        for effect in effects {
            self.undo_jobs.insert(effect.clone(), Some(frame.clone()));
        }
        let undoing = Undoing { queue: effects.iter().cloned().collect(), job: None };
        let undo = EntryUndo { targets: targets.to_vec(), undoing, outcomes: std::collections::BTreeMap::new() };
        self.set_state(&frame, FrameState::Undoing(number, undo));
    }

    /// It is the turn of the effect at `path`.
    pub(super) fn undo_next(&mut self, path: &Path, at: Millis) {
        let Some(args) = self.ledger.undo_script(path).map(|undo| Arc::new(undo.args.clone())) else { return };
        let Some(effect) = self.ledger.effect_mut(path) else { return };
        effect.before = std::mem::replace(&mut effect.standing, Standing::Undoing);
        let first = effect.undo_attempts + 1;
        self.change_undoing(path, |undoing| {
            undoing.queue.retain(|queued| queued != path);
            undoing.job = Some((path.clone(), ScriptState::new(args, None, first, at)));
        });
    }

    /// An attempt to undo the effect at `path` failed, and no other follows now.
    pub(super) fn undo_failed(&mut self, path: &Path, decision: &Decision) {
        let may_repeat = self.ledger.effect(path).and_then(|effect| effect.undo.as_deref()).is_some_and(Undo::may_be_repeated);
        if decision.is_cut_short() && may_repeat && self.undo.is_none() {
            // A `compensate` entry was ended: the run's own undoing has another go at it.
            let before = self.ledger.effect(path).map_or(Standing::Completed, |effect| effect.before);
            self.end_undo(path, before, None);
        } else {
            self.undone(path, Undone::CompensationFailed);
        }
    }

    /// Somebody cancelled the run while it undoes its effects: that goes on, and then it ends as cancelled.
    pub(super) fn cancel(&mut self, message: String) {
        match &mut self.undo {
            Some(undo) => {
                undo.outcome = Ending::Cancelled;
                undo.error = RunError::of_run(Outcome::Cancelled, "cancelled", message, Some(undo.error.clone()));
            }
            None => self.stopping = Some(Stopping::Cancel { message }),
        }
    }

    /// What came of undoing the effect at `path`.
    pub(super) fn undone(&mut self, path: &Path, outcome: Undone) {
        let standing = match outcome {
            Undone::Compensated if mutants::on(Mutant::UndoTwice) => Standing::Completed,
            Undone::Compensated => Standing::Compensated,
            Undone::Irreversible => Standing::Irreversible,
            Undone::CompensationFailed => Standing::CompensationFailed,
            Undone::Skip => return,
        };
        if standing == Standing::Compensated {
            if let Some(entry) = self.ledger.get_mut(path) {
                entry.generation += 1;
            }
            if self.undo.is_some() {
                // The flow that undid it itself has gone past it; what the run's end undoes is to be done again.
                self.ledger.forget(path);
                self.deferred.retain(|task| task.path != *path);
            }
        }
        self.end_undo(path, standing, Some(outcome));
    }

    fn end_undo(&mut self, path: &Path, standing: Standing, outcome: Option<Undone>) {
        if let Some(effect) = self.ledger.effect_mut(path) {
            effect.standing = standing;
        }
        self.change_undoing(path, |undoing| {
            undoing.queue.retain(|queued| queued != path);
            undoing.job = undoing.job.take().filter(|(current, _)| current != path);
        });
        let Some(Some(frame_path)) = self.undo_jobs.remove(path) else { return };
        if let (Some(FrameState::Undoing(_, undo)), Some(outcome)) = (self.frames.get_mut(&frame_path).map(|frame| &mut frame.state), outcome) {
            undo.outcomes.insert(path.clone(), outcome);
        }
        self.leave_if_stopped(&frame_path);
    }
}
