//! Folding what happens to parallels and loops, and how any container is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::failure::{Failure, RunError};
use crate::ir::{Op, Source};
use crate::journal::Millis;
use crate::path::{Path, Purpose};
use crate::policies::class::Class;
use crate::run::{Container, FrameState, Inside, LoopState, ParallelState, Phase, Role, Run, ScriptState};

impl Run {
    pub(super) fn enter_parallel(&mut self, path: &Path) {
        let Some((frame, number)) = self.locate(path) else { return };
        let Some(Op::Parallel(parallel)) = self.node_at(&frame, number).map(|node| &node.op) else { return };
        let total = parallel.branches.len();
        let state = ParallelState { total, limit: parallel.concurrency.unwrap_or(total).max(1), ..ParallelState::default() };
        self.open_region(path, &frame, number, Inside::Parallel(state));
    }

    pub(super) fn start_branch(&mut self, path: &Path, branch: usize) {
        let Some((frame, number)) = self.locate(path) else { return };
        let Some(Op::Parallel(parallel)) = self.node_at(&frame, number).map(|node| &node.op) else { return };
        let Some((inner, body)) = parallel.branches.get(branch).map(|branch| (path.child(&branch.name), branch.body)) else { return };
        self.change_container(path, |container| {
            if let Inside::Parallel(state) = &mut container.inside {
                state.next = branch + 1;
                state.live += 1;
            }
        });
        self.open_inner(inner, &frame, body, Role::Branch { owner: path.clone(), branch }, BTreeMap::new());
    }

    pub(super) fn branch_completed(&mut self, path: &Path, branch: usize) {
        let vars = self.close_branch(path, branch);
        self.change_container(path, |container| {
            if let Inside::Parallel(state) = &mut container.inside {
                state.live = state.live.saturating_sub(1);
                state.vars.extend(vars);
            }
        });
    }

    pub(super) fn branch_failed(&mut self, path: &Path, branch: usize, error: &RunError) {
        self.close_branch(path, branch);
        self.change_container(path, |container| {
            if let Inside::Parallel(state) = &mut container.inside {
                state.live = state.live.saturating_sub(1);
                state.failures.push(error.clone());
            }
        });
    }

    fn close_branch(&mut self, path: &Path, branch: usize) -> BTreeMap<String, Arc<Value>> {
        let node = self.locate(path).and_then(|(frame, number)| self.node_at(&frame, number));
        let name = match node.map(|node| &node.op) {
            Some(Op::Parallel(parallel)) => parallel.branches.get(branch).map(|branch| path.child(&branch.name)),
            _ => None,
        };
        let Some(inner) = name else { return BTreeMap::new() };
        let vars = self.frames.get_mut(&inner).map(|frame| std::mem::take(&mut frame.vars)).unwrap_or_default();
        self.close_inside(&inner);
        vars
    }

    pub(super) fn enter_loop(&mut self, path: &Path, items: Option<&[Value]>) {
        let Some((frame, number)) = self.locate(path) else { return };
        let Some(Op::Loop(looped)) = self.node_at(&frame, number).map(|node| &node.op) else { return };
        let state = LoopState { items: items.map(|items| Arc::new(items.to_vec())), limit: looped.concurrency.max(1), ..LoopState::default() };
        self.ledger.enter(path);
        self.open_region(path, &frame, number, Inside::Loop(state));
    }

    pub(super) fn start_iteration(&mut self, path: &Path, index: usize) {
        let Some((frame, number)) = self.locate(path) else { return };
        let Some(Op::Loop(looped)) = self.node_at(&frame, number).map(|node| &node.op) else { return };
        let (body, name) = (
            looped.body,
            match &looped.source {
                Source::Over { name, .. } => Some(name.clone()),
                Source::While(_) => None,
            },
        );
        let mut vars = BTreeMap::from([("iteration".to_owned(), Arc::new(json!({ "index": index })))]);
        self.change_container(path, |container| {
            if let Inside::Loop(state) = &mut container.inside {
                state.next = index + 1;
                state.live += 1;
                if let (Some(name), Some(item)) = (name, state.items.as_ref().and_then(|items| items.get(index))) {
                    vars.insert(name, Arc::new(item.clone()));
                }
            }
        });
        self.open_inner(path.iteration(index), &frame, body, Role::Iteration { owner: path.clone(), index }, vars);
    }

