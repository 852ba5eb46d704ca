//! `viat workflow test`: runs the draft and waits for its end.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use viat_engine::Status;
use viat_engine::record::{AttemptStatus, RunRecord};
use viat_runner::assets;
use viat_runner::driver::NewRun;
use viat_store::{At, RunId};

use super::error::CliError;
use super::foreground::Foreground;
use super::output::Output;
use super::progress::{Progress, span};
use super::rehearse::RehearsalArgs;
use super::watch::Ending;
use super::{inputs, next, run, run_record};
use crate::audit::Change;
use crate::start::{Request, Which, prepare};
use crate::wiring::{Home, Mode, execution_deadline_ms};

/// What `workflow test` takes.
#[derive(Args)]
pub struct TestArgs {
    /// The workflow's name.
    name: String,
    /// Its inputs: JSON, @FILE, or - for stdin.
    #[arg(long, default_value = "{}")]
    input: String,
    /// A budget for the run; the strictest of this and the document's holds.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Skip waits, retry delays and the time of reviews while nothing real is running.
    #[arg(long)]
    fast_forward: bool,
    #[command(flatten)]
    rehearsal: RehearsalArgs,
}

/// How long running attempts may finish once the command is interrupted.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);

/// Runs the draft.
pub fn test(args: &TestArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let given = inputs::json(&args.input, "--input")?;
    let timeout_ms = inputs::duration(args.timeout.as_deref(), "--timeout")?;
    warn_of_deadline(output);
    let new = prepare(home.store.as_ref(), &Request { workflow: &args.name, which: Which::Draft, inputs: &given, timeout_ms })?;
    warn_of_drafts(&new, home, output)?;
    let id = new.id.clone();
    home.can_run(&new)?;
    let rehearsal = args.rehearsal.rehearsal(&new.program)?;
    let foreground = Foreground::begin(home, Mode { fast_forward: args.fast_forward, rehearsal, ..Mode::default() })?;
    foreground.driver.start_run(new, Some(foreground.sender())).map_err(CliError::driver)?;
    Change::of("run.start", id.as_str()).detail(format!("draft of workflow {}", args.name)).mention(home.store.as_ref(), &home.actor);
    follow(&id, &foreground, home, output)
}

/// Says so if the variable that sets the default execution deadline makes no sense.
pub fn warn_of_deadline(output: &Output) {
    if let Some(warning) = execution_deadline_ms().1 {
        output.note(&format!("{} {warning}", output.paint("33;1", "warning:")));
    }
}

/// Says which called workflows are used as drafts, having never been published.
fn warn_of_drafts(new: &NewRun, home: &Home, output: &Output) -> Result<(), CliError> {
    for name in new.program.called.keys().filter(|key| !key.contains('@')) {
        if assets::published(home.store.as_ref(), name, At::Revision(new.revision)).map_err(CliError::assets)?.is_none() {
            output.note(&format!("{} workflow {name} was never published; its draft is used", output.paint("36", "note:")));
        }
    }
    Ok(())
}

/// Shows a run of this command's engine until its end, and prints what came of it.
pub fn follow(id: &RunId, foreground: &Foreground, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    until_over(id, foreground, home, output)?;
    conclude(id, home, output)
}

/// Shows a run of this command's engine until it is over, or nobody but a person can say how it goes on.
pub fn until_over(id: &RunId, foreground: &Foreground, home: &Home, output: &Output) -> Result<(), CliError> {
    let mut progress = Progress::new(output);
    let stuck = || home.store.run(id).is_ok_and(|row| row.is_some_and(|row| row.summary.status == Status::NeedsAttention.name()));
    let ending = foreground.watch.wait(&mut progress, stuck);
    progress.finish();
    match ending {
        Ending::Ended | Ending::Stuck => Ok(()),
        Ending::Lost(error) => Err(CliError::store(error).help(format!("run {id} stays as the store has it; go on with: viat run resume {id}"))),
        Ending::Interrupted => {
            output.note(&format!("interrupted: what runs may finish within {} s; interrupt again to end it now", INTERRUPT_GRACE.as_secs()));
            foreground.watch.end_at_next_signal();
            foreground.driver.shut_down(INTERRUPT_GRACE);
            let help = format!("go on with: viat run resume {id}; an attempt that was cut off then counts as interrupted");
            Err(CliError::interrupted(format!("interrupted; run {id} keeps what is done")).help(help))
        }
    }
}

/// Prints the result of a run that has ended.
pub fn conclude(id: &RunId, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let record = run_record(home.store.as_ref(), id)?;
    let succeeded = record.status == Status::Succeeded;
    if !output.json {
        summary(&record, home, output);
    }
    if output.json {
        output.value(&record)?;
    } else if let Some(outputs) = record.outputs.as_ref().filter(|_| succeeded) {
        output.value(outputs)?;
    }
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What came of the run, on stderr: which attempts it recovered from, or what failed and the end of its log.
fn summary(record: &RunRecord, home: &Home, output: &Output) {
    let took = record.ended_at.zip(record.started_at).map(|(end, start)| format!(" in {}", span(end - start))).unwrap_or_default();
    let recovered: Vec<String> = record
        .attempts
        .iter()
        .filter(|attempt| attempt.recovered)
        .map(|attempt| format!("{} #{} ({})", attempt.path, attempt.attempt, attempt.code.as_deref().unwrap_or_default()))
        .collect();
    let verdict = match record.status {
        Status::Succeeded => output.paint("32;1", "succeeded"),
        Status::Cancelled => output.paint("33;1", "cancelled"),
        _ => output.paint("31;1", record.status.name()),
    };
    output.note(&format!("run {} {verdict}{took}", record.id));
    if !recovered.is_empty() {
        output.note(&format!("recovered: {}", recovered.join(", ")));
    }
    let queued: Vec<&str> = record.deferred.iter().filter_map(|task| task.run.as_deref()).collect();
    if !queued.is_empty() {
        output.note(&format!("deferred: {} (a server of this home runs them; without one: viat run resume ID)", queued.join(", ")));
    }
    run::error_lines(record, output).iter().for_each(|line| output.note(line));
    if record.error.is_some()
        && let Some(failed) = record.attempts.iter().rev().find(|attempt| attempt.status == AttemptStatus::Failed && !attempt.recovered)
    {
        run::log_tail(home, record, failed, output);
    }
    next::steps(record, home.store.as_ref()).iter().for_each(|line| output.note(line));
}
