//! The ledger as people read it: one line a script entry that came to an end, and what it came to.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::journal::{Batch, Event};
use crate::path::Path;
use crate::policies::class::Class;
use crate::policies::retry::Reason;

/// One line of a run's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerLine {
    /// The entry.
    pub path: Path,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a script entry came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, at this attempt.
    CompletedAt(u32),
    /// It was refused: a business decision, so it is a person's turn.
    ManualReview,
    /// All its tries failed.
    RetryExhausted,
    /// It failed and was not tried again.
    Failed,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::CompletedAt(attempt) => write!(formatter, "completed_at_{attempt}"),
            Outcome::ManualReview => formatter.write_str("manual_review"),
            Outcome::RetryExhausted => formatter.write_str("retry_exhausted"),
            Outcome::Failed => formatter.write_str("failed"),
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The ledger of a journal, in the order in which the entries were reached. Entries that are still open, or that a cancel
/// or a deadline ended, have no line: it is not known that they took effect, nor that they did not.
pub fn ledger(journal: impl IntoIterator<Item: Borrow<Batch>>) -> Vec<LedgerLine> {
    let mut order: Vec<Path> = Vec::new();
    let mut outcomes: BTreeMap<Path, Outcome> = BTreeMap::new();
    for batch in journal {
        for event in &batch.borrow().events {
            match event {
                Event::ScriptEntered { path, .. } => order.push(path.clone()),
                Event::AttemptSucceeded { path, attempt, .. } => {
                    outcomes.insert(path.clone(), Outcome::CompletedAt(*attempt));
                }
                Event::AttemptFailed { path, failure, decision, .. } if decision.retry_wait_ms().is_none() => {
                    let outcome = match (failure.class, decision.reason()) {
                        (Class::User, _) => Outcome::ManualReview,
                        (_, Some(Reason::Exhausted)) => Outcome::RetryExhausted,
                        _ => Outcome::Failed,
                    };
                    outcomes.insert(path.clone(), outcome);
                }
                _ => {}
            }
        }
    }
    order.into_iter().filter_map(|path| outcomes.get(&path).map(|outcome| LedgerLine { outcome: *outcome, path })).collect()
}
