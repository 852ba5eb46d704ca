//! Folding what happens to a single entry: scripts, their attempts, recoveries, arms, completion.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::failure::{Outcome, RunError};
use crate::ir::{Node, Op};
use crate::journal::Millis;
use crate::path::Path;
use crate::policies::interrupt;
use crate::policies::recover::Recovery;
use crate::policies::retry::Decision;
use crate::run::{Container, Frame, FrameState, Inside, Phase, Role, Run, ScriptState, bound};

impl Run {
    pub(super) fn enter_script(&mut self, path: &Path, args: &Value, key: Option<&str>, at: Millis) {
        if let Some((frame, number)) = self.locate(path) {
            let script = ScriptState { args: Arc::new(args.clone()), key: key.map(Arc::from), attempt: 1, phase: Phase::Due { at }, reruns: 0 };
            self.set_state(&frame, FrameState::Script(number, script));
        }
    }

    pub(super) fn set_phase(&mut self, path: &Path, phase: Phase) {
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

    pub(super) fn attempt_failed(&mut self, path: &Path, error: RunError, decision: &Decision, at: Millis) {
        let Some(script) = self.script_at(path).cloned() else { return };
        self.forget_errors(path);
        self.errors.push(error.clone());
        let next = match decision.retry_wait_ms() {
            Some(wait_ms) => {
                let due = at.saturating_add(Millis::try_from(wait_ms).unwrap_or(Millis::MAX));
                let interrupted = u32::from(error.code == interrupt::CODE);
                ScriptState { attempt: script.attempt + 1, phase: Phase::Due { at: due }, reruns: script.reruns + interrupted, ..script }
            }
            None => ScriptState { phase: Phase::Exhausted(error), ..script },
        };
        self.set_script(path, next);
    }

    /// What failed at `path` or inside it is made good, or counts elsewhere from now on.
    pub(super) fn forget_errors(&mut self, path: &Path) {
        self.errors.retain(|error| error.path.as_ref().is_some_and(|at| at != path && !at.is_inside(path)));
    }

    /// Of an entry's attempts only the last one's deferred tasks count.
    pub(super) fn drop_tasks_before(&mut self, path: &Path, attempt: u32) {
        self.deferred.retain(|task| task.path != *path || task.attempt >= attempt);
    }

    /// The entry at `path` is through: its name is bound and its frame moves on. Frames inside it are closed.
    pub(super) fn complete(&mut self, path: &Path, output: Value, error: Value) {
        self.bind_and_move_on(path, bound(output.clone(), error), output);
    }

    pub(super) fn bind_and_move_on(&mut self, path: &Path, bound: Value, output: Value) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        self.close_inside(path);
        self.forget_errors(path);
        let next = self.frames.get(&frame_path).and_then(|frame| self.node(frame, number)).and_then(|node| node.next);
        if let Some(frame) = self.frames.get_mut(&frame_path) {
            frame.vars.insert(path.last().to_owned(), bound);
        }
        self.set_state(&frame_path, next.map_or(FrameState::Done(output), FrameState::At));
    }

    /// The arm or the recovery that the entry at `path` ran is through; its value is the entry's.
    pub(super) fn region_completed(&mut self, path: &Path) {
        let value = match self.frames.get(path).map(|frame| &frame.state) {
            Some(FrameState::Done(value)) => value.clone(),
            // An empty region.
            _ => Value::Null,
        };
        self.complete(path, value, Value::Null);
    }

    pub(super) fn enter_catch(&mut self, path: &Path, error: &RunError) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        let Outcome::Failed(class) = error.class else { return };
        let rules = self.node_at(&frame_path, number).map(|node| &node.policy.recover);
        let rule = rules.and_then(|rules| rules.iter().find(|rule| rule.matches.covers(class)));
        let Some(Recovery::Catch(region)) = rule.map(|rule| &rule.then) else { return };
        let region = *region;
        let value = error.to_value();
        let vars = BTreeMap::from([("_error".to_owned(), value.clone()), (path.last().to_owned(), bound(Value::Null, value))]);
        self.open_region(path, &frame_path, number, Inside::Region);
        self.open_inner(path.clone(), &frame_path, region, Role::Catch(error.clone()), vars);
    }

    pub(super) fn enter_arm(&mut self, path: &Path, arm: Option<usize>) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        let region = match self.node_at(&frame_path, number).map(|node| &node.op) {
            Some(Op::Choice(choice)) => arm.map_or(choice.otherwise, |arm| choice.arms.get(arm).map(|arm| arm.body)),
            _ => None,
        };
        // A choice that took nothing is completed by the event that follows.
        let Some(region) = region else { return };
        self.open_region(path, &frame_path, number, Inside::Region);
        self.open_inner(path.clone(), &frame_path, region, Role::Arm, BTreeMap::new());
    }

    pub(super) fn enter_call(&mut self, path: &Path, inputs: &Map<String, Value>, deadline: Option<Millis>) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        let Some(Op::Call(call)) = self.node_at(&frame_path, number).map(|node| &node.op) else { return };
        let key = call.key();
        let Some(root) = self.program.called.get(&key).map(|called| called.root) else { return };
        self.open_region(path, &frame_path, number, Inside::Call { deadline });
        let vars = BTreeMap::from([("inputs".to_owned(), Value::Object(inputs.clone()))]);
        let frame = Frame { workflow: Some(key), region: root, parent: Some(frame_path), role: Role::Callee, vars, state: FrameState::At(0) };
        self.open(path.clone(), frame);
    }

    /// A node that is no container, or a container nothing of which runs, failed for good.
    pub(super) fn entry_failed(&mut self, path: &Path, error: &RunError) {
        let Some((frame_path, number)) = self.locate(path) else { return };
        self.close_inside(path);
        self.set_state(&frame_path, FrameState::Broken(number, error.clone()));
    }

    pub(super) fn node_at(&self, frame: &Path, number: usize) -> Option<&Node> {
        self.node(self.frames.get(frame)?, number)
    }

    pub(super) fn open_region(&mut self, path: &Path, frame: &Path, number: usize, inside: Inside) {
        self.close_inside(path);
        self.set_state(frame, FrameState::Inside(number, Container::new(inside)));
    }

    /// Opens a frame of the same workflow as `parent`.
    pub(super) fn open_inner(&mut self, path: Path, parent: &Path, region: usize, role: Role, vars: BTreeMap<String, Value>) {
        let workflow = self.frames.get(parent).and_then(|frame| frame.workflow.clone());
        self.open(path, Frame { workflow, region, parent: Some(parent.clone()), role, vars, state: FrameState::At(0) });
    }
}
