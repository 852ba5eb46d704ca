//! Everything that can ever have happened to a run: the only format that the engine persists.
//!
//! An [`Event`] is a past-tense fact. Events are appended in a [`Batch`]: what one decision made of one input, durable as a whole.

mod again;
mod review;
mod undo;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::{Failure, RunError};
use crate::path::Path;
use crate::policies::retry::Decision;
use crate::turn;

pub(crate) use again::UndoAgain;
pub use review::{ReviewDecision, ReviewRequest, Verdict};
pub use undo::{Ending, Undo, UndoScript, Undone};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// The events that one decision made, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// When it was decided.
    pub at: Millis,
    /// In the order they happened; never empty.
    pub events: Vec<Event>,
}

/// One fact about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run exists.
    Created(Created),
    /// An engine took the run over from one that had died; attempts that were in flight are interrupted.
    Adopted {
        /// The engine that has it now.
        owner: String,
    },
    /// A script entry was reached and its arguments were evaluated, once for all its attempts.
    ScriptEntered {
        /// The entry.
        path: Path,
        /// A JSON object.
        args: Value,
        /// The author's idempotency key; without one it is derived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A worker was reserved for an attempt; it is sent the arguments once this is durable.
    AttemptStarted {
        /// The entry.
        path: Path,
        /// 1 is the first.
        attempt: u32,
        /// The attempt's own id: a late report of another attempt does not match it.
        id: String,
        /// How long it waited for the worker.
        #[serde(default, skip_serializing_if = "is_zero")]
        queued_ms: u64,
        /// The process tree it runs in, to be proven dead after a crash of the engine.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        tree: Value,
    },
    /// An attempt returned; the entry is complete with this output.
    AttemptSucceeded {
        /// The entry.
        path: Path,
        /// Which attempt.
        attempt: u32,
        /// What the script returned.
        output: Value,
    },
    /// An attempt failed, possibly before it got a worker.
    AttemptFailed {
        /// The entry.
        path: Path,
        /// Which attempt.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// What was decided about it.
        decision: Decision,
    },
    /// An attempt was ended by a cancel or by the run's deadline.
    AttemptCancelled {
        /// The entry.
        path: Path,
        /// Which attempt.
        attempt: u32,
    },
    /// `on_error: continue`: the entry's output is `null` and its error is kept.
    Continued {
        /// The entry.
        path: Path,
        /// What failed.
        error: RunError,
    },
    /// `on_error: {catch}`: the recovery region was entered.
    CatchEntered {
        /// The entry that failed.
        path: Path,
        /// What failed.
        error: RunError,
    },
    /// A choice took an arm (`None`: the `else` region, or nothing where there is none).
    ChoiceMade {
        /// The entry.
        path: Path,
        /// The arm's number.
        arm: Option<usize>,
    },
    /// An entry that has no frame of its own has its value.
    Completed {
        /// The entry.
        path: Path,
        /// Its value.
        output: Value,
    },
    /// The region that an entry ran (a choice's arm, a recovery) is through; its value is the entry's.
    RegionCompleted {
        /// The entry.
        path: Path,
    },
    /// A parallel was reached.
    ParallelEntered {
        /// The entry.
        path: Path,
    },
    /// A branch began.
    BranchStarted {
        /// The parallel.
        path: Path,
        /// The branch's number.
        branch: usize,
    },
    /// A branch is through.
    BranchCompleted {
        /// The parallel.
        path: Path,
        /// The branch's number.
        branch: usize,
    },
    /// A branch failed.
    BranchFailed {
        /// The parallel.
        path: Path,
        /// The branch's number.
        branch: usize,
        /// Why.
        error: RunError,
    },
    /// A loop was reached.
    LoopEntered {
        /// The entry.
        path: Path,
        /// The list it runs over; `None` with `while`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        items: Option<Vec<Value>>,
    },
    /// An iteration began.
    IterationStarted {
        /// The loop.
        path: Path,
        /// Its index.
        index: usize,
    },
    /// An iteration is through; its value is its last entry's.
    IterationCompleted {
        /// The loop.
        path: Path,
        /// Its index.
        index: usize,
    },
    /// An iteration failed.
    IterationFailed {
        /// The loop.
        path: Path,
        /// Its index.
        index: usize,
        /// Why.
        error: RunError,
    },
    /// A parallel or a loop is through.
    ContainerCompleted {
        /// The entry.
        path: Path,
    },
    /// A container is being stopped: nothing inside it starts any more, and once nothing of it runs it fails with this error.
    ContainerStopped {
        /// The entry.
        path: Path,
        /// What it fails with.
        error: RunError,
    },
    /// A container failed for good, nothing inside it runs.
    EntryFailed {
        /// The entry.
        path: Path,
        /// Why.
        error: RunError,
    },
    /// Another workflow was entered.
    CallEntered {
        /// The entry.
        path: Path,
        /// Its checked inputs.
        inputs: Map<String, Value>,
        /// When its own document's timeout ends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Millis>,
    },
    /// The called workflow ended well.
    CallCompleted {
        /// The entry.
        path: Path,
        /// Its output map.
        outputs: Value,
    },
    /// A wait was reached.
    WaitEntered {
        /// The entry.
        path: Path,
        /// When it ends by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Millis>,
        /// The event it waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<String>,
    },
    /// An event was sent to the run; it is kept until a wait takes it.
    EventReceived {
        /// Its name.
        name: String,
        /// What it carries.
        payload: Value,
    },
    /// A wait took the oldest event of its name; the payload is its value.
    EventTaken {
        /// The entry.
        path: Path,
        /// The event's name.
        name: String,
    },
    /// A script asked for work to be submitted if the whole run succeeds.
    TaskDeferred {
        /// The script entry.
        path: Path,
        /// Which attempt.
        attempt: u32,
        /// The workflow to start.
        workflow: String,
        /// The version of it that was the published one.
        version: u64,
        /// The catalogue revision at that moment, which the new run pins.
        revision: u64,
        /// Its inputs.
        args: Value,
    },
    /// A deferred task was submitted, in the very batch that made the run succeed.
    TaskSubmitted {
        /// The script entry that deferred it.
        path: Path,
        /// The workflow that was started.
        workflow: String,
        /// Its inputs.
        args: Value,
        /// The new run.
        run: String,
    },
    /// The entry was complete before the run was resumed: what it came to is used again.
    AlreadyCompleted {
        /// The entry.
        path: Path,
    },
    /// A person is asked; the run waits for the decision.
    ReviewRequested {
        /// The entry.
        path: Path,
        /// What is asked.
        review: Box<ReviewRequest>,
    },
    /// The assignees were reminded.
    ReviewReminded {
        /// The entry.
        path: Path,
        /// Which reminder; 1 is the first.
        number: u32,
    },
    /// A review's expiry was moved.
    ReviewExtended {
        /// The entry.
        path: Path,
        /// When it expires now; `None`: never.
        due: Option<Millis>,
        /// Who asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A review was decided, or expired; the decision is the entry's value.
    ReviewDecided {
        /// The entry.
        path: Path,
        /// What was decided.
        decision: ReviewDecision,
    },
    /// The outcome of an attempt is unknown: the entry's `resolve` script is to find it out.
    ResolveEntered {
        /// The entry.
        path: Path,
        /// The attempt in question.
        attempt: u32,
        /// A JSON object.
        args: Value,
        /// Not before this.
        at: Millis,
    },
    /// The outcome of an attempt was found out.
    Resolved {
        /// The entry.
        path: Path,
        /// The attempt in question.
        attempt: u32,
        /// The entry's output, if the attempt took effect; `None`: it did not.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
    },
    /// The outcome of an attempt cannot be found out: a person has to say.
    AttentionNeeded {
        /// The entry.
        path: Path,
        /// The attempt's error, and what failed in finding out as its cause.
        error: RunError,
    },
    /// A person said what came of an attempt.
    Settled {
        /// The entry.
        path: Path,
        /// The entry's output, if the attempt took effect; `None`: it did not.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// Who.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An effect is complete, and this is how it can be undone.
    CompensationPrepared {
        /// The entry whose effect it is.
        path: Path,
        /// How.
        undo: Undo,
    },
    /// The run ends badly and undoes its effects first, newest first.
    CompensationStarted {
        /// What the run will have ended as.
        outcome: Ending,
        /// Why.
        error: RunError,
        /// When the undoing has to be over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Millis>,
        /// Who asked for it, if a person did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why, if a person said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A `compensate` entry was reached.
    CompensateEntered {
        /// The entry.
        path: Path,
        /// The entries that it names: their ids and where they are.
        targets: Vec<(String, Path)>,
        /// The effects to undo, newest first.
        effects: Vec<Path>,
    },
    /// It is this effect's turn to be undone.
    CompensationEntered {
        /// The entry whose effect it is.
        path: Path,
    },
    /// An effect cannot be undone, as its author said.
    EffectIrreversible {
        /// The entry whose effect it is.
        path: Path,
    },
    /// An effect could not be undone, without an attempt.
    CompensationFailed {
        /// The entry whose effect it is.
        path: Path,
        /// Why.
        failure: Failure,
    },
    /// The budget of the run's compensation is spent: nothing more of it starts.
    CompensationExpired {},
    /// A `compensate` entry is through.
    CompensateCompleted {
        /// The entry.
        path: Path,
        /// What came of each entry that it names, by id.
        outcomes: Vec<(String, Undone)>,
    },
    /// A person let a failed run go on.
    Resumed {
        /// Who.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The entry from which on everything is done again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Path>,
        /// Why effects that are in place may be repeated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accept_repeat: Option<String>,
        /// The run's new wall-clock deadline, if it had one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Millis>,
    },
    /// A person moved the run to another version of its workflow.
    Migrated {
        /// That version.
        version: u64,
        /// The catalogue revision that pins every asset the run can reach from now on.
        revision: u64,
        /// Why.
        reason: String,
        /// Who.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A cancel was asked for: from here on nothing new starts, whatever the policies say.
    CancelRequested {
        /// Who asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The run's budget is spent: from here on nothing new starts.
    DeadlineExceeded {
        /// The message for the run's error.
        message: String,
    },
    /// The run ended well.
    Succeeded {
        /// Its outputs.
        outputs: Value,
    },
    /// The run ended with an error.
    Failed {
        /// The error.
        error: RunError,
    },
    /// The run was cancelled and nothing of it is left running.
    Cancelled {
        /// The error that records who and why.
        error: RunError,
    },
}

/// The first fact about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The run's id.
    pub run: String,
    /// The workflow's name.
    pub workflow: String,
    /// Its version.
    pub version: u64,
    /// The catalogue revision that pins every asset the run can reach.
    pub revision: u64,
    /// Checked inputs, defaults filled in.
    pub inputs: Map<String, Value>,
    /// Wall-clock deadline: the strictest of the document's and the caller's budgets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// Budget of active time, if neither of those was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_budget_ms: Option<u64>,
    /// The engine that owns the run; empty for a run that waits for one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// A rehearsal: called workflows that were never published are used as drafts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A value that is there, `null` included; what is not there is `None` by `default`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Event {
    /// Roughly the bytes that the event takes in a journal.
    pub fn weight(&self) -> usize {
        let value = |value: &Value| turn::weight(value);
        64 + match self {
            Event::Completed { output, .. } | Event::AttemptSucceeded { output, .. } => value(output),
            Event::ScriptEntered { args, .. } | Event::TaskDeferred { args, .. } | Event::TaskSubmitted { args, .. } => value(args),
            Event::Succeeded { outputs } | Event::CallCompleted { outputs, .. } => value(outputs),
            Event::LoopEntered { items, .. } => items.iter().flatten().map(value).sum(),
            Event::EventReceived { payload, .. } => value(payload),
            Event::ResolveEntered { args, .. } => value(args),
            Event::Resolved { output, .. } | Event::Settled { output, .. } => output.as_ref().map_or(0, value),
            Event::CompensationPrepared { undo: Undo::Script(undo), .. } => value(&undo.args),
            Event::ReviewRequested { review, .. } => value(&review.show),
            Event::ReviewDecided { decision, .. } => value(&decision.data) + decision.comment.as_ref().map_or(0, String::len),
            Event::Created(Created { inputs, .. }) | Event::CallEntered { inputs, .. } => inputs.values().map(value).sum(),
            Event::AttemptFailed { failure, .. } => failure.extra.as_ref().map_or(0, value) + failure.message.len(),
            Event::Continued { error, .. }
            | Event::CatchEntered { error, .. }
            | Event::BranchFailed { error, .. }
            | Event::IterationFailed { error, .. }
            | Event::ContainerStopped { error, .. }
            | Event::EntryFailed { error, .. }
            | Event::AttentionNeeded { error, .. }
            | Event::CompensationStarted { error, .. }
            | Event::Failed { error }
            | Event::Cancelled { error } => error.extra.as_ref().map_or(0, value) + error.message.len(),
            _ => 0,
        }
    }
}
