//! The fold: run + event → run. Total, and it makes no choices; an event that does not fit the state changes nothing.

mod again;
mod containers;
mod entries;
mod settle;
mod undo;

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::failure::RunError;
use crate::journal::{Batch, Event, Millis, Undone};
use crate::path::Path;
use crate::run::{DeferredTask, FrameState, Memo, Program, Run, Status, Stopping, WaitState};

/// Finds the program of a version, pinned at a catalogue revision.
pub type Versions<'a> = &'a dyn Fn(u64, u64) -> Result<Arc<Program>, String>;

impl Run {
    /// The run that a journal tells of. `program` is what it began with; `versions` finds what it was migrated to.
    ///
    /// # Errors
    /// What is wrong with a journal that does not begin with `created`, or has it twice; what `versions` says.
    pub fn load(program: Arc<Program>, batches: impl IntoIterator<Item: Borrow<Batch>>, versions: Versions<'_>) -> Result<Run, String> {
        let mut run: Option<Run> = None;
        for batch in batches {
            let batch = batch.borrow();
            for event in &batch.events {
                match (&mut run, event) {
                    (None, Event::Created(created)) => run = Some(Run::new(Arc::clone(&program), created.clone(), batch.at)),
                    (Some(_), Event::Created(_)) => return Err("the journal creates the run twice".to_owned()),
                    (None, _) => return Err("the journal does not begin with `created`".to_owned()),
                    (Some(run), event) => {
                        if let Event::Migrated { version, revision, .. } = event {
                            run.next_program = Some(versions(*version, *revision)?);
                        }
                        run.apply(event, batch.at);
                    }
                }
            }
        }
        run.ok_or_else(|| "the journal is empty".to_owned())
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &Event, at: Millis) {
        if matches!(event, Event::Adopted { .. }) {
            // No engine was up since the last event: that time is nobody's.
            self.active.since = self.active.since.map(|_| at);
        }
        self.kept_bytes = self.kept_bytes.saturating_add(event.weight() as u64);
        self.change(event, at);
        self.tick(at, begins(event));
    }

    fn change(&mut self, event: &Event, at: Millis) {
        match event {
            Event::Created(_) | Event::Adopted { .. } | Event::TaskSubmitted { .. } => {}
            Event::ScriptEntered { path, args, key } => self.enter_script(path, args, key.as_deref(), at),
            Event::AttemptStarted { path, attempt, id, tree, .. } => self.attempt_started(path, *attempt, id, tree),
            Event::AttemptSucceeded { path, output, .. } => self.attempt_succeeded(path, output),
            Event::Completed { path, output } => self.complete(path, output.clone(), Value::Null),
            Event::AttemptFailed { path, attempt, failure, decision } => self.attempt_failed(path, *attempt, failure, decision, at),
            Event::AttemptCancelled { path, attempt } => self.attempt_cancelled(path, *attempt, at),
            Event::TaskDeferred { .. } => self.deferred.extend(deferred(event)),
            Event::Continued { path, error } => self.continue_past(path, error),
            Event::CatchEntered { path, error } => self.enter_catch(path, error),
            Event::ChoiceMade { path, arm } => self.enter_arm(path, *arm),
            Event::RegionCompleted { path } => self.region_completed(path),
            Event::ParallelEntered { path } => self.enter_parallel(path),
            Event::BranchStarted { path, branch } => self.start_branch(path, *branch),
            Event::BranchCompleted { path, branch } => self.branch_completed(path, *branch),
            Event::BranchFailed { path, branch, error } => self.branch_failed(path, *branch, error),
            Event::LoopEntered { path, items } => self.enter_loop(path, items.as_deref()),
            Event::IterationStarted { path, index } => self.start_iteration(path, *index),
            Event::IterationCompleted { path, index } => self.iteration_completed(path, *index),
            Event::IterationFailed { path, index, error } => self.iteration_failed(path, *index, error),
            Event::ContainerCompleted { path } => self.container_completed(path),
            Event::ContainerStopped { path, error } => self.stop_container(path, error),
            Event::EntryFailed { path, error } => self.entry_failed(path, error),
            Event::CallEntered { path, inputs, deadline } => self.enter_call(path, inputs, *deadline),
            Event::CallCompleted { path, outputs } => self.complete(path, outputs.clone(), Value::Null),
            Event::WaitEntered { path, due, event } => self.enter_wait(path, *due, event.as_ref()),
            Event::EventReceived { name, payload } => self.inbox.entry(name.clone()).or_default().push_back(payload.clone()),
            Event::EventTaken { path, name } => self.take_event(path, name),
            Event::AlreadyCompleted { path } => self.already_completed(path),
            Event::ReviewRequested { path, review } => self.request_review(path, review),
            Event::ReviewReminded { path, .. } => self.change_wait(path, |wait| wait.review.iter_mut().for_each(|review| review.reminded += 1)),
            Event::ReviewExtended { path, due, .. } => self.change_wait(path, |wait| wait.due = *due),
            Event::ReviewDecided { path, decision } => self.complete(path, decision.to_value(at), Value::Null),
            Event::ResolveEntered { path, attempt, args, at } => self.enter_resolve(path, *attempt, args, *at),
            Event::Resolved { path, output, .. } | Event::Settled { path, output, .. } => self.settle(path, output.as_ref(), at),
            Event::AttentionNeeded { path, error } => self.ask_for_attention(path, error),
            Event::CompensationPrepared { path, undo } => {
                self.ledger.effect_mut(path).into_iter().for_each(|effect| effect.undo = Some(Arc::new(undo.clone())))
            }
            Event::CompensationStarted { outcome, error, deadline, .. } => self.start_undoing(*outcome, error, *deadline),
            Event::CompensateEntered { path, targets, effects } => self.enter_compensate(path, targets, effects),
            Event::CompensationEntered { path } => self.undo_next(path, at),
            Event::EffectIrreversible { path } => self.undone(path, Undone::Irreversible),
            Event::CompensationFailed { path, .. } => self.undone(path, Undone::CompensationFailed),
            Event::CompensationExpired {} => self.undo.iter_mut().for_each(|undo| undo.expired = true),
            Event::CompensateCompleted { path, outcomes } => self.complete(path, undone_value(outcomes), Value::Null),
            Event::Resumed { from, deadline, .. } => self.resume(from.as_ref(), *deadline, at),
            Event::Migrated { version, revision, .. } => self.migrate(*version, *revision),
            Event::CancelRequested { by, reason } => self.cancel(cancel_message(by.as_deref(), reason.as_deref())),
            Event::DeadlineExceeded { message } => self.stopping = Some(Stopping::Deadline { message: message.clone() }),
            Event::Succeeded { outputs } => self.succeed(outputs),
            Event::Failed { error } => self.end(Status::Failed, Some(error)),
            Event::Cancelled { error } => self.end(Status::Cancelled, Some(error)),
        }
    }

