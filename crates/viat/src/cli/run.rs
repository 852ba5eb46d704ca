//! `viat run`: list, show, logs, and the way to the others.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use viat_engine::Status;
use viat_engine::policies::class::Class;
use viat_engine::record::{AttemptRecord, AttemptStatus, Compensation, RunRecord, rfc3339};
use viat_runner::driver::PENDING_REVIEW;
use viat_store::{RunFilter, RunId, RunRow};

use super::audit::time;
use super::error::CliError;
use super::output::{Output, printable};
use super::progress::{decided, failed_record, span};
use super::{background, find_run, history, next, recover, run_record};
use crate::wiring::Home;

/// The most rows that a list shows at once.
const MAX_ROWS: usize = 1_000;
/// How many characters of each are shown.
const TAIL_WIDTH: usize = 400;
/// How many of a log's last lines are shown beside an error.
const TAIL_LINES: usize = 12;

/// What can be done with runs.
#[derive(Subcommand)]
pub enum RunCommand {
    /// Starts the published version in the background: in the server of this home, or queued until there is one.
    #[command(after_help = "Example:\n  viat run start recover --input '{}'\n  viat run start recover --input @input.json --wait --json")]
    Start(background::StartArgs),
    /// Cancels a run: nothing new of it starts, what runs is told and then ended.
    #[command(after_help = "Example:\n  viat run cancel 0198f3c2 --reason 'wrong customer'")]
    Cancel(background::CancelArgs),
    /// Follows a run until it ends or needs a person's word; exits as `workflow test` does.
    #[command(after_help = "Example:\n  viat run watch 0198f3c2")]
    Watch {
        /// The run's id.
        run: String,
    },
    /// Lists runs, newest first.
    #[command(after_help = "Example:\n  viat run list\n  viat run list --status failed --workflow recover --json")]
    List(ListArgs),
    /// Shows a run: what failed and why, what was retried, what is done. A unique beginning of its id will do.
    #[command(after_help = "Example:\n  viat run show 0198f3c2\n  viat run show 0198f3c2 --json")]
    Show {
        /// The run's id.
        run: String,
    },
    /// Prints what the attempts of a run wrote.
    #[command(after_help = "Example:\n  viat run logs 0198f3c2 --step fetch --attempt 2")]
    Logs {
        /// The run's id.
        run: String,
        /// Only those of this entry (its id or path).
        #[arg(long)]
        step: Option<String>,
        /// Only this attempt.
        #[arg(long)]
        attempt: Option<u32>,
    },
    /// Prints what each script and `compensate` entry came to, a line each: what took effect, what failed, what was undone.
    #[command(after_help = "Example:\n  viat run ledger 0198f3c2")]
    Ledger {
        /// The run's id.
        run: String,
    },
    /// Prints every change of state of a run and of its entries.
    #[command(after_help = "Example:\n  viat run transitions 0198f3c2 --json")]
    Transitions {
        /// The run's id.
        run: String,
    },
    /// Goes on with a run that failed, that is queued, or whose engine died or was interrupted, keeping everything that is done.
    #[command(after_help = "Example:\n  viat run resume 0198f3c2\n  viat run resume 0198f3c2 --from reserve --accept-repeat 'the booking was removed by hand'")]
    Resume(recover::ResumeArgs),
    /// Says what came of an attempt whose outcome nobody could find out: the run goes on from there.
    #[command(
        after_help = "Example:\n  viat run settle 0198f3c2 --step pay --completed '{\"payment\": \"p1\"}'\n  viat run settle 0198f3c2 --step pay --not-done --reason 'the bank has no record of it'"
    )]
    Settle(recover::SettleArgs),
    /// Undoes the effects of a run that failed or was cancelled, newest first; exits 1 if one of them stays in place.
    #[command(after_help = "Example:\n  viat run compensate 0198f3c2 --reason 'the customer withdrew'")]
    Compensate(recover::CompensateArgs),
    /// Moves a run that failed or waits to another version of its workflow; what is done must be the same there.
    #[command(after_help = "Example:\n  viat run migrate 0198f3c2 --to-version 3 --reason 'the bug in `pay` is mended'")]
    Migrate(recover::MigrateArgs),
}

