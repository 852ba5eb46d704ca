//! What happens next with a run that stands still, and what its people can do: the commands, ready to be typed.

use viat_engine::Status;
use viat_engine::record::{Compensation, LedgerStatus, RunRecord};
use viat_runner::assets::{self, Pins};
use viat_runner::driver::PENDING_REVIEW;
use viat_store::{AssetName, At, Store};

use super::output::printable;

/// What is in place of a run that ended badly, and what can be done about one that did or that needs a person's word: a line each.
pub fn steps(record: &RunRecord, store: &dyn Store) -> Vec<String> {
    let id = &record.id;
    let mut lines = in_place(record);
    match record.status {
        Status::Failed => {
            lines.push(format!("to go on from what failed: viat run resume {id}"));
            lines.extend(newer(record, store));
        }
        Status::Cancelled => {}
        _ => return how_to_settle(record).into_iter().collect(),
    }
    let failed = record.ledger.iter().any(|row| row.status == LedgerStatus::CompensationFailed);
    match record.compensation {
        Compensation::Available => lines.push(format!("to undo what is in place: viat run compensate {id}")),
        Compensation::Partial if failed => lines.push(format!("to try again to undo it: viat run compensate {id}")),
        _ => {}
    }
    lines
}

/// The effects that are in place though the run ended badly, and why.
fn in_place(record: &RunRecord) -> Vec<String> {
    let undone_at_its_end = matches!(record.status, Status::Failed | Status::Cancelled);
    let rows = record.ledger.iter().filter(|row| undone_at_its_end && row.status != LedgerStatus::Compensated);
    let unknown = record.uncertain.iter().filter(|_| undone_at_its_end).map(|path| format!("{path}: nobody knows whether its last attempt took effect"));
    let why = rows.filter_map(|row| Some((&row.path, row.status, row.reason.as_ref()?)));
    let why = why.map(|(path, status, reason)| {
        let what = if status == LedgerStatus::Irreversible { "cannot be undone" } else { "is not undone" };
        printable(&format!("{path} {what}: {reason}"))
    });
    unknown.chain(why).collect()
}

/// How to go on with a run that waits for a person's word on an attempt.
pub fn how_to_settle(record: &RunRecord) -> Option<String> {
    if record.status != Status::NeedsAttention {
        return None;
    }
    let step = record.error.as_ref().and_then(|error| error.path.as_ref()).map_or_else(|| "ID".to_owned(), ToString::to_string);
    Some(format!("say what came of it: viat run settle {} --step {step} --completed JSON, or --not-done", record.id))
}

/// What a run that has not ended waits for, if that is a person.
pub fn waits_for(record: &RunRecord) -> Option<String> {
    how_to_settle(record).or_else(|| {
        let review = record.reviews.iter().find(|review| review.status == PENDING_REVIEW)?;
        Some(format!("decide its review: viat review decide {} --decision approved|rejected|changes_requested", review.id))
    })
}

/// Which of the things that a run keeps have newer versions, and how it gets them; `None` if none has, or it cannot be told.
pub fn newer(record: &RunRecord, store: &dyn Store) -> Option<String> {
    let newest = version(assets::WORKFLOW, &record.workflow, At::Latest, store)?;
    let mut found = newer_scripts(record, store)?;
    if newest > record.version {
        found.insert(0, format!("workflow {} has version {newest}, the run has {}", record.workflow, record.version));
    }
    if found.is_empty() {
        return None;
    }
    let (id, version) = (&record.id, newest.max(record.version));
    Some(format!("{}; to take what is newest: viat run migrate {id} --to-version {version} --reason WHY", found.join(", ")))
}

fn newer_scripts(record: &RunRecord, store: &dyn Store) -> Option<Vec<String>> {
    let pins = Pins { version: record.version, revision: record.revision, draft: true };
    let program = assets::program(store, &record.workflow, pins).ok()?;
    let names = assets::scripts_of(&program);
    let found = names.iter().filter_map(|name| {
        let pinned = version(assets::SCRIPT, name, At::Revision(record.revision), store)?;
        let newest = version(assets::SCRIPT, name, At::Latest, store)?;
        (newest > pinned).then(|| format!("script {name} has version {newest}, the run has {pinned}"))
    });
    Some(found.collect())
}

fn version(kind: &str, name: &str, at: At, store: &dyn Store) -> Option<u64> {
    Some(store.asset(&AssetName::new(kind, name), at).ok()??.info.version)
}
