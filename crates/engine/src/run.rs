//! A run's state: the fold of its events. What the state means is here; how events change it is in `apply`.

mod calendar;
mod failures;
mod frame;
mod index;
mod jobs;
mod ledger;
mod scope;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::failure::RunError;
use crate::ir::{Definition, Node, RegionId};
use crate::journal::{Created, Millis};
use crate::mutants::{self, Mutant};
use crate::path::Path;

pub(crate) use calendar::Calendar;
pub(crate) use failures::Failures;
pub(crate) use frame::{
    Container, EntryUndo, Frame, FrameState, Inside, LoopState, ParallelState, Phase, ReviewState, Role, RunUndo, ScriptState, Undoing, Unsettled, WaitState,
};
pub(crate) use jobs::Job;
pub(crate) use ledger::{Ledger, Memo, Standing};
pub(crate) use scope::FrameScope;

use index::inside;

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
    /// What came of an attempt is unknown and cannot be found out: a person has to say.
    NeedsAttention,
    /// It ends badly, and undoes its effects first.
    Compensating,
    /// It ended well.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It was cancelled and nothing of it is left running.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 8] =
        [Status::Queued, Status::Running, Status::Waiting, Status::NeedsAttention, Status::Compensating, Status::Succeeded, Status::Failed, Status::Cancelled];

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
            Status::NeedsAttention => "needs_attention",
            Status::Compensating => "compensating",
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
    /// The version of its workflow that it runs; another than it began with once it was migrated.
    pub version: u64,
    /// The catalogue revision that pins what it reaches.
    pub revision: u64,
    /// The wall-clock deadline, and since when its budget counts; both anew when it is resumed.
    pub deadline: Option<Millis>,
    pub(crate) budget_since: Millis,
    /// What it is doing.
    pub status: Status,
    /// The run's outputs, once it succeeded.
    pub outputs: Option<Value>,
    /// Why it ended, if not well.
    pub error: Option<RunError>,
    /// Why nothing new starts any more, if so.
    pub stopping: Option<Stopping>,
    /// The last failure of each entry that is not through yet: the causes of a deadline's error.
    pub(crate) errors: Failures,
    /// Live frames; the root's path is empty.
    pub(crate) frames: BTreeMap<Path, Frame>,
    /// Frames that can move by themselves, without waiting for the world.
    pub(crate) movable: BTreeSet<Path>,
    /// Frames that owe an attempt, and when.
    pub(crate) due: Calendar,
    /// Frames that await the end of an attempt.
    pub(crate) flying: BTreeSet<Path>,
    /// Those that owe an attempt for which there is no time at all.
    pub(crate) spent: BTreeSet<Path>,
    /// Frames that time alone will change, and when: a wait, a called workflow with a budget.
    pub(crate) timed: Calendar,
    /// Frames at entries about which a person has to say something.
    pub(crate) asking: BTreeSet<Path>,
    /// Containers that are being stopped, and the frame each lies in.
    pub(crate) stops: BTreeMap<Path, Path>,
    /// Events that no wait has taken yet.
    pub(crate) inbox: BTreeMap<String, VecDeque<Value>>,
    /// Tasks deferred so far, by the entry that asked for them.
    pub(crate) deferred: Vec<DeferredTask>,
    pub(crate) ledger: Ledger,
    /// What is being undone before the run ends.
    pub(crate) undo: Option<RunUndo>,
    /// Whose turn it is to be undone, by effect: for a `compensate` entry in this frame, or (`None`) for the run.
    pub(crate) undo_jobs: BTreeMap<Path, Option<Path>>,
    /// Waits that go on as they were when the run is begun anew.
    pub(crate) kept_waits: BTreeMap<Path, WaitState>,
    /// What the run goes on with once it is migrated.
    pub(crate) next_program: Option<Arc<Program>>,
    pub(crate) active: ActiveClock,
    /// What the run takes where it is kept, in bytes: by its events' weights, until whoever keeps it says what it really is.
    pub kept_bytes: u64,
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

