//! The run's budgets: the wall-clock deadline and the active time. When one is spent the run ends, and no policy sees it.

use crate::journal::Event;
use crate::turn::Turn;

/// Ends the run if one of its budgets is spent.
pub(crate) fn check(turn: &mut Turn<'_>) {
    let run = &turn.run;
    if run.stopping.is_some() || run.undo.is_some() || run.status.is_terminal() || run.remaining_ms(turn.now) != Some(0) {
        return;
    }
    let message = match (run.deadline, run.created.active_budget_ms) {
        (Some(deadline), _) if deadline <= turn.now => {
            let budget_ms = deadline.saturating_sub(run.budget_since);
            format!("the run's timeout of {} is over", seconds(budget_ms))
        }
        (_, budget) => {
            let budget_ms = budget.and_then(|budget| i64::try_from(budget).ok()).unwrap_or(i64::MAX);
            format!("the run's execution deadline of {} of active time is over", seconds(budget_ms))
        }
    };
    turn.emit(Event::DeadlineExceeded { message });
}

fn seconds(ms: i64) -> String {
    if ms % 1000 == 0 { format!("{} s", ms / 1000) } else { format!("{} s", ms as f64 / 1000.0) }
}
