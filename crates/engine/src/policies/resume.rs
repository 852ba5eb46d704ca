//! Resume: a failed run goes on; what is complete and not undone is used again.

use crate::decide::Rejection;
use crate::journal::Event;
use crate::path::Path;
use crate::policies::deadline;
use crate::run::{Memo, Run, Standing, Status};
use crate::turn::Turn;

/// A person lets a failed run go on.
pub(crate) fn request(
    turn: &mut Turn<'_>,
    by: Option<String>,
    reason: Option<String>,
    from: Option<&str>,
    accept_repeat: Option<String>,
) -> Result<(), Rejection> {
    let refused = |why: String| Err(Rejection::Refused(why));
    match turn.run.status {
        Status::Failed => {}
        Status::Succeeded => return refused("the run succeeded: there is nothing to resume".to_owned()),
        Status::Cancelled => return refused("the run was cancelled, and stays so: start a new one".to_owned()),
        Status::Compensating => return refused("its effects are being undone; resume it when it has failed".to_owned()),
        Status::NeedsAttention => return refused("a person has to say what came of an attempt first: viat run settle".to_owned()),
        Status::Queued | Status::Running | Status::Waiting => return refused("the run has not ended: it goes on by itself".to_owned()),
    }
    let from = from.map(|from| start(turn.run, from, accept_repeat.is_some())).transpose()?;
    if accept_repeat.is_none() {
        refuse_perhaps_undone(turn.run)?;
    }
    let deadline = turn.run.deadline.map(|deadline| turn.now.saturating_add(deadline.saturating_sub(turn.run.budget_since)));
    turn.emit(Event::Resumed { by, reason, from, accept_repeat, deadline });
    // A budget of nothing is over at once, as it was the first time.
    deadline::check(turn);
    Ok(())
}

/// What was perhaps undone is not used unseen.
fn refuse_perhaps_undone(run: &Run) -> Result<(), Rejection> {
    let perhaps: Vec<&str> = run.ledger.perhaps_undone().map(Path::as_str).collect();
    if perhaps.is_empty() {
        return Ok(());
    }
    let listed = perhaps.join(", ");
    Err(Rejection::Refused(format!(
        "it is not known whether these are undone, their undoing was cut short: {listed}; undo them for certain (viat run compensate), or, to go on with \
         what they did, say why: --accept-repeat REASON"
    )))
}

/// The entry to begin at again, if nothing that is in place is done twice by it.
fn start(run: &Run, from: &str, accept_repeat: bool) -> Result<Path, Rejection> {
    let first = run.ledger.named(from).map_err(|several| {
        let paths: Vec<&str> = several.iter().map(Path::as_str).collect();
        Rejection::Refused(match paths.is_empty() {
            true => format!("no script, wait, review or loop named {from} was reached in this run"),
            false => format!("several entries are named {from}; name one by its path: {}", paths.join(", ")),
        })
    })?;
    let in_place = |standing: Standing| standing != Standing::Compensated;
    let again = run.ledger.from(&first);
    let repeated = again.iter().filter(|(_, entry)| entry.memo.is_some() && entry.effect.as_ref().is_some_and(|effect| in_place(effect.standing)));
    let repeated: Vec<&str> = repeated.map(|(path, _)| path.as_str()).collect();
    if !repeated.is_empty() && !accept_repeat {
        let listed = repeated.join(", ");
        return Err(Rejection::Refused(format!(
            "from {from} on these have taken effect and are not undone: {listed}; to do them again, say why: --accept-repeat REASON"
        )));
    }
    // The first one's path names the same entries again when the journal is read.
    let exact = Path::from(from);
    Ok(if first.iter().any(|path| *path == exact || path.is_inside(&exact)) { exact } else { first[0].clone() })
}

/// What the entry at `path` came to before the run was begun anew, as the event that says so again.
pub(crate) fn remembered(turn: &Turn<'_>, path: &Path) -> Option<Event> {
    let path = path.clone();
    Some(match turn.run.ledger.memo(&path)? {
        Memo::Caught(error) => Event::CatchEntered { path, error: error.clone() },
        Memo::Bound(_) | Memo::Continued(_) => Event::AlreadyCompleted { path },
    })
}