/// Does what the command says.
pub fn run(command: &RunCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        RunCommand::List(args) => list(&filter(args.clone())?, home, output)?,
        RunCommand::Show { run } => show(&find_run(home.store.as_ref(), run)?, home, output)?,
        RunCommand::Logs { run, step, attempt } => logs(&find_run(home.store.as_ref(), run)?, step.as_deref(), *attempt, home, output)?,
        RunCommand::Start(args) => return background::start(args, home, output),
        RunCommand::Cancel(args) => background::cancel(args, home, output)?,
        RunCommand::Watch { run } => return background::watch(&find_run(home.store.as_ref(), run)?, home, output),
        RunCommand::Ledger { run } => history::show_ledger(&find_run(home.store.as_ref(), run)?, home, output)?,
        RunCommand::Transitions { run } => history::show_transitions(&find_run(home.store.as_ref(), run)?, home, output)?,
        RunCommand::Resume(args) => return recover::resume(args, home, output),
        RunCommand::Settle(args) => return recover::settle(args, home, output),
        RunCommand::Compensate(args) => return recover::compensate(args, home, output),
        RunCommand::Migrate(args) => return recover::migrate(args, home, output),
    }
    Ok(ExitCode::SUCCESS)
}

/// What ended a run, and what led to it: a line each.
pub fn error_lines(record: &RunRecord, output: &Output) -> Vec<String> {
    let mut lines = Vec::new();
    let mut error = record.error.as_ref();
    let mut lead = "error:";
    while let Some(current) = error {
        let class = serde_json::to_value(current.class).ok().and_then(|class| class.as_str().map(str::to_owned)).unwrap_or_default();
        let what = if class == current.code { class } else { format!("{class} {}", current.code) };
        let place = current.path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
        let attempt = current.attempt.map(|attempt| format!(" #{attempt}")).unwrap_or_default();
        let status = current.status.map(|status| format!(" (status {status})")).unwrap_or_default();
        lines.push(format!("{} {what}{place}{attempt}{status}: {}", output.paint("31;1", lead), printable(&current.message)));
        error = current.cause.as_deref();
        lead = "after:";
    }
    lines
}

/// Shows the last lines of an attempt's log.
pub fn log_tail(home: &Home, record: &RunRecord, attempt: &AttemptRecord, output: &Output) {
    let bytes = home.logs().read(&record.id, attempt.path.as_str(), attempt.attempt).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    output.note(&output.paint("2", &format!("last lines of the log of {} #{}:", attempt.path, attempt.attempt)));
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        output.note(&format!("  │ {}", shortened(&printable(line))));
    }
}

/// A log's line may be a megabyte long.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(TAIL_WIDTH) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

/// Which runs a list has.
#[derive(Args, Clone)]
pub struct ListArgs {
    /// Only those of this workflow.
    #[arg(long)]
    pub workflow: Option<String>,
    /// Only those with this status.
    #[arg(long)]
    pub status: Option<String>,
    /// Only those that ended with an error of this class.
    #[arg(long, value_name = "CLASS")]
    pub error_class: Option<String>,
    /// Only those created at this time or later, RFC 3339.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only those created before this time, RFC 3339.
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
}

/// What a list is asked for, as the store knows it.
pub fn filter(args: ListArgs) -> Result<RunFilter, CliError> {
    let ListArgs { workflow, status, error_class, since, until, limit } = args;
    if limit == 0 || limit > MAX_ROWS {
        return Err(CliError::usage(format!("the limit must be 1 to {MAX_ROWS}")));
    }
    let classes = || Class::ALL.iter().map(|class| class.name()).chain(["cancelled", "deadline_exceeded"]);
    for (what, given, known) in
        [("status", &status, Status::ALL.iter().map(|known| known.name()).collect()), ("class", &error_class, classes().collect::<Vec<_>>())]
    {
        if let Some(given) = given
            && !known.contains(&given.as_str())
        {
            return Err(CliError::usage(format!("there is no {what} {given}")).help(format!("there are {}", known.join(", "))));
        }
    }
    let moment = |text: Option<String>, what| text.map(|text| time(&text, what)).transpose();
    let (since, until) = (moment(since, "since")?, moment(until, "until")?);
    Ok(RunFilter { workflow, status, error_class, since, until, before: None, limit })
}

