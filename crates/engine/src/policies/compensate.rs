//! Compensation: undoing what took effect, newest first, each at most once.

use serde_json::Value;

use crate::decide::{Rejection, Report};
use crate::failure::{Failure, RunError};
use crate::ir::{Compensate, CompensationMode};
use crate::journal::{Ending, Event, Millis, Undo, UndoScript};
use crate::path::Path;
use crate::policies::class::Class;
use crate::policies::retry::{self, Decision, Reason};
use crate::run::{Standing, Status};
use crate::steps::script::{expire_zero_budgets, situation};
use crate::template::described;
use crate::turn::Turn;

/// The budget of a run's compensation, if its document gives none, in milliseconds.
pub const DEFAULT_BUDGET_MS: u64 = 300_000;

/// Notes how the effect that has just completed at `path` can be undone, if its author said so.
pub(crate) fn prepare(turn: &mut Turn<'_>, path: &Path) {
    let frame = path.parent();
    let policy = turn.run.node_named(&frame, path.last()).and_then(|node| node.policy.compensate.clone());
    let (Some(policy), true) = (policy, turn.run.ledger.effect(path).is_some()) else { return };
    let undo = match *policy {
        Compensate::Irreversible(why) => Undo::Irreversible(why),
        Compensate::Script { script, args, retry, timeout_ms, idempotent } => match turn.fill(&args, &frame) {
            Ok(args @ Value::Object(_)) => Undo::Script(UndoScript { script, args, retry, timeout_ms, idempotent }),
            Ok(other) => Undo::Unusable(format!("compensate: args must be a map of names to values, they are {}", described(&other))),
            Err(message) => Undo::Unusable(format!("compensate: {message}")),
        },
    };
    turn.emit(Event::CompensationPrepared { path: path.clone(), undo });
}

/// The run ends badly: at once, or once its effects are undone.
pub(crate) fn conclude(turn: &mut Turn<'_>, outcome: Ending, error: RunError) {
    let auto = turn.run.program.main.compensation == CompensationMode::Auto;
    let standing = |standing| matches!(standing, Standing::Completed | Standing::Undoing);
    if auto && !turn.run.ledger.undoable(&Path::root(), standing).is_empty() {
        return start(turn, outcome, error, None, None);
    }
    end(turn, outcome, error);
}

/// A person asks for it.
pub(crate) fn request(turn: &mut Turn<'_>, by: Option<String>, reason: Option<String>) -> Result<(), Rejection> {
    let refused = |why: &str| Err(Rejection::Refused(why.to_owned()));
    let outcome = match turn.run.status {
        Status::Failed => Ending::Failed,
        Status::Cancelled => Ending::Cancelled,
        Status::Compensating => return refused("its effects are being undone already"),
        Status::Succeeded => return refused("the run succeeded: only a run that failed or was cancelled is compensated"),
        Status::Queued | Status::Running | Status::Waiting | Status::NeedsAttention => {
            return refused("the run has not ended: cancel it, which compensates it too");
        }
    };
    let wanted = |standing| matches!(standing, Standing::Completed | Standing::CompensationFailed);
    if turn.run.ledger.undoable(&Path::root(), wanted).is_empty() {
        return refused("there is nothing left to undo");
    }
    let Some(error) = turn.run.error.clone() else { return refused("the run has no error") };
    start(turn, outcome, error, by, reason);
    Ok(())
}

fn start(turn: &mut Turn<'_>, outcome: Ending, error: RunError, by: Option<String>, reason: Option<String>) {
    let budget_ms = turn.run.program.main.compensation_timeout_ms.unwrap_or(DEFAULT_BUDGET_MS);
    let deadline = Some(turn.now.saturating_add(Millis::try_from(budget_ms).unwrap_or(Millis::MAX)));
    turn.emit(Event::CompensationStarted { outcome, error, deadline, by, reason });
}

fn end(turn: &mut Turn<'_>, outcome: Ending, error: RunError) {
    turn.emit(match outcome {
        Ending::Failed => Event::Failed { error },
        Ending::Cancelled => Event::Cancelled { error },
    });
}

/// The run's own undoing goes on by one step; false if it waits for the world.
pub(crate) fn step(turn: &mut Turn<'_>) -> bool {
    let Some(undo) = &turn.run.undo else { return false };
    if let Some((effect, job)) = &undo.undoing.job {
        if !undo.expired || job.is_in_flight() {
            return false;
        }
        let path = effect.clone();
        turn.emit(Event::CompensationFailed { path, failure: over() });
        return true;
    }
    match undo.undoing.queue.front().cloned() {
        Some(path) if undo.expired && !is_irreversible(turn, &path) => turn.emit(Event::CompensationFailed { path, failure: over() }),
        Some(path) => begin(turn, path),
        None => {
            let (outcome, error) = (undo.outcome, undo.error.clone());
            end(turn, outcome, error);
        }
    }
    true
}

fn is_irreversible(turn: &Turn<'_>, path: &Path) -> bool {
    matches!(turn.run.ledger.effect(path).and_then(|effect| effect.undo.as_deref()), Some(Undo::Irreversible(_)))
}

/// It is the turn of the effect at `path`.
pub(crate) fn begin(turn: &mut Turn<'_>, path: Path) {
    let undo = turn.run.ledger.effect(&path).and_then(|effect| effect.undo.clone());
    turn.emit(match undo.as_deref() {
        Some(Undo::Script(_)) => Event::CompensationEntered { path },
        Some(Undo::Irreversible(_)) => Event::EffectIrreversible { path },
        Some(Undo::Unusable(why)) => Event::CompensationFailed { path, failure: Failure::orchestration(why.clone()) },
        None => Event::CompensationFailed { path, failure: Failure::orchestration("nobody said how to undo it") },
    });
    expire_zero_budgets(turn);
}

/// An attempt to undo ended. What it says counts even when it is being stopped: what is undone is undone.
pub(crate) fn finished(turn: &mut Turn<'_>, path: Path, report: Report) {
    let Some(attempt) = turn.run.job_at(&path).map(|job| job.attempt) else { return };
    match report {
        Report::Returned(output) => turn.emit(Event::AttemptSucceeded { path, attempt, output }),
        Report::Failed(failure) => failed(turn, &path, attempt, failure),
        Report::Stopped => {
            let failure = cut_short(turn);
            failed(turn, &path, attempt, failure);
        }
    }
}

/// What an attempt to undo failed with that was told to stop.
fn cut_short(turn: &Turn<'_>) -> Failure {
    match turn.run.undo.as_ref().is_some_and(|undo| undo.expired) {
        true => over(),
        false => Failure::new(Class::ScriptBroken, "it was told to stop, with the run or the part of it that it belongs to"),
    }
}

fn over() -> Failure {
    Failure::new(Class::Timeout, "the time for compensation is over")
}

pub(crate) fn failed(turn: &mut Turn<'_>, path: &Path, attempt: u32, failure: Failure) {
    let stopped = turn.run.job_named(path).is_some_and(|job| turn.run.is_job_stopped(&job));
    let decision = match stopped {
        true => Decision::stop(Reason::Cancelled),
        false => retry::decide(&turn.run.retry_rules(path), situation(turn, path, attempt, &failure)),
    };
    turn.emit(Event::AttemptFailed { path: path.clone(), attempt, failure, decision });
}

/// The time for undoing may be over.
pub(crate) fn expire(turn: &mut Turn<'_>) {
    let now = turn.now;
    if turn.run.undo.as_ref().is_some_and(|undo| !undo.expired && undo.deadline.is_some_and(|deadline| deadline <= now)) {
        turn.emit(Event::CompensationExpired {});
    }
}
