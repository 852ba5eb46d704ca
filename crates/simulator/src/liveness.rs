//! Liveness: every run that has not ended has somebody or some time that moves it on, and its status says which.

use viat_engine::journal::{Batch, Event};
use viat_engine::{Outstanding, Run, Status, outstanding};

/// `waiting` means that nothing runs, queues, waits to be tried again or can move by itself; `running` that something does.
///
/// # Errors
/// The status and what is owed, if they contradict each other.
pub fn status_says_what_is_owed(run: &Run) -> Result<(), String> {
    let owed = outstanding(run);
    let busy = owed.more || !owed.running.is_empty() || !owed.attempts.is_empty();
    match run.status {
        Status::Waiting if busy => Err(format!("the run is waiting, yet it is owed {owed:?}")),
        Status::Running if !busy => Err("the run is running, yet nothing of it is".to_owned()),
        _ => Ok(()),
    }
}

/// Nothing will ever move the run: that is right if it has ended, or if it waits for an event that has no timeout.
///
/// # Errors
/// The run hangs.
pub fn at_rest(run: &Run, journal: &[Batch], owed: &Outstanding) -> Result<(), String> {
    if run.status.is_terminal() || (run.status == Status::Waiting && waits_for_an_event(journal)) {
        return Ok(());
    }
    Err(format!("the run is {} and nothing will ever move it; it is owed {owed:?}", run.status.name()))
}

/// Whether the journal has a wait for an event, without a timeout, that took none yet.
fn waits_for_an_event(journal: &[Batch]) -> bool {
    let mut waits = Vec::new();
    for event in journal.iter().flat_map(|batch| &batch.events) {
        match event {
            Event::WaitEntered { path, due: None, event: Some(_) } => waits.push(path),
            Event::EventTaken { path, .. } => waits.retain(|wait| *wait != path),
            _ => {}
        }
    }
    !waits.is_empty()
}
