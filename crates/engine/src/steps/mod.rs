//! What each kind of entry does when it is reached and when it ends; one file per kind.

pub mod call;
pub mod choice;
pub mod each;
pub mod fail;
pub mod parallel;
pub mod review;
pub mod script;
pub mod set;
pub mod undo;
pub mod wait;

use std::sync::Arc;

use serde_json::Value;

use crate::failure::{Failure, Outcome, RunError};
use crate::ir::Op;
use crate::journal::{Ending, Event};
use crate::path::Path;
use crate::policies::{compensate, recover, resume};
use crate::run::{FrameState, Inside, Phase, Role};
use crate::turn::Turn;

/// What a movable frame is about to do.
enum Move {
    Enter,
    Recover(RunError),
    Container,
    Undo,
    Leave,
}

/// Moves one frame by one step.
pub(crate) fn step(turn: &mut Turn<'_>, frame_path: &Path) {
    let Some(frame) = turn.run.frames.get(frame_path) else { return };
    let next = match &frame.state {
        FrameState::At(_) => Move::Enter,
        FrameState::Script(_, script) => match &script.phase {
            Phase::Exhausted(error) => Move::Recover(error.clone()),
            Phase::Due { .. } | Phase::InFlight { .. } | Phase::Resolving(..) | Phase::Attention(_) => return,
        },
        FrameState::Broken(_, error) => Move::Recover(error.clone()),
        FrameState::Inside(..) => Move::Container,
        FrameState::Undoing(..) => Move::Undo,
        FrameState::Done(_) => Move::Leave,
        FrameState::Waiting(..) => return,
    };
    let program = Arc::clone(&turn.run.program);
    let node = frame.state.node_number().and_then(|number| program.node(frame.workflow.as_deref(), frame.region, number));
    let Some(node) = node else {
        // Through, or an empty region.
        return leave(turn, frame_path);
    };
    let path = frame_path.child(&node.id);
    match next {
        Move::Recover(error) => recover::entry(turn, frame_path, path, &node.policy.recover, error),
        Move::Container => container(turn, frame_path, &path, &node.op),
        Move::Leave => leave(turn, frame_path),
        Move::Undo => undo::step(turn, frame_path, path),
        Move::Enter => {
            if let Some(event) = resume::remembered(turn, &path) {
                return turn.emit(event);
            }
            if let Err(message) = enter(turn, frame_path, &path, &node.op) {
                // Evaluation comes before the attempt loop: no policy of the entry sees its failure.
                let error = RunError::of_entry(&path, &node.id, None, &Failure::orchestration(message));
                fail(turn, frame_path, error);
            }
        }
    }
}

fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, op: &Op) -> Result<(), String> {
    match op {
        Op::Script(script) => script::enter(turn, frame, path, script),
        Op::Choice(choice) => choice::enter(turn, frame, path, choice),
        Op::Set(value) => set::enter(turn, frame, path, value),
        Op::Parallel(_) => parallel::enter(turn, path),
        Op::Loop(looped) => each::enter(turn, frame, path, looped),
        Op::Call(call) => call::enter(turn, frame, path, call),
        Op::Wait(wait) => wait::enter(turn, frame, path, wait),
        Op::Fail(refusal) => fail::enter(turn, frame, path, refusal),
        Op::Return(outputs) => call::enter_return(turn, frame, outputs),
        Op::Review(review) => review::enter(turn, frame, path, review),
        Op::Compensate(ids) => undo::enter(turn, frame, path, ids),
    }
}

/// A container can start something, is through, or has been stopped and nothing inside it runs.
fn container(turn: &mut Turn<'_>, frame: &Path, path: &Path, op: &Op) {
    let Some(container) = turn.run.container_at(path) else { return };
    if let Some(error) = container.stopped.clone() {
        return turn.emit(Event::EntryFailed { path: path.clone(), error });
    }
    match (&container.inside, op) {
        (Inside::Parallel(_), Op::Parallel(parallel)) => parallel::step(turn, path, parallel),
        (Inside::Loop(_), Op::Loop(looped)) => each::step(turn, frame, path, looped),
        _ => {}
    }
}

/// A frame is through: its owner takes the value.
fn leave(turn: &mut Turn<'_>, frame: &Path) {
    let Some(role) = turn.run.frames.get(frame).map(|frame| frame.role.clone()) else { return };
    match role {
        Role::Root => succeed(turn),
        Role::Arm | Role::Catch(_) => turn.emit(Event::RegionCompleted { path: frame.clone() }),
        Role::Branch { owner, branch } => turn.emit(Event::BranchCompleted { path: owner, branch }),
        Role::Iteration { owner, index } => turn.emit(Event::IterationCompleted { path: owner, index }),
        Role::Callee => call::leave(turn, frame),
    }
}

fn succeed(turn: &mut Turn<'_>) {
    let program = Arc::clone(&turn.run.program);
    match turn.fill(&program.main.outputs, &Path::root()) {
        Ok(outputs) => turn.emit(Event::Succeeded { outputs }),
        Err(message) => {
            let failure = Failure::orchestration(format!("outputs: {message}"));
            let error = RunError::of_run(Outcome::Failed(failure.class), &failure.code, failure.message, None);
            compensate::conclude(turn, Ending::Failed, error);
        }
    }
}

/// An entry of the frame at `frame` failed for good: the failure goes outwards, to the first thing that has a say in it.
pub(crate) fn fail(turn: &mut Turn<'_>, frame: &Path, mut error: RunError) {
    let mut current = frame.clone();
    loop {
        let Some(frame) = turn.run.frames.get(&current) else { return };
        let (role, parent) = (frame.role.clone(), frame.parent.clone());
        match (role, parent) {
            (Role::Branch { owner, branch }, _) => return parallel::branch_failed(turn, owner, branch, error),
            (Role::Iteration { owner, index }, _) => return each::iteration_failed(turn, owner, index, error),
            (Role::Root, _) | (_, None) => return compensate::conclude(turn, Ending::Failed, error),
            (Role::Catch(first), Some(parent)) => {
                error = error.caused_by(first);
                current = parent;
            }
            (Role::Arm | Role::Callee, Some(parent)) => {
                if turn.run.entry(&current).is_some_and(|node| !node.policy.recover.is_empty()) {
                    return turn.emit(Event::EntryFailed { path: current, error });
                }
                current = parent;
            }
        }
    }
}

/// Whatever is due by now happens: waits end, called workflows run out of their budgets.
pub(crate) fn expire(turn: &mut Turn<'_>) {
    if turn.run.stopping.is_some() {
        return;
    }
    compensate::expire(turn);
    let now = turn.now;
    let due = turn.run.timed.by(now).into_iter().filter_map(|frame_path| {
        let frame = turn.run.frames.get(&frame_path)?;
        Some(frame_path.child(&turn.run.node(frame, frame.state.node_number()?)?.id))
    });
    for path in due.collect::<Vec<_>>() {
        match turn.run.frames.get(&path.parent()).map(|frame| &frame.state) {
            Some(FrameState::Waiting(_, wait)) if wait.review.is_some() => review::expire(turn, path),
            Some(FrameState::Waiting(..)) => turn.emit(Event::Completed { path, output: Value::Null }),
            Some(FrameState::Inside(..)) => call::expired(turn, path),
            _ => {}
        }
    }
}
