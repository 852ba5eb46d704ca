//! Liveness: every run that has not ended has somebody or some time that moves it on, and its status says which.

use viat_engine::journal::{Batch, Event};
use viat_engine::path::Path;
use viat_engine::{Outstanding, Run, Status, outstanding};

use crate::sound::is_inside;

/// `waiting` and `needs_attention` mean that nothing runs, queues, waits to be tried again or can move by itself; `running`
/// and `compensating` that something does.
///
/// # Errors
/// The status and what is owed, if they contradict each other.
pub fn status_says_what_is_owed(run: &Run) -> Result<(), String> {
    let owed = outstanding(run);
    let busy = owed.more || !owed.running.is_empty() || !owed.attempts.is_empty();
    match run.status {
        Status::Waiting | Status::NeedsAttention if busy => Err(format!("the run is {}, yet it is owed {owed:?}", run.status.name())),
        Status::Running | Status::Compensating if !busy => Err(format!("the run is {}, yet nothing of it is", run.status.name())),
        _ => Ok(()),
    }
}

/// Nothing will ever move the run: that is right if it has ended, if it waits for an event or a review that has no timeout,
/// or if a person has to say what came of an attempt.
///
/// # Errors
/// The run hangs.
pub fn at_rest(run: &Run, journal: &[Batch], owed: &Outstanding) -> Result<(), String> {
    let open = Open::after(journal);
    let rests = match run.status {
        Status::Succeeded | Status::Failed | Status::Cancelled => true,
        Status::Waiting => !open.timeless.is_empty() && open.attention.is_empty(),
        Status::NeedsAttention => !open.attention.is_empty(),
        Status::Queued | Status::Running | Status::Compensating => false,
    };
    if rests { Ok(()) } else { Err(format!("the run is {} and nothing will ever move it; it is owed {owed:?}", run.status.name())) }
}

/// An entry about which a person has to say something.
pub fn asking(journal: &[Batch]) -> Option<&Path> {
    Open::after(journal).attention.first().copied()
}

/// Who only a person or an event moves on.
#[derive(Default)]
struct Open<'a> {
    /// Waits for an event and reviews, without a timeout, that took none and are not decided.
    timeless: Vec<&'a Path>,
    /// Entries that wait to be settled.
    attention: Vec<&'a Path>,
}

impl<'a> Open<'a> {
    fn after(journal: &'a [Batch]) -> Open<'a> {
        let mut open = Open::default();
        for event in journal.iter().flat_map(|batch| &batch.events) {
            match event {
                Event::WaitEntered { path, due: None, event: Some(_) } => open.timeless.push(path),
                Event::ReviewRequested { path, review } if review.due.is_none() => open.timeless.push(path),
                Event::EventTaken { path, .. } | Event::ReviewDecided { path, .. } | Event::ReviewExtended { path, due: Some(_), .. } => {
                    open.timeless.retain(|wait| *wait != path);
                }
                Event::AttentionNeeded { path, .. } => open.attention.push(path),
                Event::Settled { path, .. } => open.attention.retain(|asks| *asks != path),
                Event::ContainerStopped { path, .. } => {
                    open.timeless.retain(|wait| !is_inside(wait.as_str(), path.as_str()));
                    open.attention.retain(|asks| !is_inside(asks.as_str(), path.as_str()));
                }
                Event::Resumed { .. } | Event::Migrated { .. } | Event::CancelRequested { .. } | Event::DeadlineExceeded { .. } => open = Open::default(),
                _ => {}
            }
        }
        open
    }
}
