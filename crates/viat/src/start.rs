//! Starting a run: which version, whether the inputs fit, what it pins. Shared by the command line and the API.

use std::sync::Arc;

use serde_json::Value;
use viat_engine::journal::Created;
use viat_engine::template::{MAX_DEPTH, is_too_deep};
use viat_runner::assets::{self, AssetError, Pins, WORKFLOW};
use viat_runner::clock::wall_now;
use viat_runner::driver::{NewRun, creation};
use viat_store::big::Kept;
use viat_store::{At, Op, RunId, Store, Unit};

use crate::cli::error::CliError;
use crate::wiring::execution_deadline_ms;

/// A run that somebody wants.
pub struct Request<'a> {
    /// The workflow's name.
    pub workflow: &'a str,
    /// Which version of it.
    pub which: Which,
    /// What it is given.
    pub inputs: &'a Value,
    /// The caller's budget.
    pub timeout_ms: Option<u64>,
}

/// Which version of a workflow is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The newest.
    Draft,
    /// The published one.
    Published,
    /// This one.
    Version(u64),
}

/// Checks a request against its workflow, and pins what the run will use.
pub fn prepare(store: &dyn Store, request: &Request<'_>) -> Result<NewRun, CliError> {
    let name = request.workflow;
    let revision = store.revision().map_err(CliError::store)?;
    let version = version(store, name, request.which, revision)?;
    let draft = request.which == Which::Draft;
    let program = assets::program(store, name, Pins { version, revision, draft }).map_err(CliError::assets)?;
    let checked = viat_dialect::check_inputs(&program.main, request.inputs).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CliError::usage(format!("the inputs do not fit workflow {name}: {}", lines.join("; ")))
    })?;
    if is_too_deep(request.inputs) {
        return Err(CliError::usage(format!("the inputs are nested deeper than {MAX_DEPTH} levels")));
    }
    let budgets = [program.main.timeout_ms, request.timeout_ms];
    Ok(NewRun {
        id: RunId::fresh(),
        workflow: name.to_owned(),
        version,
        revision,
        inputs: checked,
        timeout_ms: budgets.into_iter().flatten().min(),
        draft,
        key: None,
        program: Arc::new(program),
    })
}

/// Creates a run for an engine that is not here yet.
pub fn queue(store: &dyn Store, new: NewRun) -> Result<RunId, CliError> {
    let (id, ops) = queued(new)?;
    store.commit_blocking(Unit::from(ops)).map_err(CliError::store)?;
    Ok(id)
}

/// The operations that create a run for whoever takes it.
pub fn queued(new: NewRun) -> Result<(RunId, Vec<Op>), CliError> {
    let now = wall_now();
    let deadline = new.timeout_ms.map(|ms| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
    let created = Created {
        run: new.id.to_string(),
        workflow: new.workflow,
        version: new.version,
        revision: new.revision,
        inputs: new.inputs,
        deadline,
        active_budget_ms: deadline.is_none().then(|| execution_deadline_ms().0),
        owner: String::new(),
        draft: new.draft,
    };
    let ops = creation(&new.id, created, now, &mut Kept::default()).map_err(|error| CliError::usage(error.to_string()))?;
    Ok((new.id, ops))
}

fn version(store: &dyn Store, name: &str, which: Which, revision: u64) -> Result<u64, CliError> {
    let at = match which {
        Which::Version(version) => At::Version(version),
        Which::Draft | Which::Published => At::Revision(revision),
    };
    let (asset, _) = match assets::workflow(store, name, at) {
        Err(AssetError::Missing(_)) => return Err(missing(store, WORKFLOW, name, which)),
        found => found.map_err(CliError::assets)?,
    };
    if which != Which::Published {
        return Ok(asset.info.version);
    }
    let published = assets::published(store, name, At::Revision(revision)).map_err(CliError::assets)?;
    published.ok_or_else(|| {
        CliError::refused(format!("workflow {name} was never published"))
            .help(format!("publish its newest version: viat workflow publish {name}; or try the draft: viat workflow test {name}"))
    })
}

fn missing(store: &dyn Store, kind: &str, name: &str, which: Which) -> CliError {
    let version = match which {
        Which::Version(version) => Some(version),
        Which::Draft | Which::Published => None,
    };
    crate::cli::missing(store, kind, name, version)
}
