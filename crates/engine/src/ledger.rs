//! The ledger as people read it: what each script and `compensate` entry came to, a line each.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::journal::{Batch, Event, UndoAgain, Undone};
use crate::path::{Path, Purpose};
use crate::policies::class::Class;
use crate::policies::retry::{Decision, Reason};

/// One line of a run's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerLine {
    /// The entry.
    pub path: Path,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a script or `compensate` entry came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, at this attempt.
    CompletedAt(u32),
    /// It was complete before the run was resumed: that was used.
    AlreadyCompleted,
    /// It was refused: a business decision, so it is a person's turn.
    ManualReview,
    /// All its tries failed.
    RetryExhausted,
    /// It failed and was not tried again.
    Failed,
    /// What came of undoing.
    Undone(Undone),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::CompletedAt(attempt) => write!(formatter, "completed_at_{attempt}"),
            Outcome::AlreadyCompleted => formatter.write_str("already_completed"),
            Outcome::ManualReview => formatter.write_str("manual_review"),
            Outcome::RetryExhausted => formatter.write_str("retry_exhausted"),
            Outcome::Failed => formatter.write_str("failed"),
            Outcome::Undone(undone) => formatter.write_str(undone.name()),
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The ledger of a journal: a line for each time an entry was asked for something, in that order. What a script entry came to
/// stands where it was reached, last if a resume began it again; what the run's end undid follows. Entries that are still open,
/// or that a cancel or a deadline ended, have no line: it is not known that they took effect, nor that they did not.
pub fn ledger(journal: impl IntoIterator<Item: Borrow<Batch>>) -> Vec<LedgerLine> {
    let mut fold = Fold::default();
    for batch in journal {
        batch.borrow().events.iter().for_each(|event| fold.event(event));
    }
    fold.lines.into_iter().filter_map(|(path, outcome)| Some(LedgerLine { path, outcome: outcome? })).collect()
}

#[derive(Default)]
struct Fold {
    lines: Vec<(Path, Option<Outcome>)>,
    /// The line of each script entry's own outcome.
    own: BTreeMap<Path, usize>,
    /// What the entries failed with whose attempt's outcome is being found out: it holds if nothing has happened.
    open: BTreeMap<Path, Option<Outcome>>,
    /// Whether the run is undoing its effects, as its last act.
    ending: bool,
    again: UndoAgain,
    /// What `compensate` entries that are not through have come to so far: their effects, and what came of each.
    undoing: BTreeMap<Path, BTreeMap<Path, Option<Undone>>>,
    attempts: BTreeMap<Path, u32>,
}

impl Fold {
    fn event(&mut self, event: &Event) {
        self.again.event(event);
        match event {
            Event::ScriptEntered { path, .. } => {
                if let Some(line) = self.own.insert(path.clone(), self.lines.len())
                    && !matches!(self.lines[line].1, Some(Outcome::CompletedAt(_)))
                {
                    // It goes on now from where it failed.
                    self.lines[line].1 = None;
                }
                self.lines.push((path.clone(), None));
            }
            Event::AttemptSucceeded { path, attempt, .. } => match path.purpose() {
                Purpose::Work => self.set(path, Outcome::CompletedAt(*attempt)),
                Purpose::Compensate => self.undone(path.entry(), Undone::Compensated),
                Purpose::Resolve(_) => {}
            },
            Event::AttemptFailed { path, failure, decision, .. } if decision.retry_wait_ms().is_none() => match path.purpose() {
                Purpose::Work => self.set(path, failed(failure.class, decision)),
                Purpose::Compensate if decision.is_cut_short() && !self.ending && self.again.may_repeat(&path.entry()) => {}
                Purpose::Compensate => self.undone(path.entry(), Undone::CompensationFailed),
                Purpose::Resolve(_) => {}
            },
            Event::ResolveEntered { path, .. } => self.leave_open(path),
            Event::Resolved { path, attempt, output: Some(_) } => self.set(path, Outcome::CompletedAt(*attempt)),
            Event::Settled { path, output: Some(_), .. } => self.set(path, Outcome::CompletedAt(self.last_attempt(path))),
            Event::Resolved { path, output: None, .. } | Event::Settled { path, output: None, .. } => self.close(path),
            Event::AlreadyCompleted { path } if self.is_complete(path) => self.lines.push((path.clone(), Some(Outcome::AlreadyCompleted))),
            Event::CompensationStarted { .. } => self.end_entries(true),
            Event::Failed { .. } | Event::Cancelled { .. } => self.end_entries(self.ending),
            Event::Resumed { .. } => self.begin_anew(),
            Event::EffectIrreversible { path } => self.undone(path.clone(), Undone::Irreversible),
            Event::CompensationFailed { path, .. } => self.undone(path.clone(), Undone::CompensationFailed),
            Event::CompensateEntered { path, effects, .. } => {
                self.undoing.insert(path.clone(), effects.iter().map(|effect| (effect.clone(), None)).collect());
                self.own.insert(path.clone(), self.lines.len());
                self.lines.push((path.clone(), None));
            }
            Event::CompensateCompleted { path, outcomes } => {
                self.undoing.remove(path);
                let worst = outcomes.iter().map(|(_, outcome)| *outcome).max().unwrap_or(Undone::Skip);
                self.set(path, Outcome::Undone(worst));
            }
            _ => {}
        }
        if let Event::AttemptStarted { path, attempt, .. } | Event::AttemptFailed { path, attempt, .. } = event {
            self.attempts.insert(path.clone(), *attempt);
        }
    }

