//! Migration: a run that is stopped or waits is moved to another version of its workflow, if that keeps what is complete.

use std::sync::Arc;

use crate::decide::Rejection;
use crate::ir::{Node, Op, RegionId};
use crate::journal::Event;
use crate::path::Path;
use crate::policies::recover::Recovery;
use crate::run::{Program, Status};
use crate::turn::Turn;

pub(crate) fn request(turn: &mut Turn<'_>, version: u64, revision: u64, program: Arc<Program>, reason: String, by: Option<String>) -> Result<(), Rejection> {
    let refused = |why: String| Err(Rejection::Refused(why));
    match turn.run.status {
        Status::Failed | Status::Waiting => {}
        Status::Succeeded | Status::Cancelled => return refused(format!("the run {}: only a failed or a waiting run is migrated", turn.run.status.name())),
        Status::NeedsAttention => return refused("a person has to say what came of an attempt first: viat run settle".to_owned()),
        Status::Queued | Status::Running | Status::Compensating => {
            return refused(format!("the run is {}: only a failed or a waiting run is migrated", turn.run.status.name()));
        }
    }
    if reason.trim().is_empty() {
        return refused("a migration needs a reason".to_owned());
    }
    let (old, new) = (&turn.run.program, &program);
    let waiting: Vec<Path> = turn.run.waits().map(|(path, _)| path).collect();
    let relied_on = turn.run.ledger.remembered().chain(&waiting);
    let changed: Vec<&str> = relied_on.filter(|path| !is_kept(old, new, path)).map(Path::as_str).collect();
    if !changed.is_empty() {
        let listed = changed.join(", ");
        return refused(format!("version {version} does not have these as they were when they were done: {listed}"));
    }
    turn.run.next_program = Some(program);
    turn.emit(Event::Migrated { version, revision, reason, by });
    Ok(())
}

fn is_kept(old: &Program, new: &Program, path: &Path) -> bool {
    match (find(old, path), find(new, path)) {
        (Some(before), Some(now)) => does_the_same(before, now),
        _ => false,
    }
}

/// Whether two entries mean the same to whoever relies on what one of them came to. How a failure would be retried is no part of it.
fn does_the_same(before: &Node, now: &Node) -> bool {
    match (&before.op, &now.op) {
        // What a loop runs over and what it does is in its own entries.
        (Op::Loop(before), Op::Loop(now)) => before.source == now.source,
        (before, now) => before == now,
    }
}

/// The node at `path`, found by its ids alone.
fn find<'a>(program: &'a Program, path: &Path) -> Option<&'a Node> {
    let mut segments = path.as_str().split('.').peekable();
    let (mut workflow, mut regions): (Option<String>, Vec<RegionId>) = (None, vec![program.main.root]);
    loop {
        let id = without_index(segments.next()?);
        let definition = program.definition(workflow.as_deref());
        let node = regions.iter().filter_map(|region| definition.regions.get(*region)).flat_map(|region| &region.nodes).find(|node| node.id == id)?;
        if segments.peek().is_none() {
            return Some(node);
        }
        regions = match &node.op {
            Op::Parallel(parallel) => {
                let name = segments.next()?;
                parallel.branches.iter().filter(|branch| branch.name == name).map(|branch| branch.body).collect()
            }
            Op::Call(call) => {
                let key = call.key();
                let root = program.called.get(&key)?.root;
                workflow = Some(key);
                vec![root]
            }
            op => crate::check::inner_regions(op).into_iter().chain(recoveries(node)).collect(),
        };
    }
}

fn recoveries(node: &Node) -> impl Iterator<Item = RegionId> {
    node.policy.recover.iter().filter_map(|rule| match rule.then {
        Recovery::Catch(region) => Some(region),
        Recovery::Continue => None,
    })
}

fn without_index(segment: &str) -> &str {
    segment.find('[').map_or(segment, |at| &segment[..at])
}