    fn continue_past(&mut self, path: &Path, error: &RunError) {
        self.ledger.remember(path, Memo::Continued(error.clone()));
        self.complete(path, Value::Null, error.to_value());
    }

    fn enter_wait(&mut self, path: &Path, due: Option<Millis>, event: Option<&String>) {
        let Some((frame, number)) = self.locate(path) else { return };
        self.kept_waits.remove(path);
        self.ledger.enter(path);
        self.set_state(&frame, FrameState::Waiting(number, WaitState { due, event: event.cloned(), review: None }));
    }

    fn take_event(&mut self, path: &Path, name: &str) {
        if let Some(payload) = self.inbox.get_mut(name).and_then(VecDeque::pop_front) {
            self.complete(path, payload, Value::Null);
        }
    }

    fn succeed(&mut self, outputs: &Value) {
        self.outputs = Some(outputs.clone());
        self.end(Status::Succeeded, None);
    }

    fn end(&mut self, status: Status, error: Option<&RunError>) {
        self.status = status;
        self.error = error.cloned();
        self.undo = None;
        self.undo_jobs.clear();
        self.close_all();
    }

    /// Brings the status and the active clock in step with what the run is doing.
    fn tick(&mut self, at: Millis, begun: bool) {
        self.active.used_ms = self.active.used_at(at);
        let begun = begun || self.status != Status::Queued;
        let active = begun && !(self.due.is_empty() && self.flying.is_empty() && self.movable.is_empty());
        self.active.since = active.then_some(at);
        if begun && !self.status.is_terminal() {
            self.status = match active {
                _ if self.undo.is_some() => Status::Compensating,
                true => Status::Running,
                false if !self.asking.is_empty() => Status::NeedsAttention,
                false => Status::Waiting,
            };
            if self.undo.is_none() && self.error.as_ref() != self.asked() {
                self.error = self.asked().cloned();
            }
        }
    }
}

/// Whether an event is a sign that an engine has begun with the run.
pub(crate) fn begins(event: &Event) -> bool {
    !matches!(event, Event::Created(_) | Event::CancelRequested { .. } | Event::EventReceived { .. } | Event::Cancelled { .. })
}

fn cancel_message(by: Option<&str>, reason: Option<&str>) -> String {
    let mut message = "the run was cancelled".to_owned();
    if let Some(by) = by {
        message.push_str(&format!(" by {by}"));
    }
    if let Some(reason) = reason {
        message.push_str(&format!(": {reason}"));
    }
    message
}

fn deferred(event: &Event) -> Option<DeferredTask> {
    let Event::TaskDeferred { path, attempt, workflow, version, revision, args } = event else { return None };
    Some(DeferredTask { path: path.clone(), attempt: *attempt, workflow: workflow.clone(), version: *version, revision: *revision, args: args.clone() })
}

fn undone_value(outcomes: &[(String, Undone)]) -> Value {
    Value::Object(outcomes.iter().map(|(id, undone)| (id.clone(), Value::from(undone.name()))).collect())
}
