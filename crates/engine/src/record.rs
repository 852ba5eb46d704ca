//! The run record: what a journal says, in the form that people and programs are shown.

mod recovery;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::apply;
use crate::failure::{Failure, RunError};
use crate::journal::{Batch, Created, Event, Millis, UndoAgain};
use crate::path::{Path, Purpose};
use crate::policies::class::{Class, Kind};
use crate::policies::retry::{Decision, Reason};
use crate::run::Status;

/// A time as RFC 3339 in UTC, to the millisecond.
pub fn rfc3339(at: Millis) -> String {
    // Outside of jiff's years (±9999) there is no RFC 3339 form; the nearest bound is shown.
    let timestamp = Timestamp::from_millisecond(at).unwrap_or(if at < 0 { Timestamp::MIN } else { Timestamp::MAX });
    format!("{timestamp:.3}")
}

/// A run as it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct RunRecord {
    /// The run's id.
    pub id: String,
    /// The workflow's name.
    pub workflow: String,
    /// Its version.
    pub version: u64,
    /// The catalogue revision that it pins; not shown.
    #[serde(skip)]
    pub revision: u64,
    /// What the run is doing.
    pub status: Status,
    /// What it was given, defaults filled in.
    pub inputs: Value,
    /// What it gave; `null` unless it succeeded.
    pub outputs: Option<Value>,
    /// Why it ended, if not well.
    pub error: Option<RunError>,
    /// When it was created.
    #[serde(serialize_with = "time")]
    pub created_at: Millis,
    /// When an engine began with it.
    #[serde(serialize_with = "optional_time")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(serialize_with = "optional_time")]
    pub ended_at: Option<Millis>,
    /// Its wall-clock deadline, if the document or the caller gave one.
    #[serde(serialize_with = "optional_time")]
    pub deadline: Option<Millis>,
    /// Where its compensation stands.
    pub compensation: Compensation,
    /// Every attempt, in the order they were decided.
    pub attempts: Vec<AttemptRecord>,
    /// What took effect, in order of completion.
    pub ledger: Vec<LedgerRecord>,
    /// Entries of which nobody knows whether their last attempt took effect.
    pub uncertain: Vec<Path>,
    /// Tasks deferred to the run's success: submitted with it, or discarded.
    pub deferred: Vec<DeferredRecord>,
    /// Reviews, in the order in which they were asked for.
    pub reviews: Vec<ReviewRecord>,
}

/// Where a run's compensation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compensation {
    /// There is nothing to compensate.
    None,
    /// There is, and nobody has asked for it yet.
    Available,
    /// Effects are being undone.
    Running,
    /// Every effect that its author said how to undo is undone.
    Complete,
    /// Some are not, or cannot be: see their lines in the ledger.
    Partial,
}

/// One attempt of a script entry.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptRecord {
    /// The entry's id.
    pub step: String,
    /// Its path; of attempts that resolve or compensate, one derived from the entry's.
    pub path: Path,
    /// What it is for, if not for the entry's own work: `resolve` or `compensate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<&'static str>,
    /// 1 is the first.
    pub attempt: u32,
    /// How it stands.
    pub status: AttemptStatus,
    /// The failure's class.
    pub class: Option<Class>,
    /// The failure's coarse sort.
    pub kind: Option<Kind>,
    /// The failure's code.
    pub code: Option<String>,
    /// The failure's message.
    pub message: Option<String>,
    /// What a refusal carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// Whether the run went on past this failure.
    pub recovered: bool,
    /// What was decided about the failure.
    pub decision: Option<Decision>,
    /// The wait before this attempt.
    pub wait_ms: u64,
    /// How long it waited for a worker.
    pub queued_ms: u64,
    /// When a worker was reserved for it; `null` if none could be.
    #[serde(serialize_with = "optional_time")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(serialize_with = "optional_time")]
    pub ended_at: Option<Millis>,
}

