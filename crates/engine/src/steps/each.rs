//! `loop`: a region again and again, over a list or while a condition holds.

use serde_json::{Value, json};

use crate::expression::Scope;
use crate::failure::{Failure, RunError};
use crate::ir::{Loop, Op, Source, Template};
use crate::journal::Event;
use crate::path::Path;
use crate::run::Inside;
use crate::template::{self, described};
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, looped: &Loop) -> Result<(), String> {
    let items = match &looped.source {
        Source::While(_) => None,
        Source::Over { list, .. } => match turn.fill(list, frame)? {
            Value::Array(items) if items.len() > looped.max_iterations => {
                return Err(format!("the list has {} items, max_iterations is {}", items.len(), looped.max_iterations));
            }
            Value::Array(items) => Some(items),
            other => return Err(format!("over must be a list, it is {}", described(&other))),
        },
    };
    turn.emit(Event::LoopEntered { path: path.clone(), items });
    Ok(())
}

/// Starts the next iteration, or ends.
pub(crate) fn step(turn: &mut Turn<'_>, frame: &Path, path: &Path, looped: &Loop) {
    let Some(Inside::Loop(state)) = turn.run.container_at(path).map(|container| &container.inside) else { return };
    let index = state.next;
    let goes_on = match (&looped.source, &state.items) {
        (Source::While(condition), _) => holds(turn, frame, condition, index).and_then(|holds| match holds {
            true if index >= looped.max_iterations => Err(format!("the condition still holds after max_iterations ({index})")),
            holds => Ok(holds),
        }),
        (Source::Over { .. }, items) => Ok(items.as_ref().is_some_and(|items| index < items.len())),
    };
    match goes_on {
        Ok(true) => turn.emit(Event::IterationStarted { path: path.clone(), index }),
        Ok(false) => turn.emit(Event::ContainerCompleted { path: path.clone() }),
        Err(message) => {
            let error = RunError::of_entry(path, path.last(), None, &Failure::orchestration(message));
            turn.emit(Event::EntryFailed { path: path.clone(), error });
        }
    }
}

pub(crate) fn iteration_failed(turn: &mut Turn<'_>, path: Path, index: usize, error: RunError) {
    turn.emit(Event::IterationFailed { path: path.clone(), index, error: error.clone() });
    let Some(Inside::Loop(state)) = turn.run.container_at(&path).map(|container| &container.inside) else { return };
    let failed = state.failures.len();
    let tolerated = match turn.run.entry(&path).map(|node| &node.op) {
        Some(Op::Loop(looped)) => looped.max_failures,
        _ => 0,
    };
    if failed > tolerated {
        turn.emit(Event::ContainerStopped { path, error });
    }
}

fn holds(turn: &Turn<'_>, frame: &Path, condition: &Template, index: usize) -> Result<bool, String> {
    let around = turn.run.scope(frame);
    let scope = WhileScope { around: &around, iteration: json!({ "index": index }) };
    template::condition(condition, &scope, turn.evaluator)
}

/// What a `while` condition sees: the loop's surroundings and the index of the iteration that would be next.
struct WhileScope<'a> {
    around: &'a dyn Scope,
    iteration: Value,
}

impl Scope for WhileScope<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == "iteration" { Some(&self.iteration) } else { self.around.get(name) }
    }
}