    pub(super) fn iteration_completed(&mut self, path: &Path, index: usize) {
        let inner = path.iteration(index);
        let value = match self.close(&inner).map(|frame| frame.state) {
            Some(FrameState::Done(value)) => value,
            _ => Value::Null,
        };
        self.end_iteration(path, |state| {
            state.values.insert(index, value);
        });
    }

    pub(super) fn iteration_failed(&mut self, path: &Path, index: usize, error: &RunError) {
        let inner = path.iteration(index);
        self.close_inside(&inner);
        self.forget_errors(&inner);
        self.end_iteration(path, |state| {
            state.values.insert(index, Value::Null);
            state.failures.insert(index, json!({ "index": index, "error": error.to_value() }));
        });
    }

    fn end_iteration(&mut self, path: &Path, change: impl FnOnce(&mut LoopState)) {
        self.change_container(path, |container| {
            if let Inside::Loop(state) = &mut container.inside {
                state.live = state.live.saturating_sub(1);
                change(state);
            }
        });
    }

    pub(super) fn container_completed(&mut self, path: &Path) {
        let Some((frame_path, _)) = self.locate(path) else { return };
        let Some(FrameState::Inside(_, container)) = self.frames.get_mut(&frame_path).map(|frame| &mut frame.state) else { return };
        match std::mem::replace(&mut container.inside, Inside::Region) {
            Inside::Parallel(state) => {
                if let Some(frame) = self.frames.get_mut(&frame_path) {
                    frame.vars.extend(state.vars);
                }
                self.complete(path, Value::Null, Value::Null);
            }
            Inside::Loop(state) => {
                let output = Value::Array(state.values.into_values().collect());
                let mut bound = Map::new();
                bound.insert("output".into(), output.clone());
                bound.insert("_errors".into(), Value::Array(state.failures.into_values().collect()));
                self.bind_and_move_on(path, Value::Object(bound), output);
            }
            Inside::Region | Inside::Call { .. } => {}
        }
    }

    /// Nothing inside the container starts any more: only attempts in flight keep their frames.
    pub(super) fn stop_container(&mut self, path: &Path, error: &RunError) {
        let Some((frame_path, _)) = self.locate(path) else { return };
        let mut inner = self.beneath(path);
        inner.push(path.clone());
        for frame in inner {
            self.stops.remove(&frame);
            if self.frames.get(&frame).is_some_and(|frame| !frame.state.is_in_flight()) {
                self.close(&frame);
            }
        }
        self.stops.insert(path.clone(), frame_path);
        self.change_container(path, |container| container.stopped = Some(error.clone()));
        self.drain(path);
    }

    /// An attempt that was being stopped is over.
    pub(super) fn attempt_cancelled(&mut self, path: &Path, attempt: u32, at: Millis) {
        self.leave_cancelled_open(path, attempt);
        let stops: Vec<Path> = self.stops.keys().filter(|stop| path.is_inside(stop)).cloned().collect();
        if stops.is_empty() {
            return self.set_phase(path, Phase::Due { at });
        }
        self.close(&path.parent());
        for stop in stops {
            self.drain(&stop);
        }
    }

    /// What an attempt did before it heard that it was to stop is not known either.
    fn leave_cancelled_open(&mut self, path: &Path, attempt: u32) {
        if path.purpose() == Purpose::Work && self.job_at(path).is_some_and(ScriptState::is_in_flight) {
            let failure = Failure::new(Class::ScriptBroken, "the attempt was told to stop; whether it took effect is unknown");
            self.ledger.leave_open(path, Some(RunError::of_entry(path, path.last(), Some(attempt), &failure)));
        }
    }

    /// A frame whose attempt is over goes, if what it lies in is being stopped.
    pub(super) fn leave_if_stopped(&mut self, frame: &Path) {
        let stops: Vec<Path> = self.stops.keys().filter(|stop| frame == *stop || frame.is_inside(stop)).cloned().collect();
        if !stops.is_empty() {
            self.close(frame);
        }
        for stop in stops {
            self.drain(&stop);
        }
    }

    /// Notes that nothing of a stopped container runs any more, if so.
    fn drain(&mut self, path: &Path) {
        if self.beneath(path).is_empty() && !self.frames.contains_key(path) {
            self.change_container(path, |container| container.drained = true);
        }
    }

    fn change_container(&mut self, path: &Path, change: impl FnOnce(&mut Container)) {
        let frame_path = path.parent();
        if let Some(FrameState::Inside(_, container)) = self.frames.get_mut(&frame_path).map(|frame| &mut frame.state) {
            change(container);
        }
        self.reindex(&frame_path);
    }
}
