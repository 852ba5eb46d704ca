//! `workflow`: another workflow inside this run; and `return`, which ends a workflow early.

use std::sync::Arc;

use crate::failure::{Failure, Outcome, RunError};
use crate::ir::{Call, Template};
use crate::journal::{Event, Millis};
use crate::path::Path;
use crate::policies::class::Class;
use crate::run::{Role, Run};
use crate::template::described;
use crate::turn::Turn;

/// How many workflows deep a run may be.
pub const MAX_DEPTH: usize = 16;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, call: &Call) -> Result<(), String> {
    let program = Arc::clone(&turn.run.program);
    let Some(called) = program.called.get(&call.key()) else {
        let message = format!("workflow {0} does not exist or was never published (viat workflow publish {0})", call.workflow);
        let failure = Failure::new(Class::Resource, message);
        fail_entry(turn, frame, path, &failure);
        return Ok(());
    };
    if turn.run.depth(frame) >= MAX_DEPTH {
        return Err(format!("workflows may call each other at most {MAX_DEPTH} deep"));
    }
    let args = turn.fill(&call.args, frame)?;
    let inputs = turn.evaluator.check_inputs(called, args).map_err(|message| format!("workflow {}: {message}", call.workflow))?;
    let deadline = called.timeout_ms.map(|ms| turn.now.saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX)));
    turn.emit(Event::CallEntered { path: path.clone(), inputs, deadline });
    if deadline.is_some_and(|deadline| deadline <= turn.now) {
        expired(turn, path.clone());
    }
    Ok(())
}

/// The called workflow's entries are through: its outputs are the entry's value.
pub(crate) fn leave(turn: &mut Turn<'_>, frame: &Path) {
    let program = Arc::clone(&turn.run.program);
    let Some(workflow) = turn.run.frames.get(frame).and_then(|frame| frame.workflow.clone()) else { return };
    match turn.fill(&program.definition(Some(&workflow)).outputs, frame) {
        Ok(outputs) => turn.emit(Event::CallCompleted { path: frame.clone(), outputs }),
        Err(message) => {
            // It happened inside the called workflow: the calling entry's policies see it.
            let failure = Failure::orchestration(format!("outputs of {workflow}: {message}"));
            fail_entry(turn, frame, frame, &failure);
        }
    }
}

/// The called workflow's own timeout is over.
pub(crate) fn expired(turn: &mut Turn<'_>, path: Path) {
    let cause = turn.run.last_error(&path).cloned();
    let mut error = RunError::of_run(Outcome::DeadlineExceeded, "deadline_exceeded", "the called workflow's timeout is over", cause);
    error.step = Some(path.last().to_owned());
    error.path = Some(path.clone());
    turn.emit(Event::ContainerStopped { path, error });
}

/// Ends the innermost workflow around `frame` with these outputs.
pub(crate) fn enter_return(turn: &mut Turn<'_>, frame: &Path, outputs: &Template) -> Result<(), String> {
    let outputs = turn.fill(outputs, frame)?;
    if !outputs.is_object() {
        return Err(format!("return takes a map of outputs, this is {}", described(&outputs)));
    }
    match turn.run.callee_around(frame) {
        Some(path) => turn.emit(Event::CallCompleted { path, outputs }),
        None => turn.emit(Event::Succeeded { outputs }),
    }
    Ok(())
}

fn fail_entry(turn: &mut Turn<'_>, frame: &Path, path: &Path, failure: &Failure) {
    let error = RunError::of_entry(path, path.last(), None, failure);
    super::fail(turn, frame, error);
}

impl Run {
    /// How many called workflows `frame` lies in.
    fn depth(&self, frame: &Path) -> usize {
        self.frames_around(frame).filter(|(_, role)| **role == Role::Callee).count() + 1
    }

    /// The frame of the innermost called workflow around `frame`; its path is the calling entry's.
    fn callee_around(&self, frame: &Path) -> Option<Path> {
        self.frames_around(frame).find(|(_, role)| **role == Role::Callee).map(|(path, _)| path.clone())
    }

    /// The frame at `path` and those around it, innermost first.
    fn frames_around<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a Path, &'a Role)> {
        let mut next = Some(path);
        std::iter::from_fn(move || {
            let path = next?;
            let frame = self.frames.get(path)?;
            next = frame.parent.as_ref();
            Some((path, &frame.role))
        })
    }
}
