//! `parallel`: branches side by side.

use serde_json::{Map, Value, json};

use crate::failure::RunError;
use crate::ir::{OnFailure, Op, Parallel};
use crate::journal::Event;
use crate::path::Path;
use crate::run::Inside;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, path: &Path) -> Result<(), String> {
    turn.emit(Event::ParallelEntered { path: path.clone() });
    Ok(())
}

/// Starts the next branch, or ends.
pub(crate) fn step(turn: &mut Turn<'_>, path: &Path, parallel: &Parallel) {
    let Some(Inside::Parallel(state)) = turn.run.container_at(path).map(|container| &container.inside) else { return };
    if state.next < parallel.branches.len() {
        let branch = state.next;
        return turn.emit(Event::BranchStarted { path: path.clone(), branch });
    }
    match state.failures.split_first() {
        None => turn.emit(Event::ContainerCompleted { path: path.clone() }),
        Some((first, others)) => {
            let error = with_others(first.clone(), others);
            turn.emit(Event::EntryFailed { path: path.clone(), error });
        }
    }
}

pub(crate) fn branch_failed(turn: &mut Turn<'_>, path: Path, branch: usize, error: RunError) {
    turn.emit(Event::BranchFailed { path: path.clone(), branch, error: error.clone() });
    let cancels = matches!(turn.run.entry(&path).map(|node| &node.op), Some(Op::Parallel(parallel)) if parallel.on_failure == OnFailure::Cancel);
    if cancels {
        turn.emit(Event::ContainerStopped { path, error });
    }
}

/// The first failure, with the others listed in `extra.also`.
fn with_others(mut error: RunError, others: &[RunError]) -> RunError {
    if others.is_empty() {
        return error;
    }
    let also: Vec<Value> = others.iter().map(|other| json!(other)).collect();
    let mut extra = match error.extra.take() {
        Some(Value::Object(map)) => map,
        Some(other) => Map::from_iter([("extra".to_owned(), other)]),
        None => Map::new(),
    };
    extra.insert("also".into(), Value::Array(also));
    error.extra = Some(Value::Object(extra));
    error
}