impl Run {
    /// The run as its first event leaves it.
    pub fn new(program: Arc<Program>, created: Created, at: Millis) -> Run {
        let run_value = json!({
            "id": created.run,
            "workflow": created.workflow,
            "version": created.version,
            "started_at": crate::record::rfc3339(at),
        });
        let mut run = Run {
            inputs_value: Value::Object(created.inputs.clone()),
            run_value,
            version: created.version,
            revision: created.revision,
            deadline: created.deadline,
            budget_since: at,
            program,
            created,
            created_at: at,
            status: Status::Queued,
            outputs: None,
            error: None,
            stopping: None,
            errors: Failures::default(),
            frames: BTreeMap::new(),
            movable: BTreeSet::new(),
            due: Calendar::default(),
            flying: BTreeSet::new(),
            spent: BTreeSet::new(),
            timed: Calendar::default(),
            asking: BTreeSet::new(),
            stops: BTreeMap::new(),
            ledger: Ledger::default(),
            undo: None,
            undo_jobs: BTreeMap::new(),
            kept_waits: BTreeMap::new(),
            next_program: None,
            inbox: BTreeMap::new(),
            deferred: Vec::new(),
            active: ActiveClock::default(),
            kept_bytes: 0,
        };
        run.open_root();
        run
    }

    /// Begins at the first entry.
    pub(crate) fn open_root(&mut self) {
        let region = self.program.main.root;
        let root = Frame { workflow: None, region, parent: None, role: Role::Root, vars: BTreeMap::new(), state: FrameState::At(0) };
        self.open(Path::root(), root);
    }

    /// The entry of this id in the region that the frame at `frame` runs, wherever the frame is by now.
    pub(crate) fn node_named(&self, frame: &Path, id: &str) -> Option<&Node> {
        let frame = self.frames.get(frame)?;
        self.program.definition(frame.workflow.as_deref()).regions.get(frame.region)?.nodes.iter().find(|node| node.id == id)
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

    /// What was about to be undone is not: it is in place, as it was.
    fn hand_back(&mut self, undoing: &Undoing) {
        let job = undoing.job.as_ref().map(|(effect, _)| effect);
        for effect in undoing.queue.iter().chain(job) {
            self.undo_jobs.remove(effect);
            if let Some(effect) = self.ledger.effect_mut(effect).filter(|effect| effect.standing == Standing::Undoing) {
                effect.standing = effect.before;
            }
        }
    }

    /// What is left for what undoes the run's effects before it ends.
    pub(crate) fn undo_remaining_ms(&self, now: Millis) -> Option<u64> {
        let deadline = self.undo.as_ref()?.deadline?;
        Some(u64::try_from(deadline.saturating_sub(now)).unwrap_or(0))
    }

    /// Whether nothing new may start at `path`, because the run or a container around it is being stopped.
    pub(crate) fn is_stopped(&self, path: &Path) -> bool {
        self.stopping.is_some() || self.stops.keys().any(|stop| path.is_inside(stop))
    }

    /// What is ending the run, or has ended it.
    pub(crate) fn why_it_stops(&self) -> Option<&str> {
        match &self.stopping {
            Some(Stopping::Cancel { message } | Stopping::Deadline { message }) => Some(message),
            None => self.error.as_ref().filter(|_| self.status.is_terminal()).map(|error| error.message.as_str()),
        }
    }

    /// What is left of the strictest budget; `None` if the run has none.
    pub fn remaining_ms(&self, now: Millis) -> Option<u64> {
        let wall = self.deadline.map(|deadline| u64::try_from(deadline.saturating_sub(now)).unwrap_or(0));
        let active = self.created.active_budget_ms.map(|budget| budget.saturating_sub(self.active.used_at(now)));
        wall.into_iter().chain(active).min()
    }

    /// What is left for an entry at `path`: of the run's budget and of those of the called workflows around it.
    pub(crate) fn remaining_at_ms(&self, path: &Path, now: Millis) -> Option<u64> {
        let ancestors = path.ancestors();
        let calls = ancestors.iter().filter_map(|entry| {
            let (frame_path, _) = self.locate(entry)?;
            let FrameState::Inside(_, container) = &self.frames.get(&frame_path)?.state else { return None };
            container.deadline().map(|deadline| u64::try_from(deadline.saturating_sub(now)).unwrap_or(0))
        });
        calls.chain(self.remaining_ms(now)).min()
    }

    /// Whether an attempt is in flight, one of the run's own undoing not counted.
    pub(crate) fn has_in_flight(&self) -> bool {
        !self.flying.is_empty()
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
        self.errors.newest().find(|(at, _)| at.is_inside(path)).map(|(_, error)| error)
    }

    /// The values that names stand for in the frame at `path`.
    pub(crate) fn scope(&self, path: &Path) -> FrameScope<'_> {
        FrameScope { run: self, frame: self.frames.get(path) }
    }
}

/// What an entry's name stands for once it is through.
pub(crate) fn bound(output: Value, error: Value) -> Value {
    let mut map = Map::with_capacity(2);
    map.insert("output".into(), output);
    map.insert("_error".into(), error);
    Value::Object(map)
}
