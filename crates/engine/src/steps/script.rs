//! `script`: work that is done outside the engine, in attempts.

use serde_json::Value;

use crate::decide::Report;
use crate::failure::{Failure, RunError};
use crate::ir::{Node, Op, Script};
use crate::journal::Event;
use crate::key;
use crate::mutants::{self, Mutant};
use crate::path::Path;
use crate::policies::class::Class;
use crate::policies::recover;
use crate::policies::retry::{self, Situation};
use crate::run::{FrameState, Phase, Run};
use crate::template::described;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, script: &Script) -> Result<(), String> {
    let args = turn.fill(&script.args, frame)?;
    if !args.is_object() {
        return Err(format!("args must be a map of names to values, they are {}", described(&args)));
    }
    let key = script.idempotency_key.as_ref().map(|key| idempotency_key(turn.fill(key, frame)?)).transpose()?;
    turn.emit(Event::ScriptEntered { path: path.clone(), args, key });
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
    if turn.run.is_due(&path, attempt) && !turn.run.is_stopped(&path) {
        turn.emit(Event::AttemptStarted { path, attempt, id, queued_ms, tree });
    }
}

pub(crate) fn finished(turn: &mut Turn<'_>, path: Path, report: Report) {
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
            Ok(()) => turn.emit(Event::AttemptSucceeded { path, attempt, output }),
            Err(message) => failed(turn, &path, attempt, Failure::new(Class::InvalidOutput, message)),
        },
        Report::Failed(failure) => failed(turn, &path, attempt, failure),
        Report::Stopped => failed(turn, &path, attempt, Failure::new(Class::ScriptBroken, "the worker was stopped although the run goes on")),
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
    let decision = retry::decide(&turn.run.retry_rules(path), situation(turn, path, attempt, &failure));
    turn.emit(Event::AttemptFailed { path: path.clone(), attempt, failure, decision });
}

/// What the retry policy is to know about a failed attempt.
pub(crate) fn situation(turn: &Turn<'_>, path: &Path, attempt: u32, failure: &Failure) -> Situation {
    Situation {
        class: failure.class,
        attempt,
        used: attempt.saturating_sub(1),
        remaining_ms: turn.run.remaining_at_ms(path, turn.now),
        retry_after_ms: failure.retry_after_ms,
        draw: key::draw(&turn.run.created.run, path, attempt),
        cancelled: turn.run.is_stopped(path),
    }
}

/// Attempts that are due now and whose budget is zero time out without being started.
pub(crate) fn expire_zero_budgets(turn: &mut Turn<'_>) {
    let now = turn.now;
    let expired: Vec<(Path, u32)> =
        turn.run.due_scripts().filter(|due| due.timeout_ms == Some(0) && due.at <= now).map(|due| (due.path, due.attempt)).collect();
    for (path, attempt) in expired {
        let failure = Failure::new(Class::Timeout, "its timeout is zero, so it was not started");
        failed(turn, &path, attempt, failure);
    }
}

/// An attempt that should run.
pub(crate) struct Due<'a> {
    pub path: Path,
    pub script: &'a Script,
    pub args: &'a std::sync::Arc<Value>,
    pub key: Option<&'a str>,
    pub attempt: u32,
    pub at: crate::journal::Millis,
    pub timeout_ms: Option<u64>,
}

impl Run {
    /// The attempts that should run, now or later, in path order.
    pub(crate) fn due_scripts(&self) -> impl Iterator<Item = Due<'_>> {
        self.busy.iter().filter_map(|frame_path| {
            let frame = self.frames.get(frame_path)?;
            let FrameState::Script(number, state) = &frame.state else { return None };
            let Phase::Due { at } = state.phase else { return None };
            let node = self.node(frame, *number)?;
            let Op::Script(script) = &node.op else { return None };
            let timeout_ms = node.policy.timeout.as_ref().map(|timeout| timeout.ms);
            Some(Due { path: frame_path.child(&node.id), script, args: &state.args, key: state.key.as_deref(), attempt: state.attempt, at, timeout_ms })
        })
    }

    pub(crate) fn retry_rules(&self, path: &Path) -> Vec<retry::RetryRule> {
        self.entry(path).map(|node| node.policy.retry.clone()).unwrap_or_default()
    }

    /// The node of the live entry at `path`.
    pub(crate) fn entry(&self, path: &Path) -> Option<&Node> {
        let (frame, number) = self.locate(path)?;
        self.node(self.frames.get(&frame)?, number)
    }

    pub(crate) fn is_due(&self, path: &Path, attempt: u32) -> bool {
        self.script_at(path).is_some_and(|script| script.attempt == attempt && matches!(script.phase, Phase::Due { .. }))
    }

    pub(crate) fn is_in_flight(&self, path: &Path, attempt_id: &str) -> bool {
        self.script_at(path).is_some_and(|script| matches!(&script.phase, Phase::InFlight { id, .. } if id == attempt_id))
    }
}
