//! `viat run ledger|transitions`: what took effect, and every change of state.

use viat_engine::journal::Batch;
use viat_engine::ledger::ledger;
use viat_engine::transitions::transitions;
use viat_store::{RunId, Store, big};

use super::error::CliError;
use super::output::{Output, printable};
use crate::wiring::Home;

/// Folds the batches of a run's journal, one after the other: together they may take more memory than there is.
pub fn read<T>(store: &dyn Store, id: &RunId, fold: impl FnOnce(&mut dyn Iterator<Item = Batch>) -> T) -> Result<T, CliError> {
    let journal = store.journal(id, 0).map_err(CliError::store)?;
    big::read(store, &journal, fold).map_err(|error| unreadable(id, &error))
}

/// The error for a journal of which something is damaged or missing.
pub fn unreadable(id: &RunId, problem: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("the journal of run {id} cannot be read: {problem}"))
}

/// Prints one line for each script entry that came to an end: its path and what it came to.
pub fn show_ledger(id: &RunId, home: &Home, output: &Output) -> Result<(), CliError> {
    let lines = read(home.store.as_ref(), id, |journal| ledger(journal))?;
    if output.json {
        return output.value(&lines);
    }
    for line in &lines {
        output.line(&format!("{} {}", line.path, line.outcome))?;
    }
    if lines.is_empty() {
        output.note("no script entry has come to an end");
    }
    Ok(())
}

/// Of what a person did, or what is said of it.
fn who_and_why(by: Option<&str>, reason: Option<&str>) -> String {
    match (by, reason) {
        (Some(by), Some(reason)) => format!("{by}: {reason}"),
        (by, reason) => by.or(reason).unwrap_or_default().to_owned(),
    }
}

/// Prints every change of state.
pub fn show_transitions(id: &RunId, home: &Home, output: &Output) -> Result<(), CliError> {
    let found = read(home.store.as_ref(), id, |journal| transitions(journal))?;
    if output.json {
        return output.value(&found);
    }
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|row| {
            vec![
                row.timestamp.clone(),
                row.step_name.as_ref().map_or_else(|| "(run)".to_owned(), ToString::to_string),
                text(row.from_status),
                row.to_status.to_owned(),
                row.attempt.map(|attempt| attempt.to_string()).unwrap_or_default(),
                text(row.error_type.as_deref()),
                text(row.side_effect_id.as_deref()),
                printable(&who_and_why(row.by.as_deref(), row.reason.as_deref())),
            ]
        })
        .collect();
    output.table(&["TIME", "STEP", "FROM", "TO", "TRY", "ERROR", "SIDE EFFECT", "WHO AND WHY"], &rows, "no transitions")
}
