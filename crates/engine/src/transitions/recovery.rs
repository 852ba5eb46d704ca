//! The changes of state of recovery: undoing, finding out, people's decisions, beginning anew.

use super::{Fold, Millis, key};
use crate::journal::{Ending, Event};
use crate::path::{Path, Purpose};

impl Fold {
    /// An attempt that finds out or undoes is a state of the entry that it is about.
    pub(super) fn helper_attempt(&mut self, event: &Event, at: Millis) {
        match event {
            Event::AttemptStarted { path, attempt, .. } => self.helper(path, ("resolving", "undoing"), *attempt, at),
            Event::AttemptSucceeded { path, attempt, .. } => {
                self.helper(path, ("resolving", "compensated"), *attempt, at);
                if path.purpose() == Purpose::Compensate {
                    *self.generations.entry(path.entry()).or_default() += 1;
                }
            }
            Event::AttemptCancelled { path, attempt } => self.helper(path, ("cancelled", "cancelled"), *attempt, at),
            Event::AttemptFailed { path, attempt, failure, decision } => {
                let undoes = match decision.retry_wait_ms() {
                    Some(_) => "undoing",
                    // A `compensate` entry was ended: the effect is in place, and the run's own undoing may have another go at it.
                    None if decision.is_cut_short() && !self.ending && self.again.may_repeat(&path.entry()) => "completed",
                    None => "compensation_failed",
                };
                self.helper(path, ("resolving", undoes), *attempt, at);
                self.error_type(failure.class.name());
            }
            _ => {}
        }
    }

    fn helper(&mut self, path: &Path, (resolves, undoes): (&'static str, &'static str), attempt: u32, at: Millis) {
        let undo = path.purpose() == Purpose::Compensate;
        let entry = path.entry();
        // What undoes has a key of its own.
        let generation = self.generations.get(&entry).copied().unwrap_or(0);
        let key = undo.then(|| key::idempotency(&self.run, path, generation));
        let row = self.to(&entry, if undo { undoes } else { resolves }, at);
        row.attempt = Some(attempt);
        row.side_effect_id = key.or(row.side_effect_id.take());
    }

    pub(super) fn recovery(&mut self, event: &Event, at: Millis) {
        let root = Path::root();
        match event {
            Event::AlreadyCompleted { path } => drop(self.to(path, "already_completed", at)),
            Event::ResolveEntered { path, attempt, .. } => self.to(path, "uncertain", at).attempt = Some(*attempt),
            Event::Resolved { path, attempt, output } => {
                let status = if output.is_some() { "completed" } else { "not_completed" };
                self.to(path, status, at).attempt = Some(*attempt);
            }
            Event::AttentionNeeded { path, error } => self.failed(path, "needs_attention", error, at),
            Event::Settled { path, output, by, reason } => {
                self.to(path, if output.is_some() { "completed" } else { "not_completed" }, at);
                self.person(by.as_ref(), reason.as_ref());
            }
            Event::CompensationStarted { outcome, error, by, reason, .. } => {
                self.ending = true;
                self.failed(&root, "compensating", error, at);
                self.person(by.as_ref(), reason.as_ref().or(ending(*outcome).as_ref()));
            }
            Event::CompensateEntered { path, .. } => drop(self.to(path, "running", at)),
            Event::CompensateCompleted { path, .. } => drop(self.to(path, "completed", at)),
            Event::EffectIrreversible { path } => drop(self.to(path, "irreversible", at)),
            Event::CompensationFailed { path, failure } => {
                self.to(path, "compensation_failed", at);
                self.error_type(failure.class.name());
            }
            Event::Resumed { by, reason, accept_repeat, .. } => {
                self.ending = false;
                self.to(&root, "running", at);
                self.person(by.as_ref(), reason.as_ref().or(accept_repeat.as_ref()));
                self.may_be_undone_again(at);
            }
            Event::Migrated { version, by, reason, .. } => {
                self.version = *version;
                self.to(&root, "migrated", at);
                self.person(by.as_ref(), Some(reason));
            }
            event => self.review(event, at),
        }
    }

    fn review(&mut self, event: &Event, at: Millis) {
        match event {
            Event::ReviewRequested { path, .. } => drop(self.to(path, "pending_review", at)),
            Event::ReviewReminded { path, number } => self.to(path, "pending_review", at).reason = Some(format!("reminder {number}")),
            Event::ReviewExtended { path, by, reason, .. } => {
                self.to(path, "pending_review", at);
                self.person(by.as_ref(), reason.as_ref().or(Some(&"extended".to_owned())));
            }
            Event::ReviewDecided { path, decision } => {
                self.to(path, decision.decision.name(), at);
                self.person(decision.by.as_ref(), decision.comment.as_ref());
            }
            _ => {}
        }
    }

    /// What could not be undone is in place again, where its author gave leave to repeat the undoing.
    fn may_be_undone_again(&mut self, at: Millis) {
        let failed = self.statuses.iter().filter(|(path, status)| **status == "compensation_failed" && self.again.permitted(path));
        for path in failed.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.to(&path, "completed", at);
        }
    }

    fn person(&mut self, by: Option<&String>, reason: Option<&String>) {
        if let Some(row) = self.rows.last_mut() {
            row.by = by.cloned();
            row.reason = reason.cloned();
        }
    }

    fn error_type(&mut self, class: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.error_type = Some(class.to_owned());
        }
    }
}

fn ending(outcome: Ending) -> Option<String> {
    match outcome {
        Ending::Failed => None,
        Ending::Cancelled => Some("the run was cancelled".to_owned()),
    }
}
