//! Every change of state of a run and of its entries, one record each.

mod doing;
mod recovery;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use doing::Doing;
use serde::Serialize;

use crate::failure::RunError;
use crate::journal::{Batch, Event, Millis, UndoAgain};
use crate::key;
use crate::path::{Path, Purpose};
use crate::record::rfc3339;

/// One change of state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transition {
    /// The run.
    pub run_id: String,
    /// The version of its workflow.
    pub workflow_version: u64,
    /// The entry, by its path; `null` for the run itself.
    pub step_name: Option<Path>,
    /// What it was; `null` at its beginning.
    pub from_status: Option<&'static str>,
    /// What it is from now on.
    pub to_status: &'static str,
    /// The attempt, for a script entry.
    pub attempt: Option<u32>,
    /// The class of the failure, for what failed.
    pub error_type: Option<String>,
    /// The idempotency key under which a script's effect is known outside.
    pub side_effect_id: Option<String>,
    /// When, RFC 3339.
    pub timestamp: String,
    /// Who asked for it, where a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, where a person said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The transitions that a journal tells of, in order.
pub fn transitions(journal: impl IntoIterator<Item: Borrow<Batch>>) -> Vec<Transition> {
    let mut fold = Fold::default();
    for batch in journal {
        let batch = batch.borrow();
        for event in &batch.events {
            fold.event(event, batch.at);
        }
        fold.settle(batch.at);
    }
    changes(fold.rows)
}

/// Without the rows that say nothing new.
fn changes(mut rows: Vec<Transition>) -> Vec<Transition> {
    let mut attempts: BTreeMap<Option<Path>, Option<u32>> = BTreeMap::new();
    rows.retain(|row| {
        let before = attempts.insert(row.step_name.clone(), row.attempt).flatten();
        let same = row.from_status == Some(row.to_status) && row.attempt == before;
        !same || row.error_type.is_some() || row.by.is_some() || row.reason.is_some()
    });
    rows
}

#[derive(Default)]
struct Fold {
    run: String,
    version: u64,
    /// The status of the run (the empty path) and of its entries.
    statuses: BTreeMap<Path, &'static str>,
    keys: BTreeMap<Path, String>,
    /// How often each entry's effect was undone.
    generations: BTreeMap<Path, u32>,
    again: UndoAgain,
    /// Whether the run is undoing its effects, as its last act.
    ending: bool,
    doing: Doing,
    rows: Vec<Transition>,
}

impl Fold {
    /// After a batch the run goes on, waits, or needs a person's word.
    fn settle(&mut self, at: Millis) {
        let root = Path::root();
        let Some("running" | "waiting" | "needs_attention" | "migrated") = self.statuses.get(&root).copied() else { return };
        let Some((status, class)) = self.doing.status().filter(|(status, _)| self.statuses.get(&root) != Some(status)) else { return };
        self.to(&root, status, at).error_type = class.map(|class| class.name().to_owned());
    }

    fn event(&mut self, event: &Event, at: Millis) {
        self.doing.event(event);
        self.again.event(event);
        let root = Path::root();
        match event {
            Event::Created(created) => {
                self.run.clone_from(&created.run);
                self.version = created.version;
                self.to(&root, "queued", at);
            }
            Event::CancelRequested { by, reason } => {
                let row = self.to(&root, "cancelling", at);
                row.by.clone_from(by);
                row.reason.clone_from(reason);
            }
            Event::Succeeded { .. } => drop(self.to(&root, "succeeded", at)),
            Event::Failed { error } => self.failed(&root, "failed", error, at),
            Event::Cancelled { error } => self.failed(&root, "cancelled", error, at),
            Event::DeadlineExceeded { .. } => drop(self.to(&root, "stopping", at)),
            _ => {
                if self.statuses.get(&root) == Some(&"queued") {
                    self.to(&root, "running", at);
                }
                self.entry(event, at);
            }
        }
    }

    fn entry(&mut self, event: &Event, at: Millis) {
        match event {
            Event::AttemptStarted { path, .. }
            | Event::AttemptSucceeded { path, .. }
            | Event::AttemptFailed { path, .. }
            | Event::AttemptCancelled { path, .. }
                if path.purpose() != Purpose::Work =>
            {
                self.helper_attempt(event, at);
            }
            Event::ScriptEntered { path, key, .. } => {
                let generation = self.generations.get(path).copied().unwrap_or(0);
                let key = key.clone().unwrap_or_else(|| key::idempotency(&self.run, path, generation));
                self.keys.insert(path.clone(), key);
                self.to(path, "entered", at);
            }
            Event::AttemptStarted { path, attempt, .. } => self.to(path, "running", at).attempt = Some(*attempt),
            Event::AttemptSucceeded { path, attempt, .. } => self.to(path, "completed", at).attempt = Some(*attempt),
            Event::AttemptFailed { path, attempt, failure, decision } => {
                let status = if decision.retry_wait_ms().is_some() { "retrying" } else { "failed" };
                let row = self.to(path, status, at);
                row.attempt = Some(*attempt);
                row.error_type = Some(failure.class.name().to_owned());
            }
            Event::AttemptCancelled { path, attempt } => self.to(path, "cancelled", at).attempt = Some(*attempt),
            Event::Continued { path, error } => self.failed(path, "continued", error, at),
            Event::CatchEntered { path, error } => self.failed(path, "recovering", error, at),
            Event::EntryFailed { path, error } => self.failed(path, "failed", error, at),
            Event::ContainerStopped { path, error } => self.failed(path, "stopping", error, at),
            Event::WaitEntered { path, .. } => drop(self.to(path, "waiting", at)),
            Event::ChoiceMade { path, .. } | Event::ParallelEntered { path } | Event::LoopEntered { path, .. } | Event::CallEntered { path, .. } => {
                self.to(path, "running", at);
            }
            Event::Completed { path, .. }
            | Event::RegionCompleted { path }
            | Event::ContainerCompleted { path }
            | Event::CallCompleted { path, .. }
            | Event::EventTaken { path, .. } => drop(self.to(path, "completed", at)),
            event => self.recovery(event, at),
        }
    }

    fn failed(&mut self, path: &Path, status: &'static str, error: &RunError, at: Millis) {
        self.to(path, status, at).error_type = Some(error.class.name().to_owned());
    }

    fn to(&mut self, path: &Path, status: &'static str, at: Millis) -> &mut Transition {
        let from = self.statuses.insert(path.clone(), status);
        self.rows.push(Transition {
            run_id: self.run.clone(),
            workflow_version: self.version,
            step_name: (*path != Path::root()).then(|| path.clone()),
            from_status: from,
            to_status: status,
            attempt: None,
            error_type: None,
            side_effect_id: self.keys.get(path).cloned(),
            timestamp: rfc3339(at),
            by: None,
            reason: None,
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }
}