/// A task that a script deferred.
#[derive(Clone, Debug, Serialize)]
pub struct DeferredRecord {
    /// The workflow to start.
    pub workflow: String,
    /// Its inputs.
    pub args: Value,
    /// The run that it became; `null` as long as this run has not succeeded.
    pub run: Option<String>,
    /// Whether it will never be one: the run did not succeed, or a later attempt of the entry took its place.
    pub discarded: bool,
    /// The script entry that deferred it.
    pub path: Path,
    /// Which attempt.
    pub attempt: u32,
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// It runs.
    Running,
    /// It returned.
    Succeeded,
    /// It failed.
    Failed,
    /// It was ended by a cancel or by the run's deadline.
    Cancelled,
}

/// One effect of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerRecord {
    /// The script entry.
    pub path: Path,
    /// What became of it.
    pub status: LedgerStatus,
    /// Its place in the order of completion, from 1.
    pub order: u32,
    /// Why it is not undone: what undoing it failed with, or what its author says of it; `null` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerStatus {
    /// It took effect.
    Completed,
    /// It took effect and is undone.
    Compensated,
    /// It took effect, and undoing it failed.
    CompensationFailed,
    /// It took effect and cannot be undone.
    Irreversible,
}

/// One review.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewRecord {
    /// Its id.
    pub id: String,
    /// The entry's id.
    pub step: String,
    /// The entry's path.
    pub path: Path,
    /// What is asked.
    pub title: String,
    /// What the person is shown.
    pub show: Value,
    /// The fields of the decision's `data`.
    pub form: Vec<crate::ir::InputDeclaration>,
    /// Who is asked; empty: anyone.
    pub assignees: Vec<String>,
    /// `pending_review`, `approved`, `rejected`, `changes_requested`, `expired`, or `withdrawn` by the run's end.
    pub status: &'static str,
    /// When it was asked.
    #[serde(serialize_with = "time")]
    pub created_at: Millis,
    /// When it expires.
    #[serde(serialize_with = "optional_time")]
    pub due: Option<Millis>,
    /// When it was decided.
    #[serde(serialize_with = "optional_time")]
    pub decided_at: Option<Millis>,
    /// By whom.
    pub by: Option<String>,
    /// What they said.
    pub comment: Option<String>,
    /// The form's fields.
    pub data: Value,
}

impl RunRecord {
    /// The record of a run whose first event is `created`.
    pub fn new(created: &Created, at: Millis) -> RunRecord {
        RunRecord {
            id: created.run.clone(),
            workflow: created.workflow.clone(),
            version: created.version,
            revision: created.revision,
            status: Status::Queued,
            inputs: Value::Object(created.inputs.clone()),
            outputs: None,
            error: None,
            created_at: at,
            started_at: None,
            ended_at: None,
            deadline: created.deadline,
            compensation: Compensation::None,
            attempts: Vec::new(),
            ledger: Vec::new(),
            uncertain: Vec::new(),
            deferred: Vec::new(),
            reviews: Vec::new(),
        }
    }

    /// The same, as far as the run's own state knows better: whether it runs or waits.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> RunRecord {
        self.status = status;
        self
    }

    /// The record that a journal tells; `None` if it does not begin with `created`.
    pub fn of(batches: impl IntoIterator<Item: Borrow<Batch>>) -> Option<RunRecord> {
        let mut fold = Fold::default();
        for batch in batches {
            let batch = batch.borrow();
            for event in &batch.events {
                fold.event(event, batch.at);
            }
        }
        fold.record
    }
}

/// The record in the making, with the indices that keep it linear in the journal's length.
#[derive(Default)]
struct Fold {
    record: Option<RunRecord>,
    /// Attempts of each entry, as indices into the record's list.
    attempts_of: BTreeMap<Path, Vec<usize>>,
    /// Effects whose author said how to undo them, or (and why) that nobody can.
    undoable: BTreeMap<Path, Option<String>>,
    /// Which undoing that failed may be tried again.
    again: UndoAgain,
    /// How many effects have completed so far.
    completed: u32,
    /// The entries about which a person has to say something, and why.
    asking: BTreeMap<Path, RunError>,
    /// The order in which entries were reached first.
    reached: BTreeMap<Path, usize>,
    /// Tasks that the run's end discarded: a resumed run takes them up again.
    discarded_by_end: Vec<usize>,
}

