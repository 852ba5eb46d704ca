//! What each kind of entry does when it is reached and when it ends; one file per kind.

pub mod choice;
pub mod script;
pub mod set;

use crate::failure::{Failure, RunError};
use crate::ir::Op;
use crate::journal::Event;
use crate::path::Path;
use crate::policies::recover;
use crate::run::{FrameState, Phase, Role};
use crate::turn::Turn;

/// Moves one frame by one step.
pub(crate) fn step(turn: &mut Turn<'_>, frame: &Path) {
    let Some(state) = turn.run.frames.get(frame).map(|frame| frame.state.clone()) else { return };
    match state {
        FrameState::At(number) => enter(turn, frame, number),
        FrameState::Script(number, script) => {
            if let Phase::Exhausted(error) = script.phase {
                recover::entry(turn, frame, number, error);
            }
        }
        FrameState::Done(value) => leave(turn, frame, value),
        FrameState::Inside(_) => {}
    }
}

fn enter(turn: &mut Turn<'_>, frame: &Path, number: usize) {
    let Some(node) = turn.node(frame, number) else {
        // An empty region: its value is null.
        return leave(turn, frame, serde_json::Value::Null);
    };
    let path = frame.child(&node.id);
    let entered = match &node.op {
        Op::Script(script) => script::enter(turn, frame, &path, script),
        Op::Choice(choice) => choice::enter(turn, frame, &path, choice),
        Op::Set(value) => set::enter(turn, frame, &path, value),
    };
    if let Err(failure) = entered {
        // Evaluation comes before the attempt loop: no policy of the entry sees its failure.
        fail(turn, frame, RunError::of_entry(&path, &node.id, None, &failure));
    }
}

/// A frame is through: its owner takes the value.
fn leave(turn: &mut Turn<'_>, frame: &Path, value: serde_json::Value) {
    let Some(role) = turn.run.frames.get(frame).map(|frame| frame.role.clone()) else { return };
    match role {
        Role::Root => succeed(turn),
        Role::Arm | Role::Catch(_) => turn.emit(Event::Completed { path: frame.clone(), output: value }),
    }
}

fn succeed(turn: &mut Turn<'_>) {
    let outputs = turn.run.definition.outputs.clone();
    match turn.fill(&outputs, &Path::root()) {
        Ok(outputs) => turn.emit(Event::Succeeded { outputs }),
        Err(Failure { message, class, code, .. }) => {
            let error = RunError::of_run(crate::failure::Outcome::Failed(class), &code, format!("outputs: {message}"), None);
            turn.emit(Event::Failed { error });
        }
    }
}

/// An entry of the frame at `frame` failed for good: the failure goes outwards.
pub(crate) fn fail(turn: &mut Turn<'_>, frame: &Path, mut error: RunError) {
    let mut current = Some(frame.clone());
    while let Some(path) = current {
        let Some(frame) = turn.run.frames.get(&path) else { break };
        if let Role::Catch(first) = &frame.role {
            error = error.caused_by(first.clone());
        }
        current = frame.parent.clone();
    }
    turn.emit(Event::Failed { error });
}