    fn set(&mut self, path: &Path, outcome: Outcome) {
        if let Some(line) = self.own.get(path) {
            self.lines[*line].1 = Some(outcome);
        }
    }

    /// What could not be undone is in place; where that is permitted the run's next end tries again.
    fn begin_anew(&mut self) {
        self.ending = false;
        let again = |path: &Path| self.again.permitted(path);
        for (_, outcome) in self.lines.iter_mut().filter(|(path, _)| again(path)) {
            outcome.take_if(|outcome| *outcome == Outcome::Undone(Undone::CompensationFailed));
        }
    }

    /// Nobody knows what came of the entry's last attempt, so it has no line.
    fn leave_open(&mut self, path: &Path) {
        if let Some(line) = self.own.get(path) {
            self.open.insert(path.clone(), self.lines[*line].1.take());
        }
    }

    /// The last attempt did nothing: the entry came to what was said when it failed.
    fn close(&mut self, path: &Path) {
        if let (Some(outcome), Some(line)) = (self.open.remove(path), self.own.get(path)) {
            self.lines[*line].1 = outcome;
        }
    }

    /// Whether the entry did what it is there for; `on_error: continue` went past one that did not.
    fn is_complete(&self, path: &Path) -> bool {
        let own = self.own.get(path).and_then(|line| self.lines[*line].1);
        matches!(own, Some(Outcome::CompletedAt(_) | Outcome::Undone(_)))
    }

    /// What the run's end undid has lines of its own; what a `compensate` entry undid is in that entry's.
    fn undone(&mut self, path: Path, outcome: Undone) {
        if self.ending {
            self.lines.push((path, Some(Outcome::Undone(outcome))));
        } else if let Some(came_to) = self.undoing.values_mut().find_map(|effects| effects.get_mut(&path)) {
            *came_to = Some(outcome);
        }
    }

    /// The `compensate` entries that are not through are ended: they have no line, so what they undid has.
    fn end_entries(&mut self, ending: bool) {
        self.ending = ending;
        let came_to = std::mem::take(&mut self.undoing).into_values().flatten();
        self.lines.extend(came_to.filter_map(|(path, outcome)| Some((path, Some(Outcome::Undone(outcome?))))));
    }

    fn last_attempt(&self, path: &Path) -> u32 {
        self.attempts.get(path).copied().unwrap_or(1)
    }
}

fn failed(class: Class, decision: &Decision) -> Outcome {
    match (class, decision.reason()) {
        (Class::User, _) => Outcome::ManualReview,
        (_, Some(Reason::Exhausted)) => Outcome::RetryExhausted,
        _ => Outcome::Failed,
    }
}
