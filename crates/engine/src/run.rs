//! A run's state: the fold of its events. What the state means is here; how events change it is in `apply`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::expression::Scope;
use crate::failure::RunError;
use crate::ir::{Definition, Node, RegionId};
use crate::journal::{Created, Millis};
use crate::mutants::{self, Mutant};
use crate::path::Path;

/// What a run is doing, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Created; no engine has begun with it.
    Queued,
    /// Something of it runs, is about to run, or waits to be tried again.
    Running,
    /// Nothing of it runs, and it waits for time, an event or a person.
    Waiting,
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
            Status::Waiting => "waiting",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// Everything that a run can execute: its own definition and those of the workflows it can call.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The run's own.
    pub main: Arc<Definition>,
    /// By [`crate::ir::Call::key`].
    pub called: BTreeMap<String, Arc<Definition>>,
}

impl Program {
    /// The definition of a called workflow, or the run's own.
    pub(crate) fn definition(&self, workflow: Option<&str>) -> &Definition {
        workflow.and_then(|name| self.called.get(name)).unwrap_or(&self.main)
    }

    pub(crate) fn node(&self, workflow: Option<&str>, region: RegionId, number: usize) -> Option<&Node> {
        self.definition(workflow).regions.get(region)?.nodes.get(number)
    }
}

impl From<Definition> for Program {
    fn from(main: Definition) -> Program {
        Program { main: Arc::new(main), called: BTreeMap::new() }
    }
}

/// The state of one run. Two runs are equal if nothing that can still happen to them can tell them apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What it runs.
    pub program: Arc<Program>,
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
    /// The last failure of each entry that is not through yet, newest last: the causes of a deadline's error.
    pub(crate) errors: Vec<RunError>,
    /// Live frames; the root's path is empty.
    pub(crate) frames: BTreeMap<Path, Frame>,
    /// Frames that can move by themselves, without waiting for the world.
    pub(crate) movable: BTreeSet<Path>,
    /// Frames that owe or await an attempt.
    pub(crate) busy: BTreeSet<Path>,
    /// Frames that time alone will change: a wait, a called workflow with a budget.
    pub(crate) timed: BTreeSet<Path>,
    /// Containers that are being stopped, and the frame each lies in.
    pub(crate) stops: BTreeMap<Path, Path>,
    /// Events that no wait has taken yet.
    pub(crate) inbox: BTreeMap<String, VecDeque<Value>>,
    /// Tasks deferred so far, by the entry that asked for them.
    pub(crate) deferred: Vec<DeferredTask>,
    pub(crate) active: ActiveClock,
    pub(crate) inputs_value: Value,
    pub(crate) run_value: Value,
}

/// Work that is submitted if the whole run succeeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeferredTask {
    /// The entry whose attempt asked for it.
    pub path: Path,
    /// Which attempt.
    pub attempt: u32,
    /// The workflow to start.
    pub workflow: String,
    /// Its version.
    pub version: u64,
    /// The catalogue revision that it pins.
    pub revision: u64,
    /// Its inputs.
    pub args: Value,
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ActiveClock {
    pub used_ms: u64,
    pub since: Option<Millis>,
}

impl ActiveClock {
    pub(crate) fn used_at(&self, now: Millis) -> u64 {
        let running = self.since.map_or(0, |since| u64::try_from(now.saturating_sub(since)).unwrap_or(0));
        self.used_ms.saturating_add(running)
    }
}

/// A region that is running.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The called workflow it belongs to; `None` for the run's own.
    pub workflow: Option<String>,
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
    /// A branch of this parallel.
    Branch {
        owner: Path,
        branch: usize,
    },
    /// An iteration of this loop.
    Iteration {
        owner: Path,
        index: usize,
    },
    /// A called workflow.
    Callee,
}

/// Where a frame is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameState {
    /// About to enter a node.
    At(usize),
    /// At a script.
    Script(usize, ScriptState),
    /// At a node whose own frames are running.
    Inside(usize, Container),
    /// At a wait.
    Waiting(usize, WaitState),
    /// A node failed for good; a policy is about to see it.
    Broken(usize, RunError),
    /// Through, with the last entry's value.
    Done(Value),
}

