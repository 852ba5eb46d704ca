//! What is read off a journal without running it (the record, the ledger, the transitions) says what the run itself knows.

use std::collections::BTreeMap;

use viat_engine::Status;
use viat_engine::journal::Event;
use viat_engine::ledger::{LedgerLine, Outcome, ledger};
use viat_engine::path::Path;
use viat_engine::record::{LedgerRecord, LedgerStatus, RunRecord};
use viat_engine::transitions::{Transition, transitions};

use crate::world::World;

/// Checks a world's journal against its run.
pub fn check(world: &World<'_>) -> Result<(), String> {
    let effects = world.run.effects();
    record(world, &effects)?;
    lines(world, &effects)?;
    changes(world, &effects)
}

fn record(world: &World<'_>, effects: &[LedgerRecord]) -> Result<(), String> {
    let run = &world.run;
    let record = RunRecord::of(&world.journal).ok_or("the journal has no record")?;
    let rows: Vec<_> = record.ledger.iter().map(told).collect();
    let known: Vec<_> = effects.iter().map(told).collect();
    if rows != known {
        return Err(format!("the record's ledger says {rows:?}, the run {known:?}"));
    }
    if run.status.is_terminal() != record.ended_at.is_some() || (run.status.is_terminal() && record.status != run.status) {
        return Err(format!("the record says {}, the run {}", record.status.name(), run.status.name()));
    }
    if record.error != run.error && run.status != Status::Compensating {
        return Err(format!("the record's error is {:?}, the run's {:?}", record.error, run.error));
    }
    if (record.version, record.deadline, &record.outputs) != (run.version, run.deadline, &run.outputs) {
        return Err(format!("the record has version {}, deadline {:?} and outputs {:?}, the run not", record.version, record.deadline, record.outputs));
    }
    if record.revision != run.revision {
        return Err(format!("the record pins revision {}, the run {}", record.revision, run.revision));
    }
    let mut uncertain: Vec<&Path> = record.uncertain.iter().collect();
    uncertain.sort();
    if uncertain != run.uncertain() {
        return Err(format!("the record's unknown outcomes are {uncertain:?}, the run's {:?}", run.uncertain()));
    }
    let open = record.deferred.iter().filter(|task| !task.discarded).map(|task| (&task.path, task.attempt, &task.args));
    let kept = run.deferred_tasks().iter().map(|task| (&task.path, task.attempt, &task.args));
    // What a run that ended badly keeps, in case it is resumed, is shown as discarded.
    let ended_badly = matches!(run.status, Status::Failed | Status::Cancelled | Status::Compensating);
    if !ended_badly && open.clone().ne(kept.clone()) {
        return Err(format!("the record's open tasks are {:?}, the run's {:?}", open.collect::<Vec<_>>(), kept.collect::<Vec<_>>()));
    }
    if run.status == Status::Succeeded && record.deferred.iter().any(|task| task.run.is_some() == task.discarded) {
        return Err(format!("a task of the run that succeeded is neither submitted nor discarded, or both: {:?}", record.deferred));
    }
    let pending = record.reviews.iter().filter(|review| review.status == "pending_review").count();
    if run.status.is_terminal() && pending > 0 {
        return Err(format!("the run has ended, {pending} reviews are pending"));
    }
    Ok(())
}

fn told(row: &LedgerRecord) -> (&Path, LedgerStatus, u32) {
    (&row.path, row.status, row.order)
}

/// Every effect has its line, and what the run's end undid is the last word about it.
fn lines(world: &World<'_>, effects: &[LedgerRecord]) -> Result<(), String> {
    let lines: Vec<LedgerLine> = ledger(&world.journal);
    for line in &lines {
        let effect = effects.iter().any(|effect| effect.path == line.path);
        let undoes =
            world.journal.iter().flat_map(|batch| &batch.events).any(|event| matches!(event, Event::CompensateEntered { path, .. } if *path == line.path));
        let names_effect = matches!(line.outcome, Outcome::CompletedAt(_) | Outcome::AlreadyCompleted) && !undoes;
        if names_effect && !effect {
            return Err(format!("the ledger says {} {}, the run knows no such effect", line.path, line.outcome));
        }
    }
    for effect in effects {
        let mut of = lines.iter().filter(|line| line.path == effect.path).map(|line| line.outcome);
        if !of.any(|outcome| matches!(outcome, Outcome::CompletedAt(_))) {
            return Err(format!("{} took effect, the ledger does not say so", effect.path));
        }
        let last = lines.iter().rfind(|line| line.path == effect.path).map(|line| line.outcome);
        let status = match last {
            Some(Outcome::Undone(undone)) => undone.name(),
            _ => continue,
        };
        if status != name(effect.status) {
            return Err(format!("the ledger says {} {status}, the run {}", effect.path, name(effect.status)));
        }
    }
    Ok(())
}

