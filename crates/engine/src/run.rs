//! A run's state: the fold of its events. What the state means is here; how events change it is in `apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::expression::Scope;
use crate::failure::RunError;
use crate::ir::{Definition, Node, RegionId};
use crate::journal::{Created, Millis};
use crate::path::Path;

/// What a run is doing, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Created; no engine has begun with it.
    Queued,
    /// Something of it runs, is about to run, or waits to be tried again.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It was cancelled and nothing of it is left running.
    Cancelled,
}

impl Status {
    /// Whether nothing more happens by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Succeeded | Status::Failed | Status::Cancelled)
    }

    /// The status's name in records and filters.
    pub fn name(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// The state of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it runs.
    pub definition: Arc<Definition>,
    /// How it began.
    pub created: Created,
    /// When it was created.
    pub created_at: Millis,
    /// What it is doing.
    pub status: Status,
    /// The run's outputs, once it succeeded.
    pub outputs: Option<Value>,
    /// Why it ended, if not well.
    pub error: Option<RunError>,
    /// Why nothing new starts any more, if so.
    pub stopping: Option<Stopping>,
    /// The newest final failure of an attempt: the cause of a deadline's error.
    pub(crate) last_error: Option<RunError>,
    /// Live frames; the root's path is empty.
    pub(crate) frames: BTreeMap<Path, Frame>,
    /// Frames that can move by themselves, without waiting for the world.
    pub(crate) movable: BTreeSet<Path>,
    /// Frames that owe or await an attempt.
    pub(crate) busy: BTreeSet<Path>,
    pub(crate) active: ActiveClock,
    pub(crate) inputs_value: Value,
    pub(crate) run_value: Value,
}

/// Why nothing new starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Stopping {
    /// A cancel was asked for.
    Cancel {
        /// By whom and why, as one sentence.
        message: String,
    },
    /// The run's budget is spent.
    Deadline {
        /// What was spent.
        message: String,
    },
}

/// The time that counts against the default execution deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ActiveClock {
    pub used_ms: u64,
    pub since: Option<Millis>,
}

impl ActiveClock {
    pub(crate) fn used_at(&self, now: Millis) -> u64 {
        let running = self.since.map_or(0, |since| u64::try_from(now - since).unwrap_or(0));
        self.used_ms + running
    }
}

/// A region that is running.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub region: RegionId,
    /// The frame that holds the entry this region belongs to; `None` for the root.
    pub parent: Option<Path>,
    pub role: Role,
    /// What names stand for here: `id → {"output", "_error"}` and such.
    pub vars: BTreeMap<String, Value>,
    pub state: FrameState,
}

/// What a frame is to its owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Role {
    Root,
    /// A branch of a choice.
    Arm,
    /// The recovery from this error.
    Catch(RunError),
}

/// Where a frame is.
#[derive(Clone, Debug)]
pub(crate) enum FrameState {
    /// About to enter a node.
    At(usize),
    /// At a script.
    Script(usize, ScriptState),
    /// At a node whose own frames are running.
    Inside(usize),
    /// Through, with the last entry's value.
    Done(Value),
}

/// An entered script entry.
#[derive(Clone, Debug)]
pub(crate) struct ScriptState {
    pub args: Arc<Value>,
    /// The attempt that is due, in flight or has failed; 1 is the first.
    pub attempt: u32,
    pub phase: Phase,
    /// Re-runs after a crash that only `idempotent: true` allowed.
    pub reruns: u32,
}

/// What an entered script is waiting for.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// An attempt should run, not before `at`.
    Due { at: Millis },
    /// An attempt runs.
    InFlight { id: String, tree: Value },
    /// The last attempt failed for good; a policy is about to see it.
    Exhausted(RunError),
}

impl Run {
    /// The run as its first event leaves it.
    pub fn new(definition: Arc<Definition>, created: Created, at: Millis) -> Run {
        let run_value = json!({
            "id": created.run,
            "workflow": created.workflow,
            "version": created.version,
            "started_at": crate::record::rfc3339(at),
        });
        let root = Frame { region: definition.root, parent: None, role: Role::Root, vars: BTreeMap::new(), state: FrameState::At(0) };
        let mut run = Run {
            inputs_value: Value::Object(created.inputs.clone()),
            run_value,
            definition,
            created,
            created_at: at,
            status: Status::Queued,
            outputs: None,
            error: None,
            stopping: None,
            last_error: None,
            frames: BTreeMap::new(),
            movable: BTreeSet::new(),
            busy: BTreeSet::new(),
            active: ActiveClock::default(),
        };
        run.open(Path::root(), root);
        run
    }

