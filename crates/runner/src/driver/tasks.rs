//! Deferred tasks: submitted exactly once, in the append that makes the run succeed.

use viat_engine::Status;
use viat_engine::journal::{Batch, Created, Event, Millis};
use viat_engine::run::DeferredTask;
use viat_engine::template::{MAX_DEPTH, is_too_deep};
use viat_store::big::{self, Kept};
use viat_store::{At, Op, RunId, RunRow, StoreError, Summary};

use super::handle::deadline_of;
use super::hot::Hot;
use super::{Loop, Reply};
use crate::assets::{self, AssetError};

impl Loop {
    /// Whether a task could be started as it is; which version it would be, and the catalogue revision that says so.
    ///
    /// The script hears at once what is wrong with it, rather than nobody when the run has succeeded.
    pub(super) fn deferrable(&self, run: &RunId, workflow: &str, args: &serde_json::Value) -> Result<(u64, u64), String> {
        if is_too_deep(args) {
            return Err(format!("the arguments are nested deeper than {MAX_DEPTH} levels"));
        }
        if let Some(hot) = self.runs.get(run) {
            hot.run.check_room(args)?;
        }
        let store = self.store.as_ref();
        let revision = store.revision().map_err(|error| error.to_string())?;
        let version = assets::published(store, workflow, At::Revision(revision)).map_err(|error| error.to_string())?;
        let version = version.ok_or_else(|| format!("workflow {workflow} cannot be deferred: it is not published (viat workflow publish {workflow})"))?;
        let (_, body) = assets::workflow(store, workflow, At::Version(version)).map_err(|error| error.to_string())?;
        self.languages.check_inputs(&body.definition, args.clone()).map_err(|problem| format!("workflow {workflow} cannot be deferred: {problem}"))?;
        Ok((version, revision))
    }

    /// Adds the runs that the tasks of a run that succeeds become.
    pub(super) fn submit_tasks(&mut self, hot: &mut Hot, events: &mut Vec<Event>, now: Millis) {
        if !matches!(events.last(), Some(Event::Succeeded { .. })) {
            return;
        }
        // What the tasks were given is in this run's journal, and so in the store.
        let mut kept = hot.kept.clone();
        for task in hot.run.submissions() {
            let id = RunId::fresh();
            match self.child(&id, task, now, &mut kept) {
                Ok(ops) => {
                    hot.children.extend(ops);
                    events.push(Event::TaskSubmitted {
                        path: task.path.clone(),
                        workflow: task.workflow.clone(),
                        args: task.args.clone(),
                        run: id.to_string(),
                    });
                }
                // It was checked when it was deferred, and its version cannot change: only a damaged store comes here.
                Err(problem) => {
                    let note = format!("the deferred workflow {} could not be started: {problem}", task.workflow);
                    self.tell(hot, super::News::Troubled(StoreError::Io { detail: note }));
                }
            }
        }
    }

    fn child(&self, id: &RunId, task: &DeferredTask, now: Millis, kept: &mut Kept) -> Result<Vec<Op>, String> {
        let (_, body) = assets::workflow(self.store.as_ref(), &task.workflow, At::Version(task.version)).map_err(|error: AssetError| error.to_string())?;
        let inputs = self.languages.check_inputs(&body.definition, task.args.clone())?;
        let deadline = deadline_of(now, body.definition.timeout_ms);
        let created = Created {
            run: id.to_string(),
            workflow: task.workflow.clone(),
            version: task.version,
            revision: task.revision,
            inputs,
            deadline,
            active_budget_ms: deadline.is_none().then_some(self.active_budget_ms),
            owner: String::new(),
            draft: false,
        };
        creation(id, created, now, kept).map_err(|error| error.to_string())
    }

    /// In the background, what has just been submitted starts at once; otherwise it is queued for an engine that does.
    pub(super) fn start_tasks(&mut self, batch: &Batch) {
        if !self.background {
            return;
        }
        for event in &batch.events {
            if let Event::TaskSubmitted { run, .. } = event {
                self.adopt(RunId::from(run.as_str()), None, Reply::nobody());
            }
        }
    }
}

/// Creates a run that no engine owns yet. What `kept` has of its inputs is in the store already.
///
/// # Errors
/// The event could not be serialised.
pub fn creation(id: &RunId, created: Created, now: Millis, kept: &mut Kept) -> Result<Vec<Op>, serde_json::Error> {
    let row = RunRow {
        id: id.clone(),
        workflow: created.workflow.clone(),
        version: created.version,
        revision: created.revision,
        owner: None,
        created_at: now,
        summary: Summary { status: Status::Queued.name().to_owned(), status_since: Some(now), ..Summary::default() },
    };
    let (first, mut ops) = big::encode(&Batch { at: now, events: vec![Event::Created(created)] }, kept)?;
    ops.push(Op::CreateRun { row, first });
    Ok(ops)
}