impl Fold {
    fn event(&mut self, event: &Event, at: Millis) {
        if let Event::Created(created) = event {
            self.record = Some(RunRecord::new(created, at));
            return;
        }
        self.again.event(event);
        self.reach(event);
        let Some(record) = &mut self.record else { return };
        if apply::begins(event) && record.started_at.is_none() {
            record.started_at = Some(at);
            record.status = Status::Running;
        }
        match event {
            Event::AttemptStarted { path, attempt, queued_ms, .. } => {
                self.leave_open(path, false);
                let row = self.attempt(path, *attempt);
                if let Some(row) = row {
                    row.started_at = Some(at);
                    row.queued_ms = *queued_ms;
                }
                self.discard_tasks(|task| task.path == *path && task.attempt < *attempt);
            }
            Event::AttemptSucceeded { path, attempt, .. } => {
                if let Some(row) = self.attempt(path, *attempt) {
                    row.status = AttemptStatus::Succeeded;
                    row.ended_at = Some(at);
                }
                match path.purpose() {
                    Purpose::Work => self.completed(path),
                    Purpose::Compensate => self.undone(&path.entry(), LedgerStatus::Compensated, None),
                    Purpose::Resolve(_) => {}
                }
            }
            Event::AttemptFailed { path, attempt, failure, decision } => self.attempt_failed(path, *attempt, failure, decision, at),
            Event::AttemptCancelled { path, attempt } => {
                if let Some(row) = self.attempt(path, *attempt) {
                    row.status = AttemptStatus::Cancelled;
                    row.ended_at = Some(at);
                    let begun = row.started_at.is_some();
                    self.leave_open(path, begun);
                }
            }
            Event::Continued { path, .. } | Event::RegionCompleted { path } | Event::ContainerCompleted { path } => self.recovered(path),
            Event::TaskDeferred { path, attempt, workflow, args, .. } => {
                let task =
                    DeferredRecord { workflow: workflow.clone(), args: args.clone(), run: None, discarded: false, path: path.clone(), attempt: *attempt };
                record.deferred.push(task);
            }
            Event::TaskSubmitted { path, workflow, args, run } => {
                let mut open = record.deferred.iter_mut().filter(|task| task.run.is_none() && !task.discarded);
                if let Some(task) = open.find(|task| task.path == *path && task.workflow == *workflow && task.args == *args) {
                    task.run = Some(run.clone());
                }
            }
            Event::Succeeded { outputs } => self.end(Status::Succeeded, Some(outputs), None, at),
            Event::Failed { error } => self.end(Status::Failed, None, Some(error), at),
            Event::Cancelled { error } => self.end(Status::Cancelled, None, Some(error), at),
            event => self.recovery(event, at),
        }
    }

    fn attempt_failed(&mut self, path: &Path, attempt: u32, failure: &Failure, decision: &Decision, at: Millis) {
        if let Some(row) = self.attempt(path, attempt) {
            row.status = AttemptStatus::Failed;
            row.ended_at = Some(at);
            row.class = Some(failure.class);
            row.kind = Some(failure.class.kind());
            row.code = Some(failure.code.clone());
            row.message = Some(failure.message.clone());
            row.extra.clone_from(&failure.extra);
            row.decision = Some(decision.clone());
            let open = row.started_at.is_some() && failure.class.is_uncertain();
            self.leave_open(path, open);
        }
        self.discard_tasks(|task| task.path == *path && task.attempt < attempt);
        if path.purpose() == Purpose::Compensate {
            self.undo_failed(&path.entry(), failure, decision);
        }
    }

