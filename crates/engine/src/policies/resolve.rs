//! Attempts whose outcome is unknown: a script finds out what came of them, or a person says so.

use serde_json::Value;

use crate::decide::{Rejection, Report};
use crate::failure::{Failure, RunError};
use crate::journal::{Event, Millis};
use crate::path::{Path, Purpose};
use crate::policies::class::Class;
use crate::policies::compensate;
use crate::policies::retry;
use crate::run::{FrameState, Phase, ScriptState};
use crate::steps::script::{situation, stopped};
use crate::template::described;
use crate::turn::Turn;

/// An attempt of the entry at `path` has failed in a way that says nothing of its effect: if the entry has a `resolve`, that comes
/// before a retry, when its wait is over, and before the final verdict.
pub(crate) fn enter(turn: &mut Turn<'_>, path: &Path, attempt: u32) {
    let Some(resolve) = turn.run.resolve_of(path).cloned() else { return };
    let at = match turn.run.script_at(path).map(|script| &script.phase) {
        Some(Phase::Due { at }) => *at,
        Some(Phase::Exhausted(_)) => turn.now,
        _ => return,
    };
    let entered = |args: Value, at: Millis| Event::ResolveEntered { path: path.clone(), attempt, args, at };
    match turn.fill(&resolve.args, &path.parent()) {
        Ok(args @ Value::Object(_)) => turn.emit(entered(args, at)),
        problem => {
            let message = match problem {
                Ok(other) => format!("resolve: args must be a map of names to values, they are {}", described(&other)),
                Err(message) => format!("resolve: {message}"),
            };
            turn.emit(entered(Value::Object(serde_json::Map::new()), at));
            unknown(turn, &path.resolution(attempt), &Failure::orchestration(message));
        }
    }
}

/// An attempt to find out ended.
pub(crate) fn finished(turn: &mut Turn<'_>, path: Path, report: Report) {
    let Some(attempt) = turn.run.job_at(&path).map(|job| job.attempt) else { return };
    if turn.run.is_stopped(&path.entry()) {
        return turn.emit(Event::AttemptCancelled { path, attempt });
    }
    match report {
        Report::Returned(output) => {
            turn.emit(Event::AttemptSucceeded { path: path.clone(), attempt, output: output.clone() });
            answered(turn, &path, output);
        }
        Report::Failed(failure) => failed(turn, &path, attempt, failure),
        Report::Stopped => failed(turn, &path, attempt, stopped()),
    }
}

pub(crate) fn failed(turn: &mut Turn<'_>, path: &Path, attempt: u32, failure: Failure) {
    if turn.run.job_at(path).is_none() || turn.run.is_stopped(&path.entry()) {
        return;
    }
    let decision = retry::decide(&turn.run.retry_rules(path), situation(turn, path, attempt, &failure));
    let last = decision.retry_wait_ms().is_none();
    turn.emit(Event::AttemptFailed { path: path.clone(), attempt, failure: failure.clone(), decision });
    if last {
        unknown(turn, path, &failure);
    }
}

/// `{completed: true, output}`, `{completed: false}`, or anything else, which says nothing.
fn answered(turn: &mut Turn<'_>, path: &Path, mut answer: Value) {
    let Purpose::Resolve(attempt) = path.purpose() else { return };
    let entry = path.entry();
    match answer.get("completed") {
        Some(Value::Bool(true)) => {
            let output = answer.get_mut("output").map(Value::take).unwrap_or_default();
            turn.emit(Event::Resolved { path: entry.clone(), attempt, output: Some(output) });
            compensate::prepare(turn, &entry);
        }
        Some(Value::Bool(false)) => turn.emit(Event::Resolved { path: entry, attempt, output: None }),
        Some(Value::String(word)) if word == "unknown" => unknown(turn, path, &Failure::new(Class::User, "resolve says that it is unknown")),
        _ => {
            let message = format!(
                "resolve must return {{completed: true, output}}, {{completed: false}} or {{completed: \"unknown\"}}, it returned {}",
                described(&answer)
            );
            unknown(turn, path, &Failure::new(Class::InvalidOutput, message));
        }
    }
}

/// It cannot be found out what came of the attempt that `path` is about.
pub(crate) fn unknown(turn: &mut Turn<'_>, path: &Path, failure: &Failure) {
    let entry = path.entry();
    let Some(Phase::Resolving(unsettled, job)) = turn.run.script_at(&entry).map(|script| &script.phase) else { return };
    let mut error = unsettled.error.clone();
    let cause = RunError::of_entry(path, path.last(), Some(job.attempt), failure);
    error = error.caused_by(cause);
    turn.emit(Event::AttentionNeeded { path: entry, error });
}

/// A person says what came of an attempt.
pub(crate) fn settle(turn: &mut Turn<'_>, step: &str, output: Option<Value>, by: Option<String>, reason: Option<String>) -> Result<(), Rejection> {
    let asking = turn.run.asking.iter().filter_map(|frame_path| {
        let frame = turn.run.frames.get(frame_path)?;
        let FrameState::Script(number, ScriptState { phase: Phase::Attention(_), .. }) = &frame.state else { return None };
        Some(frame_path.child(&turn.run.node(frame, *number)?.id))
    });
    let asking: Vec<Path> = asking.collect();
    let listed = || asking.iter().map(Path::as_str).collect::<Vec<_>>().join(", ");
    let exact = asking.iter().find(|path| path.as_str() == step);
    let mut of_id = asking.iter().filter(|path| path.last() == step);
    let path = match (exact, of_id.next(), of_id.next()) {
        (Some(path), ..) | (None, Some(path), None) => path.clone(),
        (None, Some(_), Some(_)) => {
            return Err(Rejection::Refused(format!("several entries of that id wait to be settled; name one by its path: {}", listed())));
        }
        (None, None, _) if asking.is_empty() => {
            let why = turn.run.why_it_stops().map(|why| format!(": {why}")).unwrap_or_default();
            return Err(Rejection::Refused(format!("no entry of this run waits to be settled{why}")));
        }
        (None, None, _) => return Err(Rejection::Refused(format!("{step} does not wait to be settled; what does: {}", listed()))),
    };
    let completed = output.is_some();
    turn.emit(Event::Settled { path: path.clone(), output, by, reason });
    if completed {
        compensate::prepare(turn, &path);
    }
    Ok(())
}
