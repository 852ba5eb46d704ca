//! Cancellation, and how a run that must stop winds down. It is sticky: no policy sees it.

use crate::failure::{Outcome, RunError};
use crate::journal::{Ending, Event};
use crate::path::Path;
use crate::policies::compensate;
use crate::run::Stopping;
use crate::turn::Turn;

/// Records a request to cancel; a second one changes nothing.
pub(crate) fn request(turn: &mut Turn<'_>, by: Option<String>, reason: Option<String>) {
    let told = turn.run.undo.as_ref().is_some_and(|undo| undo.outcome == Ending::Cancelled);
    if turn.run.stopping.is_none() && !told {
        turn.emit(Event::CancelRequested { by, reason });
    }
}

/// Ends a stopping run once nothing of it is in flight; until then the world owes it those attempts' ends.
pub(crate) fn wind_down(turn: &mut Turn<'_>) {
    match turn.run.stopping.clone() {
        None => {}
        Some(Stopping::Cancel { message }) => {
            compensate::conclude(turn, Ending::Cancelled, RunError::of_run(Outcome::Cancelled, "cancelled", message, None));
        }
        Some(Stopping::Deadline { message }) => {
            let cause = turn.run.last_error(&Path::root()).cloned();
            compensate::conclude(turn, Ending::Failed, RunError::of_run(Outcome::DeadlineExceeded, "deadline_exceeded", message, cause));
        }
    }
}
