//! What the world owes a run: a function of its state, which makes recovery the normal path.

use std::sync::Arc;

use serde_json::Value;

use crate::journal::Millis;
use crate::path::Path;
use crate::run::{Phase, Run};

/// What should be true of the world for this run.
#[derive(Clone, Debug, Default)]
pub struct Outstanding {
    /// Attempts that should be started, each not before its time.
    pub attempts: Vec<Wanted>,
    /// Attempts that should be running.
    pub running: Vec<Running>,
    /// When time alone changes something: a wait is over, a budget is spent. Retries have their own `not_before`.
    pub deadline: Option<Millis>,
    /// Whether the run can move without the world (its last decision stopped at its bound).
    pub more: bool,
}

impl Outstanding {
    /// The next moment after `now` at which something changes by itself.
    pub fn next_after(&self, now: Millis) -> Option<Millis> {
        let retries = self.attempts.iter().map(|wanted| wanted.not_before).filter(|due| *due > now);
        retries.chain(self.deadline).min()
    }
}

/// An attempt that should be started.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The script entry.
    pub path: Path,
    /// The script's name; the run pins its version.
    pub script: String,
    /// A JSON object, the same for all attempts of the entry.
    pub args: Arc<Value>,
    /// 1 is the first.
    pub attempt: u32,
    /// Not before this.
    pub not_before: Millis,
    /// The attempt's own budget.
    pub timeout_ms: Option<u64>,
    /// The same across attempts, restarts and resumes.
    pub idempotency_key: String,
}

/// An attempt that should be running.
#[derive(Clone, Debug)]
pub struct Running {
    /// The script entry.
    pub path: Path,
    /// The attempt's id.
    pub id: String,
    /// The process tree it runs in.
    pub tree: Value,
    /// Whether it should be stopped: the run, or a container around it, is being ended.
    pub stop: bool,
}

/// What the world owes `run`.
pub fn outstanding(run: &Run) -> Outstanding {
    if run.status.is_terminal() {
        return Outstanding::default();
    }
    let attempts: Vec<Wanted> = if run.stopping.is_some() && run.undo.is_none() { Vec::new() } else { wanted(run) };
    let deadline = timers(run).chain(budget_end(run)).min();
    Outstanding { running: running(run), deadline, more: has_more(run), attempts }
}

/// Whether another decision gets somewhere by itself: a stopping run only waits for the ends of what is in flight.
fn has_more(run: &Run) -> bool {
    match &run.undo {
        Some(undo) => undo.undoing.job.as_ref().is_none_or(|(_, job)| undo.expired && !job.is_in_flight()),
        None if run.stopping.is_some() => !run.has_in_flight(),
        None => !run.movable.is_empty(),
    }
}

fn wanted(run: &Run) -> Vec<Wanted> {
    let due = run.due_jobs().map(|due| Wanted {
        script: due.script.to_owned(),
        args: Arc::clone(&due.state.args),
        attempt: due.attempt,
        not_before: due.at,
        timeout_ms: due.timeout_ms,
        idempotency_key: run.effect_key(&due.path, due.state.key.as_deref()),
        path: due.path,
    });
    due.collect()
}

fn running(run: &Run) -> Vec<Running> {
    let in_flight = run.jobs().filter_map(|job| {
        let Phase::InFlight { id, tree } = &job.state.phase else { return None };
        Some(Running { stop: run.is_job_stopped(&job), id: id.clone(), tree: tree.clone(), path: job.path })
    });
    in_flight.collect()
}

/// When waits end and called workflows run out of their budgets.
fn timers(run: &Run) -> impl Iterator<Item = Millis> {
    let live = if run.stopping.is_some() { None } else { Some(run) };
    live.into_iter().flat_map(|run| run.timed.iter().filter_map(|path| run.frames.get(path)?.state.due()))
}

/// When a budget of the run will be spent if nothing changes.
fn budget_end(run: &Run) -> Option<Millis> {
    if let Some(undo) = &run.undo {
        return undo.deadline.filter(|_| !undo.expired);
    }
    if run.stopping.is_some() {
        return None;
    }
    let active = run.created.active_budget_ms.zip(run.active.since).map(|(budget, since)| {
        let left = budget.saturating_sub(run.active.used_ms);
        since.saturating_add(Millis::try_from(left).unwrap_or(Millis::MAX))
    });
    run.deadline.into_iter().chain(active).min()
}