/// A run as lists have it.
pub fn row_json(row: &RunRow) -> Value {
    json!({
        "id": row.id.as_str(), "workflow": row.workflow, "version": row.summary.moved_to.unwrap_or(row.version), "status": row.summary.status,
        "error_class": row.summary.error_class, "error_code": row.summary.error_code,
        "created_at": rfc3339(row.created_at), "ended_at": row.summary.ended_at.map(rfc3339),
    })
}

fn list(filter: &RunFilter, home: &Home, output: &Output) -> Result<(), CliError> {
    let limit = filter.limit;
    let rows = home.store.list_runs(filter).map_err(CliError::store)?;
    if output.json {
        return output.value(&rows.iter().map(row_json).collect::<Vec<_>>());
    }
    let table = rows.iter().map(|row| table_row(row, home)).collect::<Result<Vec<_>, _>>()?;
    if rows.len() == limit {
        output.note(&format!("the newest {limit}; --limit shows more"));
    }
    output.table(&["RUN", "WORKFLOW", "STATUS", "ERROR", "CREATED", "TOOK"], &table, "no runs")
}

fn table_row(row: &RunRow, home: &Home) -> Result<Vec<String>, CliError> {
    let stalled = match (is_stalled(row, home)?, &row.owner) {
        _ if row.summary.status == Status::NeedsAttention.name() => " (viat run settle)",
        (false, _) => "",
        (true, None) => " (until a server runs, or: viat run resume)",
        (true, Some(_)) => " (engine gone: viat run resume)",
    };
    Ok(vec![
        row.id.to_string(),
        format!("{} v{}", row.workflow, row.summary.moved_to.unwrap_or(row.version)),
        format!("{}{stalled}", row.summary.status),
        row.summary.error_code.clone().unwrap_or_default(),
        rfc3339(row.created_at),
        row.summary.ended_at.map(|end| span(end - row.created_at)).unwrap_or_default(),
    ])
}

/// The same of a run by its id; one that is gone is not.
pub fn is_stalled_now(id: &RunId, home: &Home) -> Result<bool, CliError> {
    let row = home.store.run(id).map_err(CliError::store)?;
    row.map_or(Ok(false), |row| is_stalled(&row, home))
}

/// Whether a run is unfinished and its engine is dead.
fn is_stalled(row: &RunRow, home: &Home) -> Result<bool, CliError> {
    match &row.owner {
        _ if row.summary.ended_at.is_some() => Ok(false),
        None => Ok(true),
        Some(owner) => Ok(!home.store.is_alive(owner).map_err(CliError::store)?),
    }
}