    /// The node that `frame` is at, with its number.
    pub(crate) fn node(&self, frame: &Frame, number: usize) -> Option<&Node> {
        self.definition.regions.get(frame.region)?.nodes.get(number)
    }

    /// The frame and the node's number that an entry's path names, if that entry is what its frame is at.
    pub(crate) fn locate(&self, path: &Path) -> Option<(Path, usize)> {
        let frame_path = path.parent();
        let frame = self.frames.get(&frame_path)?;
        let number = frame.state.node_number()?;
        let node = self.node(frame, number)?;
        (frame_path.child(&node.id) == *path).then_some((frame_path, number))
    }

    /// The script state of the entry at `path`, if it is live.
    pub(crate) fn script_at(&self, path: &Path) -> Option<&ScriptState> {
        match &self.frames.get(&path.parent())?.state {
            FrameState::Script(number, script) => {
                let frame = self.frames.get(&path.parent())?;
                (path.parent().child(&self.node(frame, *number)?.id) == *path).then_some(script)
            }
            _ => None,
        }
    }

    pub(crate) fn open(&mut self, path: Path, frame: Frame) {
        let state = frame.state.clone();
        self.frames.insert(path.clone(), frame);
        self.set_state(&path, state);
    }

    pub(crate) fn close(&mut self, path: &Path) {
        self.frames.remove(path);
        self.movable.remove(path);
        self.busy.remove(path);
    }

    /// Changes a frame's state and keeps the two indices in step with it.
    pub(crate) fn set_state(&mut self, path: &Path, state: FrameState) {
        let (movable, busy) = match &state {
            FrameState::At(_) | FrameState::Done(_) => (true, false),
            FrameState::Script(_, script) => match script.phase {
                Phase::Exhausted(_) => (true, false),
                Phase::Due { .. } | Phase::InFlight { .. } => (false, true),
            },
            FrameState::Inside(_) => (false, false),
        };
        index(&mut self.movable, path, movable);
        index(&mut self.busy, path, busy);
        if let Some(frame) = self.frames.get_mut(path) {
            frame.state = state;
        }
    }

    /// What is left of the strictest budget; `None` if the run has none.
    pub fn remaining_ms(&self, now: Millis) -> Option<u64> {
        let wall = self.created.deadline.map(|deadline| u64::try_from(deadline - now).unwrap_or(0));
        let active = self.created.active_budget_ms.map(|budget| budget.saturating_sub(self.active.used_at(now)));
        match (wall, active) {
            (Some(wall), Some(active)) => Some(wall.min(active)),
            (wall, active) => wall.or(active),
        }
    }

    /// Whether an attempt is in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.busy.iter().any(|path| matches!(self.frames.get(path).map(|frame| &frame.state), Some(FrameState::Script(_, script)) if matches!(script.phase, Phase::InFlight { .. })))
    }

    /// The values that names stand for in the frame at `path`.
    pub(crate) fn scope(&self, path: &Path) -> FrameScope<'_> {
        FrameScope { run: self, frame: self.frames.get(path) }
    }
}

impl FrameState {
    /// The node that the frame is at.
    pub(crate) fn node_number(&self) -> Option<usize> {
        match self {
            FrameState::At(number) | FrameState::Script(number, _) | FrameState::Inside(number) => Some(*number),
            FrameState::Done(_) => None,
        }
    }
}

fn index(set: &mut BTreeSet<Path>, path: &Path, member: bool) {
    if !member {
        set.remove(path);
    } else if !set.contains(path) {
        set.insert(path.clone());
    }
}

/// What an entry's name stands for once it is through.
pub(crate) fn bound(output: Value, error: Value) -> Value {
    let mut map = Map::with_capacity(2);
    map.insert("output".into(), output);
    map.insert("_error".into(), error);
    Value::Object(map)
}

/// Looks names up in a frame, then in the frames around it.
pub(crate) struct FrameScope<'a> {
    run: &'a Run,
    frame: Option<&'a Frame>,
}

impl Scope for FrameScope<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        match name {
            "inputs" => return Some(&self.run.inputs_value),
            "run" => return Some(&self.run.run_value),
            _ => {}
        }
        let mut frame = self.frame;
        while let Some(current) = frame {
            if let Some(value) = current.vars.get(name) {
                return Some(value);
            }
            frame = current.parent.as_ref().and_then(|path| self.run.frames.get(path));
        }
        None
    }
}
