//! Cancellation, and how a run that must stop winds down. It is sticky: no policy sees it.

use crate::failure::{Outcome, RunError};
use crate::journal::Event;
use crate::path::Path;
use crate::run::Stopping;
use crate::turn::Turn;

/// Records a request to cancel; a second one changes nothing.
pub(crate) fn request(turn: &mut Turn<'_>, by: Option<String>, reason: Option<String>) {
    if turn.run.stopping.is_none() {
        turn.emit(Event::CancelRequested { by, reason });
    }
}

/// Ends a stopping run once nothing of it is in flight; until then the world owes it those attempts' ends.
pub(crate) fn wind_down(turn: &mut Turn<'_>) {
    if turn.run.has_in_flight() {
        return;
    }
    let event = match turn.run.stopping.clone() {
        None => return,
        Some(Stopping::Cancel { message }) => Event::Cancelled { error: RunError::of_run(Outcome::Cancelled, "cancelled", message, None) },
        Some(Stopping::Deadline { message }) => {
            let cause = turn.run.last_error(&Path::root()).cloned();
            Event::Failed { error: RunError::of_run(Outcome::DeadlineExceeded, "deadline_exceeded", message, cause) }
        }
    };
    turn.emit(event);
}