/// A node whose own frames are running.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Container {
    pub inside: Inside,
    /// What it fails with once nothing inside it runs any more.
    pub stopped: Option<RunError>,
    /// Whether that is so.
    pub drained: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inside {
    /// One region: an arm or a recovery.
    Region,
    Parallel(ParallelState),
    Loop(LoopState),
    Call {
        deadline: Option<Millis>,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ParallelState {
    pub total: usize,
    pub limit: usize,
    pub next: usize,
    pub live: usize,
    /// What the entries of finished branches stand for.
    pub vars: BTreeMap<String, Value>,
    pub failures: Vec<RunError>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LoopState {
    /// `None` with `while`.
    pub items: Option<Arc<Vec<Value>>>,
    pub limit: usize,
    pub next: usize,
    pub live: usize,
    pub values: BTreeMap<usize, Value>,
    /// `{index, error}` of each tolerated failure.
    pub failures: BTreeMap<usize, Value>,
}

/// An entered wait.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaitState {
    pub due: Option<Millis>,
    pub event: Option<String>,
}

/// An entered script entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptState {
    pub args: Arc<Value>,
    /// The attempt that is due, in flight or has failed; 1 is the first.
    pub attempt: u32,
    pub phase: Phase,
    /// Re-runs after a crash that only `idempotent: true` allowed.
    pub reruns: u32,
}

/// What an entered script is waiting for.
#[derive(Clone, Debug, PartialEq)]
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
    pub fn new(program: Arc<Program>, created: Created, at: Millis) -> Run {
        let run_value = json!({
            "id": created.run,
            "workflow": created.workflow,
            "version": created.version,
            "started_at": crate::record::rfc3339(at),
        });
        let root = Frame { workflow: None, region: program.main.root, parent: None, role: Role::Root, vars: BTreeMap::new(), state: FrameState::At(0) };
        let mut run = Run {
            inputs_value: Value::Object(created.inputs.clone()),
            run_value,
            program,
            created,
            created_at: at,
            status: Status::Queued,
            outputs: None,
            error: None,
            stopping: None,
            errors: Vec::new(),
            frames: BTreeMap::new(),
            movable: BTreeSet::new(),
            busy: BTreeSet::new(),
            timed: BTreeSet::new(),
            stops: BTreeMap::new(),
            inbox: BTreeMap::new(),
            deferred: Vec::new(),
            active: ActiveClock::default(),
        };
        run.open(Path::root(), root);
        run
    }

    /// The node that `frame` is at, with its number.
    pub(crate) fn node(&self, frame: &Frame, number: usize) -> Option<&Node> {
        self.program.node(frame.workflow.as_deref(), frame.region, number)
    }

    /// The frame and the node's number that an entry's path names, if that entry is what its frame is at.
    pub(crate) fn locate(&self, path: &Path) -> Option<(Path, usize)> {
        let frame_path = path.parent();
        let frame = self.frames.get(&frame_path)?;
        let number = frame.state.node_number()?;
        (self.node(frame, number)?.id == path.last()).then_some((frame_path, number))
    }

    /// The state of the script entry at `path`, if it is live.
    pub(crate) fn script_at(&self, path: &Path) -> Option<&ScriptState> {
        let frame = self.frames.get(&path.parent())?;
        match &frame.state {
            FrameState::Script(number, script) if self.node(frame, *number)?.id == path.last() => Some(script),
            _ => None,
        }
    }

    /// The container at `path`, if it is live.
    pub(crate) fn container_at(&self, path: &Path) -> Option<&Container> {
        match &self.frames.get(&path.parent())?.state {
            FrameState::Inside(_, container) => Some(container),
            _ => None,
        }
    }

    pub(crate) fn open(&mut self, path: Path, frame: Frame) {
        self.frames.insert(path.clone(), frame);
        self.reindex(&path);
    }

    pub(crate) fn close(&mut self, path: &Path) -> Option<Frame> {
        for set in [&mut self.movable, &mut self.busy, &mut self.timed] {
            set.remove(path);
        }
        self.frames.remove(path)
    }

    /// Closes the frames of the entry at `path`: the one at that very path, and all beneath it.
    pub(crate) fn close_inside(&mut self, path: &Path) {
        for inner in self.beneath(path) {
            self.close(&inner);
            self.stops.remove(&inner);
        }
        self.close(path);
        self.stops.remove(path);
    }

    /// The paths of the frames beneath `path`, not the one at it.
    pub(crate) fn beneath(&self, path: &Path) -> Vec<Path> {
        let mut found = Vec::new();
        for prefix in path.inner_prefixes() {
            let from = self.frames.range(Path::from(prefix.as_str())..).map(|(path, _)| path);
            found.extend(from.take_while(|path| path.as_str().starts_with(&prefix)).cloned());
        }
        found
    }

    /// Whether nothing new may start at `path`, because the run or a container around it is being stopped.
    pub(crate) fn is_stopped(&self, path: &Path) -> bool {
        self.stopping.is_some() || self.stops.keys().any(|stop| path.is_inside(stop))
    }

    /// Changes a frame's state.
    pub(crate) fn set_state(&mut self, path: &Path, state: FrameState) {
        if let Some(frame) = self.frames.get_mut(path) {
            frame.state = state;
            self.reindex(path);
        }
    }

    /// Brings the indices in step with a frame's state.
    pub(crate) fn reindex(&mut self, path: &Path) {
        let Some(frame) = self.frames.get(path) else { return };
        let (movable, busy, timed) = match &frame.state {
            FrameState::At(_) | FrameState::Done(_) | FrameState::Broken(..) => (true, false, false),
            FrameState::Script(_, script) => match script.phase {
                Phase::Exhausted(_) => (true, false, false),
                Phase::Due { .. } | Phase::InFlight { .. } => (false, true, false),
            },
            FrameState::Inside(_, container) => (container.is_movable(), false, container.deadline().is_some()),
            FrameState::Waiting(_, wait) => (false, false, wait.due.is_some()),
        };
        index(&mut self.movable, path, movable);
        index(&mut self.busy, path, busy);
        index(&mut self.timed, path, timed);
    }

    /// What is left of the strictest budget; `None` if the run has none.
    pub fn remaining_ms(&self, now: Millis) -> Option<u64> {
        let wall = self.created.deadline.map(|deadline| u64::try_from(deadline.saturating_sub(now)).unwrap_or(0));
        let active = self.created.active_budget_ms.map(|budget| budget.saturating_sub(self.active.used_at(now)));
        wall.into_iter().chain(active).min()
    }

    /// What is left for an entry at `path`: of the run's budget and of those of the called workflows around it.
    pub(crate) fn remaining_at_ms(&self, path: &Path, now: Millis) -> Option<u64> {
        let calls = self.timed.iter().filter_map(|frame_path| {
            let frame = self.frames.get(frame_path)?;
            let FrameState::Inside(number, container) = &frame.state else { return None };
            let entry = frame_path.child(&self.node(frame, *number)?.id);
            let left = container.deadline().map(|deadline| u64::try_from(deadline.saturating_sub(now)).unwrap_or(0));
            left.filter(|_| path.is_inside(&entry))
        });
        calls.chain(self.remaining_ms(now)).min()
    }

    /// Whether an attempt is in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.busy.iter().any(|path| self.frames.get(path).is_some_and(|frame| frame.state.is_in_flight()))
    }

    /// The tasks recorded so far: of each entry, only its last attempt's.
    pub fn deferred_tasks(&self) -> &[DeferredTask] {
        &self.deferred
    }

    /// The tasks to submit in the commit that ended the run: none unless all of it succeeded.
    pub fn submissions(&self) -> &[DeferredTask] {
        let ended_well = self.status == Status::Succeeded || (mutants::on(Mutant::SubmitOnFailure) && self.status == Status::Failed);
        if ended_well { &self.deferred } else { &[] }
    }

    /// The newest failure of an attempt inside `path` (everywhere: the root) that nothing has made good yet.
    pub(crate) fn last_error(&self, path: &Path) -> Option<&RunError> {
        self.errors.iter().rev().find(|error| error.path.as_ref().is_some_and(|at| at.is_inside(path)))
    }

    /// The values that names stand for in the frame at `path`.
    pub(crate) fn scope(&self, path: &Path) -> FrameScope<'_> {
        FrameScope { run: self, frame: self.frames.get(path) }
    }
}