/// Each change begins where the one before ended; the last ones are how the run and its effects stand; keys are those that were given.
fn changes(world: &World<'_>, effects: &[LedgerRecord]) -> Result<(), String> {
    let changes = transitions(&world.journal);
    let mut statuses: BTreeMap<Option<&Path>, &str> = BTreeMap::new();
    let mut standing: BTreeMap<&Path, &str> = BTreeMap::new();
    for change in &changes {
        let step = change.step_name.as_ref();
        if statuses.insert(step, change.to_status) != change.from_status {
            return Err(format!("{change:?} does not follow what was before"));
        }
        if let Some(path) = step {
            stands(&mut standing, path, change);
            keyed(world, path, change)?;
        }
    }
    for effect in effects {
        if standing.get(&effect.path) != Some(&name(effect.status)) {
            return Err(format!("the transitions leave {} {:?}, the run {}", effect.path, standing.get(&effect.path), name(effect.status)));
        }
    }
    if !world.run.status.is_terminal() {
        open_ones_have_no_line(world, &statuses)?;
    }
    // A migration is a record of the run's, after which it is what it was.
    let of_run = changes.iter().rev().filter(|change| change.step_name.is_none() && change.to_status != "migrated");
    let last = of_run.map(|change| change.to_status).next().unwrap_or("");
    let live = matches!(last, "queued" | "running" | "waiting" | "needs_attention");
    if (world.run.status.is_terminal() || live) && last != world.run.status.name() {
        return Err(format!("the transitions leave the run {last}, it is {}", world.run.status.name()));
    }
    Ok(())
}

/// As long as nobody knows what came of an entry, the ledger does not say that it failed.
fn open_ones_have_no_line(world: &World<'_>, statuses: &BTreeMap<Option<&Path>, &str>) -> Result<(), String> {
    let lines: Vec<LedgerLine> = ledger(&world.journal);
    for (path, status) in statuses.iter().filter_map(|(path, status)| path.map(|path| (path, *status))) {
        let last = lines.iter().rfind(|line| line.path == *path).map(|line| line.outcome);
        let failed = matches!(last, Some(Outcome::Failed | Outcome::RetryExhausted | Outcome::ManualReview));
        if failed && matches!(status, "uncertain" | "resolving" | "needs_attention") {
            return Err(format!("{path} is {status}, the ledger says {last:?} already"));
        }
    }
    Ok(())
}

fn stands<'c>(standing: &mut BTreeMap<&'c Path, &'c str>, path: &'c Path, change: &'c Transition) {
    // A recovery that is through completes its entry, but is no effect of it.
    let recovery = change.from_status == Some("recovering");
    if matches!(change.to_status, "completed" | "compensated" | "compensation_failed" | "irreversible") && !recovery {
        standing.insert(path, change.to_status);
    }
}

fn keyed(world: &World<'_>, path: &Path, change: &Transition) -> Result<(), String> {
    let (attempt, of) = match (change.attempt, change.to_status) {
        (Some(attempt), "running") => (attempt, path.clone()),
        (Some(attempt), "undoing") => (attempt, path.compensation()),
        _ => return Ok(()),
    };
    match world.keys.get(&(of, attempt)) {
        given if given == change.side_effect_id.as_ref() => Ok(()),
        // No worker was to be had.
        None if change.to_status == "undoing" => Ok(()),
        given => Err(format!("{path} #{attempt} was given the key {given:?}, the transitions say {:?}", change.side_effect_id)),
    }
}

fn name(status: LedgerStatus) -> &'static str {
    match status {
        LedgerStatus::Completed => "completed",
        LedgerStatus::Compensated => "compensated",
        LedgerStatus::CompensationFailed => "compensation_failed",
        LedgerStatus::Irreversible => "irreversible",
    }
}
