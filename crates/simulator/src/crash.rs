//! Crash everywhere: the engine dies after every batch of a case's journal, and the run must end the same, or exactly
//! as the specification says of the attempts that were in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use viat_engine::expression::Evaluate;
use viat_engine::ir::Node;
use viat_engine::journal::{Batch, Event};
use viat_engine::path::Path;
use viat_engine::policies::interrupt;
use viat_engine::policies::retry::Reason;
use viat_engine::{Op, Program};

use crate::case::Case;
use crate::setup::Crash;
use crate::trace::trace;
use crate::world::World;

/// The engine's bound of one decision.
const MAX_EVENTS: usize = 1_000;

/// Runs a case once for every batch of its journal, dying after it.
///
/// # Errors
/// The first crash after which the run did not go on as it must, with its trace.
pub fn everywhere(case: &Case, evaluator: &dyn Evaluate, down_ms: i64) -> Result<usize, String> {
    let mut baseline = case.world(evaluator);
    baseline.play(&[])?;
    let batches = baseline.journal.len();
    for after_batches in 1..=batches {
        let mut world = case.world(evaluator);
        let played = world.play(&[Crash { after_batches, down_ms }]);
        let problem = played.and_then(|()| {
            sound(&world, &case.program)?;
            if down_ms == 0 { same_unless_interrupted(&baseline, &world) } else { Ok(()) }
        });
        problem.map_err(|problem| format!("crash after batch {after_batches}, {down_ms} ms down: {problem}\n{}", trace(&world)))?;
    }
    Ok(batches)
}

/// What holds of every journal, however often the engine died.
///
/// # Errors
/// What does not hold.
pub fn sound(world: &World<'_>, program: &Arc<Program>) -> Result<(), String> {
    nothing_done_runs_again(&world.journal)?;
    interruptions_follow_the_policy(&world.journal, program)?;
    let loaded = world.loaded()?;
    if loaded != world.run {
        return Err("the run that the journal tells of is not the run in memory".to_owned());
    }
    Ok(())
}

/// No attempt of an entry starts once the entry is complete.
fn nothing_done_runs_again(journal: &[Batch]) -> Result<(), String> {
    let mut done: BTreeSet<&Path> = BTreeSet::new();
    for event in journal.iter().flat_map(|batch| &batch.events) {
        match event {
            Event::AttemptSucceeded { path, .. } | Event::Continued { path, .. } => {
                done.insert(path);
            }
            Event::AttemptStarted { path, .. } if done.contains(path) => return Err(format!("{path} ran again although it was complete")),
            _ => {}
        }
    }
    Ok(())
}

/// An interrupted attempt is tried again if and only if its author gave leave.
fn interruptions_follow_the_policy(journal: &[Batch], program: &Program) -> Result<(), String> {
    let mut reruns: BTreeMap<&Path, u32> = BTreeMap::new();
    for event in journal.iter().flat_map(|batch| &batch.events) {
        let Event::AttemptFailed { path, attempt, failure, decision } = event else { continue };
        if failure.code != interrupt::CODE {
            continue;
        }
        let reruns = reruns.entry(path).or_default();
        let node = node(program, path.last()).ok_or_else(|| format!("{path} is no entry"))?;
        let retried = node.policy.retry.iter().any(|rule| *attempt <= rule.times);
        let idempotent = matches!(&node.op, Op::Script(script) if script.idempotent) && *reruns < interrupt::MAX_RERUNS;
        let cut_short = decision.reason() == Some(Reason::WouldOverrunDeadline);
        if decision.retry_wait_ms().is_some() {
            *reruns += 1;
        }
        if decision.retry_wait_ms().is_some() != (retried || idempotent) && !cut_short {
            return Err(format!("{path} #{attempt} was interrupted; tries left: {retried}, idempotent: {idempotent}, yet {decision:?}"));
        }
    }
    Ok(())
}

/// The entry of this id; ids are unique within a document, and cases use no id twice.
pub fn node<'a>(program: &'a Program, id: &str) -> Option<&'a Node> {
    let definitions = std::iter::once(&program.main).chain(program.called.values());
    definitions.flat_map(|definition| &definition.regions).flat_map(|region| &region.nodes).find(|node| node.id == id)
}

/// With no downtime a crash changes nothing but the attempts in flight: where there were none, the journals are equal.
fn same_unless_interrupted(baseline: &World<'_>, crashed: &World<'_>) -> Result<(), String> {
    let (before, after) = (events(&baseline.journal), events(&crashed.journal));
    let cut = after.iter().any(|event| match event {
        Event::AttemptFailed { failure, .. } => failure.code == interrupt::CODE,
        Event::AttemptCancelled { .. } => true,
        _ => false,
    });
    // A decision that stopped at its bound stops elsewhere when its first event is the take-over.
    let bounded = baseline.journal.iter().any(|batch| batch.events.len() >= MAX_EVENTS);
    let queued = |events: &[&Event]| events.iter().any(|event| matches!(event, Event::AttemptStarted { queued_ms: 1.., .. }));
    if before == after || cut || bounded || queued(&before) {
        return Ok(());
    }
    Err("nothing was in flight, yet the run went on differently".to_owned())
}

fn events(journal: &[Batch]) -> Vec<&Event> {
    journal.iter().flat_map(|batch| &batch.events).filter(|event| !matches!(event, Event::Adopted { .. })).collect()
}
