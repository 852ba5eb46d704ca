//! Folding what happens to a single entry: scripts, their attempts, recoveries, arms, completion.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::failure::{Failure, Outcome, RunError};
use crate::ir::{Node, Op};
use crate::journal::{Millis, Undone};
use crate::path::{Path, Purpose};
use crate::policies::interrupt;
use crate::policies::recover::Recovery;
use crate::policies::retry::Decision;
use crate::run::{Container, Frame, FrameState, Inside, Memo, Phase, Role, Run, ScriptState, bound};

impl Run {
    pub(super) fn enter_script(&mut self, path: &Path, args: &Value, key: Option<&str>, at: Millis) {
        if let Some((frame, number)) = self.locate(path) {
            let first = self.ledger.enter(path).attempts + 1;
            let script = ScriptState::new(Arc::new(args.clone()), key.map(Arc::from), first, at);
            self.set_state(&frame, FrameState::Script(number, script));
        }
    }

    pub(super) fn attempt_started(&mut self, path: &Path, attempt: u32, id: &str, tree: &Value) {
        self.drop_tasks_before(path, attempt);
        self.count_attempt(path, attempt);
        self.set_phase(path, Phase::InFlight { id: id.to_owned(), tree: tree.clone() });
    }

    pub(super) fn set_phase(&mut self, path: &Path, phase: Phase) {
        self.change_job(path, |job| job.phase = phase);
    }

    fn count_attempt(&mut self, path: &Path, attempt: u32) {
        match path.purpose() {
            Purpose::Work => {
                let entry = self.ledger.enter(path);
                (entry.attempts, entry.uncertain, entry.resolutions) = (attempt, None, 0);
            }
            Purpose::Compensate => self.ledger.effect_mut(&path.entry()).into_iter().for_each(|effect| effect.undo_attempts = attempt),
            Purpose::Resolve(_) => self.ledger.enter(&path.entry()).resolutions = attempt,
        }
    }

    pub(super) fn attempt_succeeded(&mut self, path: &Path, output: &Value) {
        match path.purpose() {
            Purpose::Work => self.take_effect(path, output),
            Purpose::Compensate => self.undone(&path.entry(), Undone::Compensated),
            // What it said is in the event that follows.
            Purpose::Resolve(_) => {}
        }
    }

    /// The script entry at `path` is complete.
    pub(super) fn take_effect(&mut self, path: &Path, output: &Value) {
        if self.locate(path).is_some() {
            self.ledger.complete(path);
            self.complete(path, output.clone(), Value::Null);
        }
    }

    pub(super) fn attempt_failed(&mut self, path: &Path, attempt: u32, failure: &Failure, decision: &Decision, at: Millis) {
        self.drop_tasks_before(path, attempt);
        let Some(job) = self.job_at(path) else { return };
        let next = (job.attempt + 1, job.reruns + u32::from(failure.code == interrupt::CODE));
        let begun = job.is_in_flight();
        self.count_attempt(path, attempt);
        let entry = path.entry();
        let error = RunError::of_entry(&entry, entry.last(), Some(attempt), failure);
        if path.purpose() == Purpose::Compensate {
            self.ledger.effect_mut(&entry).into_iter().for_each(|effect| effect.undo_uncertain = failure.class.is_uncertain());
        }
        if path.purpose() == Purpose::Work {
            self.ledger.leave_open(path, (begun && failure.class.is_uncertain()).then(|| error.clone()));
            self.errors.note(path, error.clone());
        }
        match (decision.retry_wait_ms(), path.purpose()) {
            (Some(wait_ms), _) => {
                let due = at.saturating_add(Millis::try_from(wait_ms).unwrap_or(Millis::MAX));
                self.change_job(path, |job| {
                    (job.attempt, job.reruns) = next;
                    job.phase = Phase::Due { at: due };
                });
            }
            (None, Purpose::Work) => self.set_phase(path, Phase::Exhausted(error)),
            (None, Purpose::Compensate) => self.undo_failed(&entry, decision),
            // What follows is in the event that follows.
            (None, Purpose::Resolve(_)) => {}
        }
    }

    /// What failed at `path` or inside it is made good, or counts elsewhere from now on.
    pub(super) fn forget_errors(&mut self, path: &Path) {
        self.errors.forget(path);
    }

    /// Of an entry's attempts only the last one's deferred tasks count.
    fn drop_tasks_before(&mut self, path: &Path, attempt: u32) {
        self.deferred.retain(|task| task.path != *path || task.attempt >= attempt);
    }

    /// The entry at `path` is through: its name is bound and its frame moves on. Frames inside it are closed.
    pub(super) fn complete(&mut self, path: &Path, output: Value, error: Value) {
        self.bind_and_move_on(path, bound(output.clone(), error), output);
    }

    pub(super) fn bind_and_move_on(&mut self, path: &Path, bound: Value, output: Value) {
        let bound = Arc::new(bound);
        let kept = self.entry(path).is_some_and(|node| is_kept(&node.op));
        // How a failure was recovered from is remembered as that.
        let recovered = matches!(self.ledger.get(path).and_then(|entry| entry.memo.as_ref()), Some(Memo::Continued(_) | Memo::Caught(_)));
        if kept && !recovered {
            self.ledger.remember(path, Memo::Bound(Arc::clone(&bound)));
        }
        self.move_on(path, bound, output);
    }

    /// The entry at `path` is through: its name is bound and its frame moves on.
    pub(super) fn move_on(&mut self, path: &Path, bound: Arc<Value>, output: Value) {
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
        self.ledger.remember(path, Memo::Caught(error.clone()));
        let value = error.to_value();
        let failed = Arc::new(bound(Value::Null, value.clone()));
        let vars = BTreeMap::from([("_error".to_owned(), Arc::new(value)), (path.last().to_owned(), failed)]);
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
        let vars = BTreeMap::from([("inputs".to_owned(), Arc::new(Value::Object(inputs.clone())))]);
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
    pub(super) fn open_inner(&mut self, path: Path, parent: &Path, region: usize, role: Role, vars: BTreeMap<String, Arc<Value>>) {
        let workflow = self.frames.get(parent).and_then(|frame| frame.workflow.clone());
        self.open(path, Frame { workflow, region, parent: Some(parent.clone()), role, vars, state: FrameState::At(0) });
    }
}

/// Whether what an entry came to is used again when the run is begun anew: what had an effect, took time or a person, and loops,
/// whose failed iterations may have been tolerated. The rest is worked out again.
fn is_kept(op: &Op) -> bool {
    match op {
        Op::Script(_) | Op::Wait(_) | Op::Review(_) | Op::Compensate(_) | Op::Loop(_) => true,
        Op::Choice(_) | Op::Set(_) | Op::Parallel(_) | Op::Call(_) | Op::Fail(_) | Op::Return(_) => false,
    }
}
