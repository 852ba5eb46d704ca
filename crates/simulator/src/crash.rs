//! Crash everywhere: the engine dies after every batch of a case's journal, and the run must end the same, or exactly
//! as the specification says of the attempts that were in flight.

use viat_engine::expression::Evaluate;
use viat_engine::journal::{Batch, Event};
use viat_engine::policies::interrupt;

use crate::case::Case;
use crate::setup::Crash;
use crate::sound;
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
            sound::check(&world)?;
            if down_ms == 0 { same_unless_interrupted(&baseline, &world) } else { Ok(()) }
        });
        problem.map_err(|problem| format!("crash after batch {after_batches}, {down_ms} ms down: {problem}\n{}", trace(&world)))?;
    }
    Ok(batches)
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
