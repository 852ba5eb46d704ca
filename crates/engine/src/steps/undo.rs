//! `compensate`: undoes what the named entries did, as part of the flow.

use crate::ir::{Definition, Op, RegionId};
use crate::journal::{Event, Undone};
use crate::path::Path;
use crate::policies::compensate;
use crate::run::{EntryUndo, FrameState, Role, Run, Standing};
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, ids: &[String]) -> Result<(), String> {
    let mut targets = Vec::with_capacity(ids.len());
    let mut effects = Vec::new();
    for id in ids {
        let Some(target) = turn.run.entry_in_scope(frame, id) else { return Err(format!("compensate: there is no entry {id} before this one")) };
        let tried = |effect: &Path| turn.run.ledger.effect(effect).is_some_and(|effect| effect.may_be_undone_again());
        let wanted = |standing| matches!(standing, Standing::Completed | Standing::CompensationFailed);
        let undoable = turn.run.ledger.undoable(&target, wanted);
        let undoable =
            undoable.into_iter().filter(|effect| turn.run.ledger.effect(effect).is_some_and(|known| known.standing == Standing::Completed) || tried(effect));
        // What another entry is about to undo is left to it.
        effects.extend(undoable.filter(|effect| !turn.run.undo_jobs.contains_key(effect)));
        targets.push((id.clone(), target));
    }
    let order = |effect: &Path| turn.run.ledger.effect(effect).map(|effect| std::cmp::Reverse(effect.order));
    effects.sort_by_key(order);
    effects.dedup();
    turn.emit(Event::CompensateEntered { path: path.clone(), targets, effects });
    Ok(())
}

/// The next effect, or the end.
pub(crate) fn step(turn: &mut Turn<'_>, frame: &Path, path: Path) {
    let Some(FrameState::Undoing(_, undo)) = turn.run.frames.get(frame).map(|frame| &frame.state) else { return };
    match undo.undoing.queue.front().cloned() {
        Some(effect) => compensate::begin(turn, effect),
        None => {
            let outcomes = outcomes(turn.run, undo);
            turn.emit(Event::CompensateCompleted { path, outcomes });
        }
    }
}

/// What came of each entry that was named: the worst of its effects.
fn outcomes(run: &Run, undo: &EntryUndo) -> Vec<(String, Undone)> {
    let of = |target: &Path| {
        let now = undo.outcomes.iter().filter(|(path, _)| *path == target || path.is_inside(target)).map(|(_, outcome)| *outcome);
        let before = |wanted, outcome| run.ledger.undoable(target, move |standing| standing == wanted).into_iter().map(move |_| outcome);
        let before = before(Standing::Irreversible, Undone::Irreversible).chain(before(Standing::CompensationFailed, Undone::CompensationFailed));
        now.chain(before).max().unwrap_or(Undone::Skip)
    };
    undo.targets.iter().map(|(id, target)| (id.clone(), of(target))).collect()
}

impl Run {
    /// The path of the entry `id` as the frame at `frame` sees it: in its own region or in one around it, in the same workflow,
    /// or in a branch of a `parallel` there, whose entries are seen once it is through.
    fn entry_in_scope(&self, frame: &Path, id: &str) -> Option<Path> {
        let mut at = frame.clone();
        loop {
            let current = self.frames.get(&at)?;
            let definition = self.program.definition(current.workflow.as_deref());
            if let Some(found) = entry_within(definition, current.region, &at, id) {
                return Some(found);
            }
            if current.role == Role::Callee {
                return None;
            }
            at = current.parent.clone()?;
        }
    }
}

fn entry_within(definition: &Definition, region: RegionId, at: &Path, id: &str) -> Option<Path> {
    let nodes = &definition.regions.get(region)?.nodes;
    if nodes.iter().any(|node| node.id == id) {
        return Some(at.child(id));
    }
    nodes.iter().find_map(|node| {
        let Op::Parallel(parallel) = &node.op else { return None };
        let inner = at.child(&node.id);
        parallel.branches.iter().find_map(|branch| entry_within(definition, branch.body, &inner.child(&branch.name), id))
    })
}
