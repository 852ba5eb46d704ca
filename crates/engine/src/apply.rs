//! The fold: run + event → run. Total, and it makes no choices; an event that does not fit the state changes nothing.

mod containers;
mod entries;

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::failure::RunError;
use crate::journal::{Batch, Event, Millis};
use crate::run::{DeferredTask, FrameState, Phase, Program, Run, Status, Stopping, WaitState};

impl Run {
    /// The run that a journal tells of.
    ///
    /// # Errors
    /// What is wrong with a journal that does not begin with `created`, or has it twice.
    pub fn load(program: Arc<Program>, batches: impl IntoIterator<Item: Borrow<Batch>>) -> Result<Run, String> {
        let mut run: Option<Run> = None;
        for batch in batches {
            let batch = batch.borrow();
            for event in &batch.events {
                match (&mut run, event) {
                    (None, Event::Created(created)) => run = Some(Run::new(Arc::clone(&program), created.clone(), batch.at)),
                    (Some(_), Event::Created(_)) => return Err("the journal creates the run twice".to_owned()),
                    (None, _) => return Err("the journal does not begin with `created`".to_owned()),
                    (Some(run), event) => run.apply(event, batch.at),
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
            Event::AttemptStarted { path, attempt, id, tree, .. } => {
                self.drop_tasks_before(path, *attempt);
                self.set_phase(path, Phase::InFlight { id: id.clone(), tree: tree.clone() });
            }
            Event::AttemptSucceeded { path, output, .. } | Event::Completed { path, output } => self.complete(path, output.clone(), Value::Null),
            Event::AttemptFailed { path, attempt, failure, decision } => {
                self.drop_tasks_before(path, *attempt);
                let error = RunError::of_entry(path, path.last(), Some(*attempt), failure);
                self.attempt_failed(path, error, decision, at);
            }
            Event::AttemptCancelled { path, .. } => self.attempt_cancelled(path, at),
            Event::TaskDeferred { path, attempt, workflow, version, revision, args } => self.deferred.push(DeferredTask {
                path: path.clone(),
                attempt: *attempt,
                workflow: workflow.clone(),
                version: *version,
                revision: *revision,
                args: args.clone(),
            }),
            Event::Continued { path, error } => self.complete(path, Value::Null, error.to_value()),
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
            Event::WaitEntered { path, due, event } => {
                if let Some((frame, number)) = self.locate(path) {
                    self.set_state(&frame, FrameState::Waiting(number, WaitState { due: *due, event: event.clone() }));
                }
            }
            Event::EventReceived { name, payload } => self.inbox.entry(name.clone()).or_default().push_back(payload.clone()),
            Event::EventTaken { path, name } => {
                if let Some(payload) = self.inbox.get_mut(name).and_then(VecDeque::pop_front) {
                    self.complete(path, payload, Value::Null);
                }
            }
            Event::CancelRequested { by, reason } => self.stopping = Some(Stopping::Cancel { message: cancel_message(by.as_deref(), reason.as_deref()) }),
            Event::DeadlineExceeded { message } => self.stopping = Some(Stopping::Deadline { message: message.clone() }),
            Event::Succeeded { outputs } => {
                self.outputs = Some(outputs.clone());
                self.end(Status::Succeeded, None);
            }
            Event::Failed { error } => self.end(Status::Failed, Some(error)),
            Event::Cancelled { error } => self.end(Status::Cancelled, Some(error)),
        }
    }

    fn end(&mut self, status: Status, error: Option<&RunError>) {
        self.status = status;
        self.error = error.cloned();
        for set in [&mut self.movable, &mut self.busy, &mut self.timed] {
            set.clear();
        }
        self.stops.clear();
        self.frames.clear();
    }

    /// Brings the status and the active clock in step with what the run is doing.
    fn tick(&mut self, at: Millis, begun: bool) {
        self.active.used_ms = self.active.used_at(at);
        let begun = begun || self.status != Status::Queued;
        let active = begun && !(self.busy.is_empty() && self.movable.is_empty());
        self.active.since = active.then_some(at);
        if begun && !self.status.is_terminal() {
            self.status = if active { Status::Running } else { Status::Waiting };
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