impl Container {
    pub(crate) fn new(inside: Inside) -> Container {
        Container { inside, stopped: None, drained: false }
    }

    /// Whether it can start something or is through.
    fn is_movable(&self) -> bool {
        if self.stopped.is_some() {
            return self.drained;
        }
        match &self.inside {
            Inside::Region | Inside::Call { .. } => false,
            Inside::Parallel(state) => state.live == 0 || (state.next < state.total && state.live < state.limit),
            Inside::Loop(state) => state.live == 0 || state.items.as_ref().is_some_and(|items| state.next < items.len() && state.live < state.limit),
        }
    }

    fn deadline(&self) -> Option<Millis> {
        match self.inside {
            Inside::Call { deadline } if self.stopped.is_none() => deadline,
            _ => None,
        }
    }
}

impl FrameState {
    /// The node that the frame is at.
    pub(crate) fn node_number(&self) -> Option<usize> {
        match self {
            FrameState::At(number)
            | FrameState::Script(number, _)
            | FrameState::Inside(number, _)
            | FrameState::Waiting(number, _)
            | FrameState::Broken(number, _) => Some(*number),
            FrameState::Done(_) => None,
        }
    }

    /// Whether an attempt of it is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self, FrameState::Script(_, script) if matches!(script.phase, Phase::InFlight { .. }))
    }

    /// When time alone changes it.
    pub(crate) fn due(&self) -> Option<Millis> {
        match self {
            FrameState::Inside(_, container) => container.deadline(),
            FrameState::Waiting(_, wait) => wait.due,
            _ => None,
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
        if name == "run" {
            return Some(&self.run.run_value);
        }
        let mut frame = self.frame;
        while let Some(current) = frame {
            if let Some(value) = current.vars.get(name) {
                return Some(value);
            }
            if current.role == Role::Callee {
                // A called workflow sees nothing of its caller but its inputs.
                return None;
            }
            frame = current.parent.as_ref().and_then(|path| self.run.frames.get(path));
        }
        (name == "inputs").then_some(&self.run.inputs_value)
    }
}
