//! Nothing that is done is done again: not an entry that is complete, not the undoing of an effect that is undone.

use std::collections::{BTreeMap, BTreeSet};

use viat_engine::journal::{Batch, Event};
use viat_engine::path::{Path, Purpose};

use super::is_inside;

/// How an entry stands once it is through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It took effect.
    InPlace,
    /// It took effect, and somebody has said why it may be done again.
    MayBeRepeated,
    /// It took no effect, and the flow went on past it.
    Passed,
    /// Undone by the flow, which does not come back to it.
    UndoneByFlow,
    /// The same, and the run was resumed since: it may be done again.
    UndoneBefore,
    /// Undone by the run's end: a resumed run does it again.
    UndoneByEnd,
    /// Nobody undoes it any more by itself.
    Lasting,
}

#[derive(Default)]
struct Books {
    entries: BTreeMap<Path, Done>,
    /// The order in which entries were reached first.
    reached: BTreeMap<Path, usize>,
    /// Whether the run is undoing its effects, as its last act.
    ending: bool,
    /// Whether the run has ended: only a person begins anew.
    ended: bool,
    /// The `compensate` entry that is to undo an effect, or has.
    undoes: BTreeMap<Path, Path>,
    /// Since the run was resumed: effects that are used although they are undone, and entries that undo.
    used: BTreeSet<Path>,
    passed: BTreeSet<Path>,
}

/// Checks a journal.
pub fn check(journal: &[Batch]) -> Result<(), String> {
    let mut books = Books::default();
    journal.iter().flat_map(|batch| &batch.events).try_for_each(|event| books.pass(event))
}

impl Books {
    fn pass(&mut self, event: &Event) -> Result<(), String> {
        let reopens = matches!(event, Event::Resumed { .. } | Event::CompensationStarted { .. } | Event::Migrated { .. } | Event::TaskSubmitted { .. });
        if self.ended && !reopens {
            return Err(format!("{event:?} after the end"));
        }
        match event {
            Event::ScriptEntered { path, .. } => {
                self.may_run(path)?;
                self.reach(path);
            }
            Event::WaitEntered { path, .. } | Event::ReviewRequested { path, .. } | Event::LoopEntered { path, .. } => self.reach(path),
            Event::CompensateEntered { path, effects, .. } => {
                self.reach(path);
                self.passed.insert(path.clone());
                self.undoes.extend(effects.iter().map(|effect| (effect.clone(), path.clone())));
            }
            Event::AlreadyCompleted { path } => {
                self.passed.insert(path.clone());
                if self.entries.get(path) == Some(&Done::UndoneBefore) {
                    self.used.insert(path.clone());
                }
            }
            Event::AttemptStarted { path, .. } => match path.purpose() {
                Purpose::Work => self.may_run(path)?,
                Purpose::Resolve(_) => self.may_run(&path.entry())?,
                Purpose::Compensate => self.may_be_undone(&path.entry())?,
            },
            Event::AttemptSucceeded { path, .. } if path.purpose() == Purpose::Work => self.set(path, Done::InPlace),
            Event::AttemptSucceeded { path, .. } if path.purpose() == Purpose::Compensate => {
                self.set(&path.entry(), if self.ending { Done::UndoneByEnd } else { Done::UndoneByFlow });
            }
            Event::Resolved { path, output: Some(_), .. } | Event::Settled { path, output: Some(_), .. } => {
                self.may_run(path)?;
                self.set(path, Done::InPlace);
            }
            // An effect that was to be repeated is still in place when the repetition fails.
            Event::Continued { path, .. } if self.entries.get(path) != Some(&Done::MayBeRepeated) => self.set(path, Done::Passed),
            Event::CompensationEntered { path } => self.may_be_undone(path)?,
            Event::EffectIrreversible { path } => {
                self.may_be_undone(path)?;
                self.set(path, Done::Lasting);
            }
            Event::CompensationStarted { .. } => (self.ending, self.ended) = (true, false),
            Event::Resumed { from, accept_repeat, .. } => {
                (self.ending, self.ended) = (false, false);
                self.entries.retain(|_, done| *done != Done::UndoneByEnd);
                self.entries.values_mut().filter(|done| **done == Done::UndoneByFlow).for_each(|done| *done = Done::UndoneBefore);
                self.used.clear();
                self.passed.clear();
                if let Some(from) = from {
                    self.again(from, accept_repeat.is_some())?;
                }
            }
            Event::Succeeded { .. } => {
                self.ended = true;
                self.undone_things_were_undone_again()?;
            }
            Event::Failed { .. } | Event::Cancelled { .. } => self.ended = true,
            _ => {}
        }
        Ok(())
    }

    /// What a resumed run used although it was undone is what its flow undoes anyway.
    fn undone_things_were_undone_again(&self) -> Result<(), String> {
        // A loop that is used again as a whole stands for all that is inside it.
        let passed = |by: &Path| self.passed.iter().any(|path| path == by || is_inside(by.as_str(), path.as_str()));
        let missed = |path: &&Path| self.undoes.get(*path).is_none_or(|by| !passed(by));
        match self.used.iter().find(missed) {
            Some(path) => Err(format!("{path} is undone, yet the run succeeded with it, and not past the entry that undid it")),
            None => Ok(()),
        }
    }

    fn reach(&mut self, path: &Path) {
        let next = self.reached.len();
        self.reached.entry(path.clone()).or_insert(next);
    }

    fn set(&mut self, path: &Path, done: Done) {
        self.entries.insert(path.clone(), done);
    }

    fn may_run(&self, path: &Path) -> Result<(), String> {
        match self.entries.get(path) {
            None | Some(Done::MayBeRepeated | Done::UndoneBefore) => Ok(()),
            Some(done) => Err(format!("{path} runs again although it is complete ({done:?})")),
        }
    }

    fn may_be_undone(&self, path: &Path) -> Result<(), String> {
        match self.entries.get(path) {
            Some(Done::InPlace | Done::MayBeRepeated) => Ok(()),
            done => Err(format!("{path} is to be undone although it is not in place ({done:?})")),
        }
    }

    /// Everything from this entry on is done again, which repeats no effect that is in place unless somebody has said why.
    fn again(&mut self, from: &Path, accepted: bool) -> Result<(), String> {
        let first = self.reached.iter().filter(|(path, _)| *path == from || is_inside(path.as_str(), from.as_str())).map(|(_, at)| *at).min();
        let first = first.ok_or_else(|| format!("{from}, from which the run is resumed, was never reached"))?;
        let reached = &self.reached;
        let again = |path: &Path| reached.get(path).is_some_and(|at| *at >= first);
        let repeated = self.entries.iter().find(|(path, done)| again(path) && matches!(done, Done::InPlace | Done::Lasting));
        if let (Some((path, _)), false) = (repeated, accepted) {
            return Err(format!("{path} is in place, yet it is repeated from {from} on"));
        }
        self.entries.retain(|path, done| !again(path) || *done == Done::InPlace || *done == Done::MayBeRepeated);
        self.entries.iter_mut().filter(|(path, _)| again(path)).for_each(|(_, done)| *done = Done::MayBeRepeated);
        Ok(())
    }
}
