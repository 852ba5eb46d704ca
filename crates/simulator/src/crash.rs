//! Crash everywhere: the engine dies after every batch of a case's journal, and the run must end the same, or exactly
//! as the specification says of the attempts that were in flight.

use std::collections::BTreeSet;

use viat_engine::expression::Evaluate;
use viat_engine::journal::{Batch, Event};
use viat_engine::path::Path;
use viat_engine::policies::interrupt;

use crate::case::Case;
use crate::trace::trace;
use crate::world::{Crash, World};

/// Runs a case once for every batch of its journal, dying after it.
///
/// # Errors
/// The first crash after which the run did not end as it must, with its trace.
pub fn everywhere(case: &Case, evaluator: &dyn Evaluate, down_ms: i64) -> Result<usize, String> {
    let mut baseline = World::new(case, evaluator);
    baseline.play(None)?;
    let batches = baseline.journal.len();
    for after_batches in 1..=batches {
        let mut world = World::new(case, evaluator);
        world.play(Some(Crash { after_batches, down_ms })).map_err(|problem| format!("crash after batch {after_batches}: {problem}"))?;
        let problem = check(&baseline.journal, &world.journal, down_ms);
        problem.map_err(|problem| format!("crash after batch {after_batches}: {problem}\n{}", trace(&world.journal)))?;
    }
    Ok(batches)
}

fn check(baseline: &[Batch], crashed: &[Batch], down_ms: i64) -> Result<(), String> {
    nothing_done_runs_again(crashed)?;
    let interrupted = interrupted(crashed);
    let same_end = end(baseline) == end(crashed);
    if same_end || (!interrupted.is_empty() && ends_by_interruption(crashed)) {
        return Ok(());
    }
    // A wall-clock deadline may pass, and a wait may be cut short, while no engine is up: that is no fault.
    if down_ms > 0 {
        return Ok(());
    }
    Err(format!("it should end with {:?}, it ended with {:?}", end(baseline), end(crashed)))
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

fn interrupted(journal: &[Batch]) -> Vec<&Path> {
    let events = journal.iter().flat_map(|batch| &batch.events);
    let found = events.filter_map(|event| match event {
        Event::AttemptFailed { path, failure, .. } if failure.code == interrupt::CODE => Some(path),
        Event::AttemptCancelled { path, .. } => Some(path),
        _ => None,
    });
    found.collect()
}

/// Whether an interrupted attempt, or the policy of its entry, decided how the run ended.
fn ends_by_interruption(journal: &[Batch]) -> bool {
    let stopped = |event: &Event| matches!(event, Event::AttemptFailed { failure, decision, .. } if failure.code == interrupt::CODE && decision.retry_wait_ms().is_none());
    let used_up = |event: &Event| matches!(event, Event::AttemptFailed { decision, .. } if decision.retry_wait_ms().is_none());
    journal.iter().flat_map(|batch| &batch.events).any(|event| stopped(event) || used_up(event))
}

fn end(journal: &[Batch]) -> Option<String> {
    let last = journal.iter().flat_map(|batch| &batch.events).next_back()?;
    match last {
        Event::Succeeded { outputs } => Some(format!("succeeded {outputs}")),
        Event::Failed { error } => Some(format!("failed {}", error.code)),
        Event::Cancelled { .. } => Some("cancelled".to_owned()),
        _ => None,
    }
}
