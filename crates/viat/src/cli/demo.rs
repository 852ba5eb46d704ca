//! `viat demo`: the flagship example, end to end, and what it shows about failure.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use viat_engine::Status;
use viat_engine::record::{AttemptStatus, LedgerRecord, LedgerStatus, RunRecord};
use viat_store::RunId;

use super::error::CliError;
use super::example::{self, Example};
use super::foreground::Foreground;
use super::output::{Output, printable};
use super::progress::{Progress, failed_record, span};
use super::rehearse::RehearsalArgs;
use super::watch::Ending;
use super::{apply, run, run_record};
use crate::start::{Request, Which, prepare};
use crate::wiring::{Home, Mode};

/// The example's workflow.
const WORKFLOW: &str = "content";

/// What `demo` takes.
#[derive(Args)]
pub struct DemoArgs {
    /// The project folder to make or use.
    #[arg(default_value = "./viat-demo")]
    dir: PathBuf,
    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// Makes the project, runs it with a failure rehearsed, and says what happened.
pub fn run_demo(args: &DemoArgs, output: &Output) -> Result<ExitCode, CliError> {
    // Somebody may have changed an earlier demo's files; theirs are kept.
    example::write(&args.dir, Example::Content)?;
    let home = Home::open(&args.dir.join(".viat"))?;
    apply::apply(&args.dir, &home, output)?;
    output.note(&format!("The content flow in {}: check_input, generate_draft, stage_draft, review, save_result, notify.", args.dir.display()));
    output.note("The generator's first attempt is made to fail. The review is a person's: decide it with --decide, or in another terminal, there.\n");
    let id = play(args, &home, output)?;
    let record = run_record(home.store.as_ref(), &id)?;
    if output.json {
        output.value(&record)?;
    } else {
        report(&record, &args.dir, output)?;
    }
    Ok(if record.status == Status::Succeeded { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn play(args: &DemoArgs, home: &Home, output: &Output) -> Result<RunId, CliError> {
    let dir = std::path::absolute(&args.dir).map_err(|error| CliError::usage(format!("{} has no absolute path: {error}", args.dir.display())))?;
    let task = format!("t-{}", &viat_store::fresh_id().replace('-', "")[..12]);
    let inputs = json!({"task_id": task, "topic": "local recovery", "outbox": dir.join("results"), "rehearse_failure": true});
    let new = prepare(home.store.as_ref(), &Request { workflow: WORKFLOW, which: Which::Draft, inputs: &inputs, timeout_ms: None })?;
    let id = new.id.clone();
    home.can_run(&new)?;
    let foreground = Foreground::begin(home, Mode { rehearsal: args.rehearsal.rehearsal(&new.program)?, ..Mode::default() })?;
    foreground.driver.start_run(new, Some(foreground.sender())).map_err(CliError::driver)?;
    let mut progress = Progress::new(output);
    let ending = foreground.watch.wait(&mut progress, || false);
    progress.finish();
    match ending {
        Ending::Ended | Ending::Stuck => Ok(id),
        Ending::Lost(error) => Err(CliError::store(error)),
        Ending::Interrupted => Err(CliError::interrupted("interrupted").help(format!("go on with: viat --home {} run resume {id}", home.folder.display()))),
    }
}

fn report(record: &RunRecord, dir: &Path, output: &Output) -> Result<(), CliError> {
    let took = record.ended_at.zip(record.started_at).map(|(end, start)| span(end - start)).unwrap_or_default();
    output.line(&format!("run {} {} in {took}", record.id, record.status.name()))?;
    let line = |label: &str, text: &str| output.line(&format!("  {label:<22} {text}"));
    for attempt in record.attempts.iter().filter(|attempt| attempt.status == AttemptStatus::Failed) {
        line("what failed", &format!("{} #{}: {}", attempt.path, attempt.attempt, failed_record(attempt)))?;
    }
    for attempt in record.attempts.iter().filter(|attempt| attempt.attempt > 1) {
        line("what was retried", &format!("{}, after {} ms, with the same arguments", attempt.path, attempt.wait_ms))?;
    }
    let retried = |path: &viat_engine::path::Path| record.attempts.iter().any(|attempt| attempt.path == *path && attempt.attempt > 1);
    let once: Vec<String> =
        record.attempts.iter().filter(|attempt| attempt.purpose.is_none() && !retried(&attempt.path)).map(|attempt| attempt.path.to_string()).collect();
    line("what was not repeated", &once.join(", "))?;
    for review in &record.reviews {
        let by = review.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let comment = review.comment.as_ref().map(|comment| format!(": {comment}")).unwrap_or_default();
        line("what was decided", &printable(&format!("{} {}{by}{comment}", review.path, review.status)))?;
    }
    let (done, undone): (Vec<_>, Vec<_>) = record.ledger.iter().partition(|row| row.status == LedgerStatus::Completed);
    let listed = |rows: Vec<&LedgerRecord>| rows.iter().map(|row| row.path.to_string()).collect::<Vec<_>>().join(", ");
    line("what is done", &listed(done))?;
    if !undone.is_empty() {
        line("what was undone", &listed(undone))?;
    }
    if let Some(outputs) = &record.outputs {
        line("outputs", &outputs.to_string())?;
    }
    run::error_lines(record, output).iter().for_each(|line| output.note(line));
    output.line("")?;
    output.line("Look closer:")?;
    let home = dir.join(".viat");
    let viat = std::env::args().next().unwrap_or_else(|| "viat".to_owned());
    output.line(&format!("  {viat} --home {} run show {}", home.display(), record.id))?;
    output.line(&format!("  {viat} --home {} run logs {}", home.display(), record.id))
}