fn show(id: &RunId, home: &Home, output: &Output) -> Result<(), CliError> {
    let record = run_record(home.store.as_ref(), id)?;
    if output.json {
        return output.value(&record);
    }
    let took = record.ended_at.zip(record.started_at).map(|(end, start)| format!(", took {}", span(end - start))).unwrap_or_default();
    output.line(&format!("run {}  {}{took}", record.id, record.status.name()))?;
    output.line(&format!("workflow {} version {}, created {}", record.workflow, record.version, rfc3339(record.created_at)))?;
    output.line(&format!("inputs   {}", record.inputs))?;
    if let Some(outputs) = &record.outputs {
        output.line(&format!("outputs  {outputs}"))?;
    }
    let row = home.store.run(id).map_err(CliError::store)?;
    if let Some(row) = row
        && record.status != Status::NeedsAttention
        && is_stalled(&row, home)?
    {
        let why = if row.owner.is_none() { "it waits for a server (viat server)" } else { "its engine is gone" };
        output.line(&format!("{why}; go on with: viat run resume {id}"))?;
    }
    for review in record.reviews.iter().filter(|review| review.status == PENDING_REVIEW) {
        output.line(&format!("it asks  {}; look at it with: viat review show {}", printable(&review.title), review.id))?;
    }
    if record.compensation != Compensation::None {
        output.line(&format!("undoing  {}; effect by effect: viat run ledger {id}", json!(record.compensation).as_str().unwrap_or_default()))?;
    }
    output.line("")?;
    let rows: Vec<Vec<String>> = record.attempts.iter().map(attempt_row).collect();
    output.table(&["STEP", "TRY", "STATUS", "WAITED", "TOOK", "WHAT"], &rows, "no attempts")?;
    let after = error_lines(&record, output).into_iter().chain(next::steps(&record, home.store.as_ref()));
    after.into_iter().try_for_each(|line| output.line(&line))
}

fn attempt_row(attempt: &AttemptRecord) -> Vec<String> {
    let what = match &attempt.decision {
        Some(decision) => {
            let fate = if attempt.recovered { "; recovered" } else { "" };
            format!("{}; {}{fate}", failed_record(attempt), decided(decision))
        }
        None => String::new(),
    };
    let status = match attempt.status {
        AttemptStatus::Running => "running",
        AttemptStatus::Succeeded => "succeeded",
        AttemptStatus::Failed => "failed",
        AttemptStatus::Cancelled => "cancelled",
    };
    vec![
        attempt.path.to_string(),
        attempt.attempt.to_string(),
        status.to_owned(),
        if attempt.wait_ms > 0 { span(i64::try_from(attempt.wait_ms).unwrap_or(i64::MAX)) } else { String::new() },
        attempt.ended_at.zip(attempt.started_at).map(|(end, start)| span(end - start)).unwrap_or_default(),
        printable(what.trim_end()),
    ]
}

fn logs(id: &RunId, step: Option<&str>, attempt: Option<u32>, home: &Home, output: &Output) -> Result<(), CliError> {
    let record = run_record(home.store.as_ref(), id)?;
    let wanted =
        |row: &&AttemptRecord| step.is_none_or(|step| row.step == step || row.path.as_str() == step) && attempt.is_none_or(|attempt| row.attempt == attempt);
    let rows: Vec<&AttemptRecord> = record.attempts.iter().filter(wanted).collect();
    if rows.is_empty() && (step.is_some() || attempt.is_some()) {
        return Err(CliError::refused(format!("run {id} has no such attempt")).help(format!("`viat run show {id}` lists its attempts")));
    }
    let read = |row: &AttemptRecord| {
        let bytes = home.logs().read(&record.id, row.path.as_str(), row.attempt);
        bytes.map_err(|error| CliError::usage(format!("the log of {} #{} cannot be read: {error}", row.path, row.attempt)))
    };
    if output.json {
        let found = rows.iter().map(|row| Ok(json!({"step": row.step, "path": row.path, "attempt": row.attempt, "log": String::from_utf8_lossy(&read(row)?)})));
        return output.value(&found.collect::<Result<Vec<_>, CliError>>()?);
    }
    let mut silent = true;
    for row in rows {
        let bytes = read(row)?;
        if !bytes.is_empty() {
            silent = false;
            output.line(&output.paint("1", &format!("--- {} #{}", row.path, row.attempt)))?;
            // Escape sequences may be wanted in a file, but must not take over a terminal.
            let text = String::from_utf8_lossy(&bytes);
            let shown =
                if output.stdout_terminal { text.lines().map(printable).collect::<Vec<_>>().join("\n") } else { text.trim_end_matches('\n').to_owned() };
            output.line(&shown)?;
        }
    }
    if silent {
        output.note("nothing was printed (what an attempt printed is kept when it ends; an engine that dies loses it)");
    }
    Ok(())
}
