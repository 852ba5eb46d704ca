//! What the world owes a run: a function of its state, which makes recovery the normal path.

use std::sync::Arc;

use serde_json::Value;

use crate::journal::Millis;
use crate::path::Path;
use crate::run::{Job, Phase, Run};

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

/// What the world owes `run`: all of it. Who asks after each event asks for what may have changed instead; see the functions below.
pub fn outstanding(run: &Run) -> Outstanding {
    if run.status.is_terminal() {
        return Outstanding::default();
    }
    let attempts = if starts_nothing(run) { Vec::new() } else { run.jobs().filter_map(|job| wanted(run, job)).collect() };
    Outstanding { running: run.jobs().filter_map(|job| running(run, job)).collect(), deadline: deadline(run), more: has_more(run), attempts }
}

/// The attempts that fall due from `from` to `to`, the earliest first. What falls due after a decision falls due at its time or later:
/// who has seen everything up to one decision need not look at it again.
pub fn due_between(run: &Run, from: Millis, to: Millis) -> Vec<Wanted> {
    upcoming(run, from).take_while(|(at, _)| *at <= to).filter_map(|(_, job)| wanted(run, job)).collect()
}

/// When the first attempt at or after `from` falls due that is not `known` by its path and number.
pub fn next_unknown(run: &Run, from: Millis, known: impl Fn(&Path, u32) -> bool) -> Option<Millis> {
    upcoming(run, from).find(|(_, job)| !run.is_job_stopped(job) && !known(&job.path, job.state.attempt)).map(|(at, _)| at)
}

/// The attempt of this path and number, if it is due, now or later.
pub fn wanted_at(run: &Run, path: &Path, attempt: u32) -> Option<Wanted> {
    let job = run.job_named(path).filter(|job| job.state.attempt == attempt && !starts_nothing(run))?;
    wanted(run, job)
}

/// The ids of the attempts that should be told to stop.
pub fn to_stop(run: &Run) -> Vec<String> {
    let nothing_stops = run.stopping.is_none() && run.stops.is_empty() && run.undo.as_ref().is_none_or(|undo| !undo.expired);
    if nothing_stops || run.status.is_terminal() {
        return Vec::new();
    }
    let in_flight = run.jobs_of(&run.flying).chain(run.own_job());
    in_flight.filter_map(|job| running(run, job)).filter(|running| running.stop).map(|running| running.id).collect()
}

/// When time alone changes something: a wait is over, a budget is spent.
pub fn deadline(run: &Run) -> Option<Millis> {
    let timer = if run.stopping.is_some() { None } else { run.timed.first() };
    timer.into_iter().chain(budget_end(run)).min()
}

/// Whether another decision gets somewhere by itself: a stopping run only waits for the ends of what is in flight.
pub fn has_more(run: &Run) -> bool {
    match &run.undo {
        _ if run.status.is_terminal() => false,
        Some(undo) => undo.undoing.job.as_ref().is_none_or(|(_, job)| undo.expired && !job.is_in_flight()),
        None if run.stopping.is_some() => !run.has_in_flight(),
        None => !run.movable.is_empty(),
    }
}

/// A run that is ending starts nothing but what undoes its effects.
fn starts_nothing(run: &Run) -> bool {
    run.status.is_terminal() || (run.stopping.is_some() && run.undo.is_none())
}

/// What falls due from `from` on, the earliest first.
fn upcoming(run: &Run, from: Millis) -> impl Iterator<Item = (Millis, Job<'_>)> {
    let live = if starts_nothing(run) { None } else { Some(run) };
    live.into_iter().flat_map(move |run| {
        // While the run undoes its effects nothing else of it is left.
        let own = run.own_job().and_then(|job| Some((job.state.phase.due()?, job))).filter(move |(at, _)| *at >= from);
        own.into_iter().chain(run.due.since(from).filter_map(|(at, frame)| Some((*at, run.jobs_of([frame]).next()?))))
    })
}

fn wanted(run: &Run, job: Job<'_>) -> Option<Wanted> {
    let not_before = job.state.phase.due().filter(|_| !run.is_job_stopped(&job))?;
    Some(Wanted {
        script: job.script.to_owned(),
        args: Arc::clone(&job.state.args),
        attempt: job.state.attempt,
        not_before,
        timeout_ms: job.timeout_ms,
        idempotency_key: run.effect_key(&job.path, job.state.key.as_deref()),
        path: job.path,
    })
}

fn running(run: &Run, job: Job<'_>) -> Option<Running> {
    let Phase::InFlight { id, tree } = &job.state.phase else { return None };
    Some(Running { stop: run.is_job_stopped(&job), id: id.clone(), tree: tree.clone(), path: job.path })
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
