//! The frames of a run: regions that are running, and where each is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::failure::RunError;
use crate::ir::RegionId;
use crate::journal::{Ending, Millis, ReviewRequest, Undone};
use crate::path::Path;

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
    pub vars: BTreeMap<String, Arc<Value>>,
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
    /// At a wait or a review.
    Waiting(usize, WaitState),
    /// At a `compensate` entry.
    Undoing(usize, EntryUndo),
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
    pub vars: BTreeMap<String, Arc<Value>>,
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
    pub review: Option<Box<ReviewState>>,
}

/// A review that nobody has decided yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReviewState {
    pub request: ReviewRequest,
    /// How many of its reminders are through.
    pub reminded: usize,
}

/// Effects that are being undone, one at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Undoing {
    /// Newest first.
    pub queue: VecDeque<Path>,
    /// The attempts at the one whose turn it is, by the path of the effect.
    pub job: Option<(Path, ScriptState)>,
}

/// An entered `compensate` entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryUndo {
    pub targets: Vec<(String, Path)>,
    pub undoing: Undoing,
    /// What came of each effect so far.
    pub outcomes: BTreeMap<Path, Undone>,
}

/// A run that undoes its effects before it ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunUndo {
    /// What it will have ended as, and why.
    pub outcome: Ending,
    pub error: RunError,
    pub deadline: Option<Millis>,
    /// Whether its time is over.
    pub expired: bool,
    pub undoing: Undoing,
}

/// The attempts of one script: of an entry, of its `resolve`, of its `compensate`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptState {
    pub args: Arc<Value>,
    /// The author's idempotency key.
    pub key: Option<Arc<str>>,
    /// The attempt that is due, in flight or has failed; 1 is the first.
    pub attempt: u32,
    /// The attempt that this series began with: a resumed entry counts on from its last one.
    pub first: u32,
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
    /// It is being found out what came of the last attempt.
    Resolving(Unsettled, Box<ScriptState>),
    /// A person has to say what came of the last attempt.
    Attention(Unsettled),
}

/// An attempt of unknown outcome.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unsettled {
    pub attempt: u32,
    pub error: RunError,
    /// Whether another attempt follows if it did not take effect.
    pub retry: bool,
}

impl Phase {
    /// When an attempt should run, if one is owed.
    pub(crate) fn due(&self) -> Option<Millis> {
        if let Phase::Due { at } = self { Some(*at) } else { None }
    }
}

impl ScriptState {
    pub(crate) fn new(args: Arc<Value>, key: Option<Arc<str>>, first: u32, at: Millis) -> ScriptState {
        ScriptState { args, key, attempt: first, first, phase: Phase::Due { at }, reruns: 0 }
    }

    /// The attempts that the world owes now: its own, or those of its `resolve`.
    pub(crate) fn job(&self) -> &ScriptState {
        match &self.phase {
            Phase::Resolving(_, job) => job,
            Phase::Due { .. } | Phase::InFlight { .. } | Phase::Exhausted(_) | Phase::Attention(_) => self,
        }
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.job().phase, Phase::InFlight { .. })
    }
}

impl WaitState {
    /// When time alone changes it: a reminder, or its end.
    pub(crate) fn next(&self) -> Option<Millis> {
        let reminder = self.review.as_ref().and_then(|review| review.request.remind.get(review.reminded).copied());
        reminder.into_iter().chain(self.due).min()
    }
}

impl Container {
    pub(crate) fn new(inside: Inside) -> Container {
        Container { inside, stopped: None, drained: false }
    }

    /// Whether it can start something or is through.
    pub(super) fn is_movable(&self) -> bool {
        if self.stopped.is_some() {
            return self.drained;
        }
        match &self.inside {
            Inside::Region | Inside::Call { .. } => false,
            Inside::Parallel(state) => state.live == 0 || (state.next < state.total && state.live < state.limit),
            Inside::Loop(state) => state.live == 0 || state.items.as_ref().is_some_and(|items| state.next < items.len() && state.live < state.limit),
        }
    }

    pub(super) fn deadline(&self) -> Option<Millis> {
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
            | FrameState::Undoing(number, _)
            | FrameState::Broken(number, _) => Some(*number),
            FrameState::Done(_) => None,
        }
    }

    /// Whether an attempt of it is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        match self {
            FrameState::Script(_, script) => script.is_in_flight(),
            FrameState::Undoing(_, undo) => undo.undoing.job.as_ref().is_some_and(|(_, job)| job.is_in_flight()),
            _ => false,
        }
    }
}