    /// The row of an attempt, made when it is first heard of.
    fn attempt(&mut self, path: &Path, attempt: u32) -> Option<&mut AttemptRecord> {
        let record = self.record.as_mut()?;
        let rows = self.attempts_of.entry(path.clone()).or_default();
        let known = rows.iter().copied().find(|row| record.attempts[*row].attempt == attempt);
        let row = known.unwrap_or_else(|| {
            let before = rows.last().and_then(|row| record.attempts[*row].decision.as_ref());
            let wait_ms = before.and_then(Decision::retry_wait_ms).unwrap_or(0);
            record.attempts.push(AttemptRecord::new(path, attempt, wait_ms));
            rows.push(record.attempts.len() - 1);
            record.attempts.len() - 1
        });
        record.attempts.get_mut(row)
    }

    /// Notes whether it is unknown what came of the last attempt of the entry at `path`.
    fn leave_open(&mut self, path: &Path, open: bool) {
        let Some(record) = self.record.as_mut().filter(|_| path.purpose() == Purpose::Work) else { return };
        record.uncertain.retain(|known| known != path);
        if open {
            record.uncertain.push(path.clone());
        }
    }

    fn completed(&mut self, path: &Path) {
        self.leave_open(path, false);
        self.recovered(path);
        self.completed += 1;
        if let Some(record) = &mut self.record {
            // Done again after it was undone.
            record.ledger.retain(|row| row.path != *path);
            record.ledger.push(LedgerRecord { path: path.clone(), status: LedgerStatus::Completed, order: self.completed, reason: None });
        }
    }

    /// The entry at `path` is through: its failed attempts, and those inside it, did not stop the run.
    fn recovered(&mut self, path: &Path) {
        let Some(record) = &mut self.record else { return };
        let mut rows: Vec<usize> = self.attempts_of.get(path).cloned().unwrap_or_default();
        for prefix in path.inner_prefixes() {
            let inside = self.attempts_of.range(Path::from(prefix.as_str())..).take_while(|(inner, _)| inner.as_str().starts_with(&prefix));
            rows.extend(inside.flat_map(|(_, rows)| rows));
        }
        for row in rows {
            let attempt = &mut record.attempts[row];
            attempt.recovered = attempt.status == AttemptStatus::Failed;
        }
    }

    fn discard_tasks(&mut self, which: impl Fn(&DeferredRecord) -> bool) {
        let tasks = self.record.iter_mut().flat_map(|record| &mut record.deferred);
        for task in tasks.filter(|task| which(task)) {
            task.discarded = true;
        }
    }

    fn end(&mut self, status: Status, outputs: Option<&Value>, error: Option<&RunError>, at: Millis) {
        if let Some(record) = &mut self.record {
            record.status = status;
            record.outputs = outputs.cloned();
            record.error = error.cloned();
            record.ended_at = Some(at);
        }
        if status != Status::Succeeded {
            let open = self.record.iter().flat_map(|record| &record.deferred).enumerate().filter(|(_, task)| !task.discarded);
            self.discarded_by_end.extend(open.map(|(at, _)| at));
            self.discard_tasks(|_| true);
        }
        self.asking.clear();
        self.withdraw_reviews();
        self.conclude_compensation(status);
    }
}

impl AttemptRecord {
    fn new(path: &Path, attempt: u32, wait_ms: u64) -> AttemptRecord {
        AttemptRecord {
            step: path.entry().last().to_owned(),
            path: path.clone(),
            purpose: match path.purpose() {
                Purpose::Work => None,
                Purpose::Resolve(_) => Some("resolve"),
                Purpose::Compensate => Some("compensate"),
            },
            attempt,
            status: AttemptStatus::Running,
            class: None,
            kind: None,
            code: None,
            message: None,
            extra: None,
            recovered: false,
            decision: None,
            wait_ms,
            queued_ms: 0,
            started_at: None,
            ended_at: None,
        }
    }
}

fn time<S: Serializer>(at: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at))
}

fn optional_time<S: Serializer>(at: &Option<Millis>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => time(at, serializer),
        None => serializer.serialize_none(),
    }
}
