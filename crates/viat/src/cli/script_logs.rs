//! `viat script logs`: what the newest attempts of a script wrote, whichever run they belong to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use viat_engine::Op;
use viat_engine::record::{AttemptRecord, AttemptStatus, rfc3339};
use viat_runner::assets::{self, Pins, SCRIPT, WORKFLOW};
use viat_store::{AssetName, At, RunFilter, RunRow, Store};

use super::error::CliError;
use super::output::{Output, printable};
use super::{missing, run_record};
use crate::wiring::Home;

/// Runs of each workflow that are looked through.
const RUNS: usize = 100;

/// One attempt of the script.
struct Found {
    run: RunRow,
    attempt: AttemptRecord,
    log: Vec<u8>,
}

/// Prints the logs of the newest attempts, the newest first.
pub fn show(name: &str, limit: usize, home: &Home, output: &Output) -> Result<(), CliError> {
    let store = home.store.as_ref();
    let asset = AssetName::new(SCRIPT, name);
    if store.asset(&asset, At::Latest).map_err(CliError::store)?.is_none() {
        return Err(missing(store, SCRIPT, name, None));
    }
    let found = attempts(name, limit, home)?;
    if output.json {
        let rows: Vec<Value> = found.iter().map(as_json).collect();
        return output.value(&rows);
    }
    for Found { run, attempt, log } in &found {
        let when = attempt.started_at.map(rfc3339).unwrap_or_default();
        output.line(&output.paint("1", &format!("--- run {} ({}) {} #{} {} {when}", run.id, run.workflow, attempt.path, attempt.attempt, status(attempt))))?;
        let text = String::from_utf8_lossy(log);
        for line in text.lines() {
            output.line(&if output.stdout_terminal { printable(line) } else { line.to_owned() })?;
        }
    }
    if found.is_empty() {
        output.note(&format!("no attempt of script {name} yet; try it: viat script test {name} --args '{{}}'"));
    }
    Ok(())
}

fn status(attempt: &AttemptRecord) -> &'static str {
    match attempt.status {
        AttemptStatus::Running => "running",
        AttemptStatus::Succeeded => "succeeded",
        AttemptStatus::Failed => "failed",
        AttemptStatus::Cancelled => "cancelled",
    }
}

fn as_json(found: &Found) -> Value {
    let Found { run, attempt, log } = found;
    json!({
        "run": run.id.as_str(), "workflow": run.workflow, "path": attempt.path.to_string(), "attempt": attempt.attempt, "status": status(attempt),
        "started_at": attempt.started_at.map(rfc3339), "log": String::from_utf8_lossy(log),
    })
}

fn attempts(name: &str, limit: usize, home: &Home) -> Result<Vec<Found>, CliError> {
    let store = home.store.as_ref();
    let mut runs = Vec::new();
    for workflow in workflows_with(name, store)? {
        runs.extend(store.list_runs(&RunFilter { workflow: Some(workflow), limit: RUNS, ..RunFilter::default() }).map_err(CliError::store)?);
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.created_at));
    let mut known: BTreeMap<(String, u64, u64), BTreeSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for run in runs {
        if found.len() >= limit {
            break;
        }
        let key = (run.workflow.clone(), run.version, run.revision);
        let entries = match known.entry(key) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(entries_of(name, &run, store)?),
        };
        for attempt in run_record(store, &run.id)?.attempts.into_iter().rev().filter(|attempt| entries.contains(&attempt.step)) {
            let log = home.logs().read(run.id.as_str(), attempt.path.as_str(), attempt.attempt);
            let log = log.map_err(|error| CliError::failed(format!("the log of {} #{} cannot be read: {error}", attempt.path, attempt.attempt)))?;
            found.push(Found { run: run.clone(), attempt, log });
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// The workflows that run the script, themselves or through others.
fn workflows_with(script: &str, store: &dyn Store) -> Result<BTreeSet<String>, CliError> {
    let mut found = BTreeSet::new();
    let mut open = vec![AssetName::new(SCRIPT, script)];
    while let Some(asset) = open.pop() {
        for by in store.referrers(&asset).map_err(CliError::store)? {
            if by.kind == WORKFLOW && found.insert(by.name.clone()) {
                open.push(by);
            }
        }
    }
    Ok(found)
}

/// The entries of a run's program that run the script.
fn entries_of(script: &str, run: &RunRow, store: &dyn Store) -> Result<BTreeSet<String>, CliError> {
    let program = assets::program(store, &run.workflow, Pins { version: run.version, revision: run.revision, draft: true }).map_err(CliError::assets)?;
    let definitions = std::iter::once(&program.main).chain(program.called.values());
    let nodes = definitions.flat_map(|definition| definition.regions.iter()).flat_map(|region| region.nodes.iter());
    Ok(nodes.filter(|node| matches!(&node.op, Op::Script(op) if op.name == script)).map(|node| node.id.to_string()).collect())
}
