//! Routes what happened to what follows: (run, input, now) → events, or a rejection.

use std::sync::Arc;

use serde_json::Value;

use crate::expression::Evaluate;
use crate::failure::Failure;
use crate::journal::{Event, Millis, ReviewDecision};
use crate::path::Path;
use crate::policies::{cancel, compensate, deadline, interrupt, migrate, resolve, resume};
use crate::run::{Program, Run};
use crate::steps;
use crate::turn::Turn;

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Go on: the run is new, or the last decision stopped at its bound.
    Continue,
    /// A worker was reserved for the attempt that is due at `path`.
    Reserved {
        /// The script entry.
        path: Path,
        /// The attempt that is due.
        attempt: u32,
        /// The id under which its report will come.
        id: String,
        /// How long it waited for the worker.
        queued_ms: u64,
        /// The process tree it will run in.
        tree: Value,
    },
    /// No worker could be had for the attempt that is due at `path`.
    NotStarted {
        /// The script entry.
        path: Path,
        /// The attempt that is due.
        attempt: u32,
        /// Why.
        failure: Failure,
    },
    /// An attempt ended.
    Finished {
        /// The script entry.
        path: Path,
        /// The attempt's id.
        id: String,
        /// How.
        report: Report,
    },
    /// Time has passed: whatever is due by now happens.
    Tick,
    /// Somebody sent an event to the run.
    Event {
        /// Its name.
        name: String,
        /// What it carries.
        payload: Value,
    },
    /// A running script asked for work to be submitted if the run succeeds.
    Deferred {
        /// The script entry.
        path: Path,
        /// The attempt's id.
        id: String,
        /// The workflow to start.
        workflow: String,
        /// Its version.
        version: u64,
        /// The catalogue revision that it pins.
        revision: u64,
        /// Its inputs.
        args: Value,
    },
    /// Somebody wants the run to end.
    Cancel {
        /// Who.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Somebody decides a review.
    Decide {
        /// The review's id.
        review: String,
        /// What, by whom, and with which data.
        decision: ReviewDecision,
    },
    /// Somebody moves a review's expiry.
    Extend {
        /// The review's id.
        review: String,
        /// When it expires from now on; `None`: never.
        due: Option<Millis>,
        /// Who.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Somebody says what came of an attempt whose outcome is unknown.
    Settle {
        /// The entry: its path, or its id where that names one entry only.
        step: String,
        /// The entry's output, if the attempt took effect; `None`: it did not.
        output: Option<Value>,
        /// Who.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Somebody wants the effects of a run that ended badly undone.
    Compensate {
        /// Who.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Somebody lets a failed run go on.
    Resume {
        /// Who.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// The entry from which on everything is done again: its path, or its id where that names one entry only.
        from: Option<String>,
        /// Why effects that are in place may be repeated.
        accept_repeat: Option<String>,
    },
    /// Somebody moves the run to another version of its workflow.
    Migrate {
        /// That version.
        version: u64,
        /// The catalogue revision that pins what it reaches.
        revision: u64,
        /// What it runs.
        program: Arc<Program>,
        /// Why.
        reason: String,
        /// Who.
        by: Option<String>,
    },
    /// This engine took the run over from one that died; what was in flight is known to be dead.
    Adopted {
        /// This engine.
        owner: String,
    },
}

impl Input {
    /// Whether the run may refuse it, for what a person asks. Such an input is decided as of the last one: give the run a
    /// [`Input::Tick`] first, so that it does not slip past a deadline.
    pub fn may_be_refused(&self) -> bool {
        match self {
            Input::Decide { .. } | Input::Extend { .. } | Input::Settle { .. } | Input::Compensate { .. } | Input::Resume { .. } | Input::Migrate { .. } => {
                true
            }
            Input::Continue
            | Input::Reserved { .. }
            | Input::NotStarted { .. }
            | Input::Finished { .. }
            | Input::Tick
            | Input::Event { .. }
            | Input::Deferred { .. }
            | Input::Cancel { .. }
            | Input::Adopted { .. } => false,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// With a value.
    Returned(Value),
    /// With a failure.
    Failed(Failure),
    /// Because the run is stopping.
    Stopped,
}

/// Why an input changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The run has ended.
    Terminal,
    /// The input is about something that is over: a late report, an attempt that is no longer due.
    Stale,
    /// What was asked for cannot be done; a sentence for who asked.
    Refused(String),
}

/// Decides what follows an input, and folds it into the run. An empty list means that nothing does.
///
/// The run is ahead of the store until the events are durable; if they cannot be made so, it must be loaded anew.
///
/// # Errors
/// A rejection; the run is then unchanged.
pub fn decide(run: &mut Run, input: Input, now: Millis, evaluator: &dyn Evaluate) -> Result<Vec<Event>, Rejection> {
    let reopens = matches!(input, Input::Resume { .. } | Input::Compensate { .. } | Input::Migrate { .. });
    if run.status.is_terminal() && !reopens {
        return Err(Rejection::Terminal);
    }
    refuse_stale(run, &input)?;
    let mut turn = Turn::new(run, evaluator, now);
    if !matches!(input, Input::Adopted { .. }) && !input.may_be_refused() {
        whatever_is_due(&mut turn);
    }
    match input {
        Input::Continue | Input::Tick => {}
        Input::Event { name, payload } => steps::wait::received(&mut turn, name, payload),
        Input::Deferred { path, workflow, version, revision, args, .. } => {
            steps::script::deferred(&mut turn, path, |path, attempt| Event::TaskDeferred { path, attempt, workflow, version, revision, args });
        }
        Input::Reserved { path, attempt, id, queued_ms, tree } => steps::script::reserved(&mut turn, path, attempt, id, queued_ms, tree),
        Input::NotStarted { path, attempt, failure } => steps::script::not_started(&mut turn, &path, attempt, failure),
        Input::Finished { path, report, .. } => steps::script::finished(&mut turn, path, report),
        Input::Cancel { by, reason } => cancel::request(&mut turn, by, reason),
        Input::Decide { review, decision } => steps::review::decide(&mut turn, &review, decision)?,
        Input::Extend { review, due, by, reason } => steps::review::extend(&mut turn, &review, due, by, reason)?,
        Input::Settle { step, output, by, reason } => resolve::settle(&mut turn, &step, output, by, reason)?,
        Input::Compensate { by, reason } => compensate::request(&mut turn, by, reason)?,
        Input::Resume { by, reason, from, accept_repeat } => resume::request(&mut turn, by, reason, from.as_deref(), accept_repeat)?,
        Input::Migrate { version, revision, program, reason, by } => migrate::request(&mut turn, version, revision, program, reason, by)?,
        Input::Adopted { owner } => {
            turn.emit(Event::Adopted { owner });
            interrupt::attempts(&mut turn);
            whatever_is_due(&mut turn);
        }
    }
    advance(&mut turn);
    Ok(turn.events)
}

/// What time has brought about comes before what else has happened: an input never slips past a deadline.
fn whatever_is_due(turn: &mut Turn<'_>) {
    deadline::check(turn);
    steps::expire(turn);
}

fn refuse_stale(run: &Run, input: &Input) -> Result<(), Rejection> {
    let fits = match input {
        Input::Reserved { path, attempt, .. } | Input::NotStarted { path, attempt, .. } => run.may_start(path, *attempt),
        Input::Finished { path, id, .. } | Input::Deferred { path, id, .. } => run.is_in_flight(path, id),
        _ => true,
    };
    if fits { Ok(()) } else { Err(Rejection::Stale) }
}

/// Moves everything that can move without the world, up to the bound of one decision.
fn advance(turn: &mut Turn<'_>) {
    steps::script::expire_zero_budgets(turn);
    while !turn.is_full() && !turn.run.status.is_terminal() {
        if turn.run.undo.is_some() {
            if compensate::step(turn) {
                continue;
            }
            return;
        }
        if turn.run.stopping.is_some() {
            if turn.run.has_in_flight() {
                return;
            }
            cancel::wind_down(turn);
            continue;
        }
        let Some(frame) = turn.run.movable.first().cloned() else { return };
        steps::step(turn, &frame);
    }
}
