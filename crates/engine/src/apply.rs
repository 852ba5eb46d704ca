//! The fold: run + event → run. Total, and it makes no choices; an event that does not fit the state changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::failure::RunError;
use crate::ir::{Definition, Op};
use crate::journal::{Batch, Event, Millis};
use crate::path::Path;
use crate::policies::recover::Recovery;
use crate::policies::retry::Decision;
use crate::run::{Frame, FrameState, Phase, Role, Run, ScriptState, Status, Stopping, bound};

impl Run {
    /// The run that a journal tells of.
    ///
    /// # Errors
    /// What is wrong with a journal that does not begin with `created`, or has it twice.
    pub fn load(definition: Arc<Definition>, batches: &[Batch]) -> Result<Run, String> {
        let mut run: Option<Run> = None;
        for batch in batches {
            for event in &batch.events {
                match (&mut run, event) {
                    (None, Event::Created(created)) => run = Some(Run::new(Arc::clone(&definition), created.clone(), batch.at)),
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
        self.change(event, at);
        if self.status == Status::Queued && !matches!(event, Event::CancelRequested { .. }) {
            self.status = Status::Running;
        }
        self.tick_active(at);
    }

    fn change(&mut self, event: &Event, at: Millis) {
        match event {
            Event::Created(_) | Event::Adopted { .. } => {}
            Event::ScriptEntered { path, args } => self.enter_script(path, args, at),
            Event::AttemptStarted { path, id, tree, .. } => self.set_phase(path, Phase::InFlight { id: id.clone(), tree: tree.clone() }),
            Event::AttemptSucceeded { path, output, .. } | Event::Completed { path, output } => self.complete(path, output.clone(), Value::Null),
            Event::AttemptFailed { path, attempt, failure, decision } => {
                let error = RunError::of_entry(path, path.last(), Some(*attempt), failure);
                self.attempt_failed(path, error, decision, at);
            }
            Event::AttemptCancelled { path, .. } => self.set_phase(path, Phase::Due { at }),
            Event::Continued { path, error } => self.complete(path, Value::Null, error.to_value()),
            Event::CatchEntered { path, error } => self.enter_catch(path, error),
            Event::ChoiceMade { path, arm } => self.enter_arm(path, *arm),
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

    fn enter_script(&mut self, path: &Path, args: &Value, at: Millis) {
        if let Some((frame, number)) = self.locate(path) {
            let script = ScriptState { args: Arc::new(args.clone()), attempt: 1, phase: Phase::Due { at }, reruns: 0 };
            self.set_state(&frame, FrameState::Script(number, script));
        }
    }

    fn set_phase(&mut self, path: &Path, phase: Phase) {
        if let Some(script) = self.script_at(path) {
            let script = ScriptState { phase, ..script.clone() };
            self.set_script(path, script);
        }
    }

    fn set_script(&mut self, path: &Path, script: ScriptState) {
        if let Some((frame, number)) = self.locate(path) {
            self.set_state(&frame, FrameState::Script(number, script));
        }
    }

    fn attempt_failed(&mut self, path: &Path, error: RunError, decision: &Decision, at: Millis) {
        let Some(script) = self.script_at(path).cloned() else { return };
        self.last_error = Some(error.clone());
        let next = match decision.retry_wait_ms() {
            Some(wait_ms) => {
                let due = at.saturating_add(Millis::try_from(wait_ms).unwrap_or(Millis::MAX));
                let interrupted = u32::from(error.code == crate::policies::interrupt::CODE);
                ScriptState { attempt: script.attempt + 1, phase: Phase::Due { at: due }, reruns: script.reruns + interrupted, ..script }
            }
            None => ScriptState { phase: Phase::Exhausted(error), ..script },
        };
        self.set_script(path, next);
    }

    /// The entry at `path` is through: its name is bound and its frame moves on. Frames inside it are closed.
    fn complete(&mut self, path: &Path, output: Value, error: Value) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        self.close(path);
        self.last_error = None;
        let next = self.frames.get(&frame_path).and_then(|frame| self.node(frame, number)).and_then(|node| node.next);
        if let Some(frame) = self.frames.get_mut(&frame_path) {
            frame.vars.insert(path.last().to_owned(), bound(output.clone(), error));
        }
        let state = next.map_or(FrameState::Done(output), FrameState::At);
        self.set_state(&frame_path, state);
    }

    fn enter_catch(&mut self, path: &Path, error: &RunError) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        let region = self.frames.get(&frame_path).and_then(|frame| self.node(frame, number)).and_then(|node| {
            node.policy.recover.iter().find_map(|rule| match (&rule.then, error.class) {
                (Recovery::Catch(region), crate::failure::Outcome::Failed(class)) if rule.matches.covers(class) => Some(*region),
                _ => None,
            })
        });
        let Some(region) = region else { return };
        let value = error.to_value();
        let vars = BTreeMap::from([("_error".to_owned(), value.clone()), (path.last().to_owned(), bound(Value::Null, value))]);
        self.set_state(&frame_path, FrameState::Inside(number));
        self.open(path.clone(), Frame { region, parent: Some(frame_path), role: Role::Catch(error.clone()), vars, state: FrameState::At(0) });
    }

    fn enter_arm(&mut self, path: &Path, arm: Option<usize>) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        let region = match self.frames.get(&frame_path).and_then(|frame| self.node(frame, number)).map(|node| &node.op) {
            Some(Op::Choice(choice)) => arm.map_or(choice.otherwise, |arm| choice.arms.get(arm).map(|arm| arm.body)),
            _ => None,
        };
        // A choice that took nothing is completed by the event that follows.
        let Some(region) = region else { return };
        self.set_state(&frame_path, FrameState::Inside(number));
        self.open(path.clone(), Frame { region, parent: Some(frame_path), role: Role::Arm, vars: BTreeMap::new(), state: FrameState::At(0) });
    }

    fn end(&mut self, status: Status, error: Option<&RunError>) {
        self.status = status;
        self.error = error.cloned();
        self.movable.clear();
        self.busy.clear();
        if status == Status::Succeeded {
            self.frames.clear();
        }
    }

    fn tick_active(&mut self, at: Millis) {
        self.active.used_ms = self.active.used_at(at);
        let active = !self.status.is_terminal() && !(self.busy.is_empty() && self.movable.is_empty());
        self.active.since = active.then_some(at);
    }
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

/// A definition whose regions and nodes all exist, as [`Run`] takes for granted.
///
/// # Errors
/// The first reference that leads nowhere.
pub fn check(definition: &Definition) -> Result<(), String> {
    let region_exists = |region: usize| (region < definition.regions.len()).then_some(()).ok_or_else(|| format!("there is no region {region}"));
    region_exists(definition.root)?;
    for region in &definition.regions {
        for node in &region.nodes {
            if let Some(next) = node.next.filter(|next| *next >= region.nodes.len()) {
                return Err(format!("{} is followed by node {next}, which does not exist", node.id));
            }
            for rule in &node.policy.recover {
                if let Recovery::Catch(region) = rule.then {
                    region_exists(region)?;
                }
            }
            if let Op::Choice(choice) = &node.op {
                choice.arms.iter().map(|arm| arm.body).chain(choice.otherwise).try_for_each(region_exists)?;
            }
        }
    }
    Ok(())
}
