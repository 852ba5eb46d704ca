//! `script`: work that is done outside the engine, in attempts.

use serde_json::Value;

use crate::decide::Report;
use crate::failure::{Failure, RunError};
use crate::ir::{Node, Script};
use crate::journal::Event;
use crate::key;
use crate::mutants::{self, Mutant};
use crate::path::{Path, Purpose};
use crate::policies::class::Class;
use crate::policies::retry::{self, Situation};
use crate::policies::{compensate, recover, resolve};
use crate::run::{Run, ScriptState};
use crate::template::described;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, script: &Script) -> Result<(), String> {
    let args = turn.fill(&script.args, frame)?;
    if !args.is_object() {
        return Err(format!("args must be a map of names to values, they are {}", described(&args)));
    }
    let key = script.idempotency_key.as_ref().map(|key| idempotency_key(turn.fill(key, frame)?)).transpose()?;
    turn.emit(Event::ScriptEntered { path: path.clone(), args, key });
    // Entered anew after an attempt of which nobody has found out yet what came of it.
    let open = turn.run.ledger.get(path).filter(|entry| entry.uncertain.is_some()).map(|entry| entry.attempts);
    if let Some(attempt) = open {
        resolve::enter(turn, path, attempt);
    }
    expire_zero_budgets(turn);
    Ok(())
}

/// The most bytes that an idempotency key may have.
const MAX_KEY_BYTES: usize = 512;

fn idempotency_key(value: Value) -> Result<String, String> {
    match value {
        Value::String(key) if !key.is_empty() && key.len() <= MAX_KEY_BYTES => Ok(key),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("idempotency_key must be a string of 1 to {MAX_KEY_BYTES} bytes or a number, it is {}", described(&other))),
    }
}

pub(crate) fn reserved(turn: &mut Turn<'_>, path: Path, attempt: u32, id: String, queued_ms: u64, tree: Value) {
    // A deadline may have passed in this very decision: then nothing starts.
    if turn.run.may_start(&path, attempt) {
        turn.emit(Event::AttemptStarted { path, attempt, id, queued_ms, tree });
    }
}

/// An attempt ended, whatever it was for.
pub(crate) fn finished(turn: &mut Turn<'_>, path: Path, report: Report) {
    match path.purpose() {
        Purpose::Work => work_finished(turn, path, report),
        Purpose::Resolve(_) => resolve::finished(turn, path, report),
        Purpose::Compensate => compensate::finished(turn, path, report),
    }
}

fn work_finished(turn: &mut Turn<'_>, path: Path, report: Report) {
    let Some(attempt) = turn.run.script_at(&path).map(|script| script.attempt) else { return };
    match report {
        // Once the run or a container around it is being stopped, what an attempt still said is not used.
        _ if turn.run.is_stopped(&path) => {
            turn.emit(Event::AttemptCancelled { path: path.clone(), attempt });
            if mutants::on(Mutant::RecoverFromCancel) {
                recover_from_cancel(turn, path);
            }
        }
        Report::Returned(output) => match turn.run.check_room(&output) {
            Ok(()) => {
                turn.emit(Event::AttemptSucceeded { path: path.clone(), attempt, output });
                compensate::prepare(turn, &path);
            }
            Err(message) => failed(turn, &path, attempt, Failure::new(Class::InvalidOutput, message)),
        },
        Report::Failed(failure) => failed(turn, &path, attempt, failure),
        Report::Stopped => failed(turn, &path, attempt, stopped()),
    }
}

/// What a worker that was stopped for no reason of the run's failed with.
pub(crate) fn stopped() -> Failure {
    Failure::new(Class::ScriptBroken, "the worker was stopped although the run goes on")
}

/// No worker could be had for an attempt that was due, whatever it was for.
pub(crate) fn not_started(turn: &mut Turn<'_>, path: &Path, attempt: u32, failure: Failure) {
    match path.purpose() {
        Purpose::Work => failed(turn, path, attempt, failure),
        Purpose::Resolve(_) => resolve::failed(turn, path, attempt, failure),
        Purpose::Compensate => compensate::failed(turn, path, attempt, failure),
    }
}

/// The seeded bug [`Mutant::RecoverFromCancel`].
fn recover_from_cancel(turn: &mut Turn<'_>, path: Path) {
    let rules = turn.run.entry(&path).map(|node| node.policy.recover.clone()).unwrap_or_default();
    if !rules.is_empty() {
        let error = RunError::of_entry(&path, path.last(), None, &Failure::new(Class::ScriptBroken, "seeded"));
        recover::entry(turn, &path.parent(), path, &rules, error);
    }
}

/// A task that a running attempt deferred; once it is being stopped, nothing it asks for counts.
pub(crate) fn deferred(turn: &mut Turn<'_>, path: Path, event: impl FnOnce(Path, u32) -> Event) {
    let attempt = turn.run.script_at(&path).map(|script| script.attempt);
    if let Some(attempt) = attempt.filter(|_| !turn.run.is_stopped(&path)) {
        turn.emit(event(path, attempt));
    }
}

pub(crate) fn failed(turn: &mut Turn<'_>, path: &Path, attempt: u32, failure: Failure) {
    // A deadline may have passed in this very decision: then the entry may be gone, or it is nobody's to try again.
    if turn.run.script_at(path).is_none() || turn.run.is_stopped(path) {
        return;
    }
    let begun = turn.run.job_at(path).is_some_and(ScriptState::is_in_flight);
    let decision = retry::decide(&turn.run.retry_rules(path), situation(turn, path, attempt, &failure));
    let class = failure.class;
    turn.emit(Event::AttemptFailed { path: path.clone(), attempt, failure, decision });
    if begun && class.is_uncertain() {
        resolve::enter(turn, path, attempt);
    }
}

/// What the retry policy is to know about a failed attempt.
pub(crate) fn situation(turn: &Turn<'_>, path: &Path, attempt: u32, failure: &Failure) -> Situation {
    let first = turn.run.job_at(path).map_or(1, |job| job.first);
    let remaining_ms = if turn.run.undo.is_some() { turn.run.undo_remaining_ms(turn.now) } else { turn.run.remaining_at_ms(path, turn.now) };
    Situation {
        class: failure.class,
        attempt,
        used: attempt.saturating_sub(first),
        remaining_ms,
        retry_after_ms: failure.retry_after_ms,
        draw: key::draw(&turn.run.created.run, path, attempt),
        cancelled: turn.run.is_stopped(path),
    }
}

/// Attempts that are due now and whose budget is zero time out without being started.
pub(crate) fn expire_zero_budgets(turn: &mut Turn<'_>) {
    let now = turn.now;
    let spent = turn.run.spent_jobs().filter(|job| job.state.phase.due().is_some_and(|at| at <= now));
    let expired: Vec<(Path, u32)> = spent.map(|job| (job.path, job.state.attempt)).collect();
    for (path, attempt) in expired {
        let failure = Failure::new(Class::Timeout, "its timeout is zero, so it was not started");
        not_started(turn, &path, attempt, failure);
    }
}

impl Run {
    /// The node of the live entry at `path`.
    pub(crate) fn entry(&self, path: &Path) -> Option<&Node> {
        let (frame, number) = self.locate(path)?;
        self.node(self.frames.get(&frame)?, number)
    }
}
