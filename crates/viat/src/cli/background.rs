//! `viat run start|cancel|watch`: runs that work in the server of the home, or wait for one.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use viat_engine::Status;
use viat_store::{RunId, RunRow, big};

use super::client::Client;
use super::error::CliError;
use super::foreground::Foreground;
use super::history::unreadable;
use super::output::Output;
use super::progress::Progress;
use super::review::user;
use super::tell::patiently;
use super::test::{conclude, follow, warn_of_deadline};
use super::{find_run, inputs};
use crate::audit::Change;
use crate::start::{Request, Which, prepare, queue};
use crate::wiring::{Home, Mode};

/// How often a run of another process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a cancelled run of this process may take to end.
const END_WITHIN: Duration = Duration::from_secs(30);

/// What `run start` takes.
#[derive(Args)]
pub struct StartArgs {
    /// The workflow's name.
    name: String,
    /// Its inputs: JSON, @FILE, or - for stdin.
    #[arg(long, default_value = "{}")]
    input: String,
    /// A version other than the published one.
    #[arg(long)]
    version: Option<u64>,
    /// A budget for the run; the strictest of this and the document's holds.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Wait for its end and print what `workflow test` prints.
    #[arg(long)]
    wait: bool,
}

/// What `run cancel` takes.
#[derive(Args)]
pub struct CancelArgs {
    /// The run's id.
    run: String,
    /// Who cancels it [default: the user's name].
    #[arg(long)]
    by: Option<String>,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

/// Starts a run.
pub fn start(args: &StartArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let given = inputs::json(&args.input, "--input")?;
    let timeout_ms = inputs::duration(args.timeout.as_deref(), "--timeout")?;
    warn_of_deadline(output);
    let which = args.version.map_or(Which::Published, Which::Version);
    let new = prepare(home.store.as_ref(), &Request { workflow: &args.name, which, inputs: &given, timeout_ms })?;
    let Some(client) = Client::find(&home.folder)? else {
        if args.wait {
            let id = new.id.clone();
            home.can_run(&new)?;
            let foreground = Foreground::begin(home, Mode::traced(output))?;
            foreground.driver.start_run(new, Some(foreground.sender())).map_err(CliError::driver)?;
            Change::of("run.start", id.as_str()).detail(format!("workflow {}", args.name)).mention(home.store.as_ref(), &home.actor);
            return follow(&id, &foreground, home, output);
        }
        let id = queue(home.store.as_ref(), new)?;
        home.note(Change::of("run.start", id.as_str()).detail(format!("workflow {}", args.name)))?;
        output.note(&format!("no server runs on this home: the run is queued until one does (viat server), or until: viat run resume {id}"));
        return started(&id, Status::Queued, output);
    };
    let body = json!({"workflow": args.name, "inputs": given, "version": args.version, "timeout": timeout_ms});
    let answer = client.post("/api/v1/runs", &body)?;
    let id = answer.get("id").and_then(serde_json::Value::as_str).ok_or_else(|| CliError::failed("the server did not say which run it started"))?;
    let id = RunId::from(id);
    if args.wait {
        return watch(&id, home, output);
    }
    started(&id, Status::Running, output)
}

fn started(id: &RunId, status: Status, output: &Output) -> Result<ExitCode, CliError> {
    if output.json {
        output.value(&json!({"id": id.as_str(), "status": status.name()}))?;
    } else {
        output.line(id.as_str())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Cancels a run, wherever it is.
pub fn cancel(args: &CancelArgs, home: &Home, output: &Output) -> Result<(), CliError> {
    let id = find_run(home.store.as_ref(), &args.run)?;
    match Client::of_run(home, &id)? {
        Some(client) => {
            client.post(&format!("/api/v1/runs/{id}/cancel"), &json!({"by": args.by.clone().or_else(user), "reason": args.reason}))?;
        }
        None => cancel_here(&id, args, home, output)?,
    }
    if output.json {
        return output.value(&json!({"id": id.as_str(), "cancel": "requested"}));
    }
    output.line(&format!("run {id}: cancel requested"))
}

/// Without a server the run is taken over for as long as it takes to end it.
fn cancel_here(id: &RunId, args: &CancelArgs, home: &Home, output: &Output) -> Result<(), CliError> {
    let (by, reason) = (args.by.clone().or_else(user), args.reason.clone());
    let driver = home.driver(output)?;
    patiently(|| driver.cancel(id, by.clone(), reason.clone()).map_err(CliError::driver))?;
    home.note(Change { by, reason, ..Change::of("run.cancel", id.as_str()) })?;
    let until = std::time::Instant::now() + END_WITHIN;
    loop {
        let row = home.store.run(id).map_err(CliError::store)?;
        if row.as_ref().is_none_or(|row| row.summary.ended_at.is_some()) {
            break;
        }
        // Undoing takes as long as it takes: its own budget bounds it.
        let undoing = row.is_some_and(|row| row.summary.status == Status::Compensating.name());
        if !undoing && std::time::Instant::now() > until {
            return Err(CliError::failed(format!("run {id} was told to end and has not yet")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Follows a run of another process until it ends.
pub fn watch(id: &RunId, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let mut progress = Progress::new(output);
    let (mut seen, mut told, mut heard) = (0, false, 0);
    loop {
        // The row first: once it says that the run has ended, the journal has everything.
        let row = home.store.run(id).map_err(CliError::store)?;
        let news = home.store.journal(id, seen).map_err(CliError::store)?;
        seen += news.len() as u64;
        for batch in news {
            let batch = big::decode(home.store.as_ref(), &batch).map_err(|error| unreadable(id, &error))?;
            progress.events(&batch);
        }
        let stuck = |row: &RunRow| row.summary.status == Status::NeedsAttention.name();
        if row.as_ref().is_none_or(|row| row.summary.ended_at.is_some() || stuck(row)) {
            break;
        }
        if !told && row.is_some_and(|row| row.owner.is_none()) && Client::find(&home.folder)?.is_none() {
            output.note(&format!("no server runs on this home: the run waits for one (viat server), or for: viat run resume {id}"));
        }
        told = true;
        heard = said_since(heard, id, home, &mut progress)?;
        std::thread::sleep(LOOK_EVERY);
    }
    progress.finish();
    conclude(id, home, output)
}

/// Shows what the run's scripts have said of themselves since, if a server runs it; gives the number of the last word.
fn said_since(heard: u64, id: &RunId, home: &Home, progress: &mut Progress) -> Result<u64, CliError> {
    let Some(client) = Client::find(&home.folder)? else { return Ok(heard) };
    // A server that is ending, or an older one, has nothing to say: the run's own news come from the store.
    let said = client.get(&format!("/api/v1/runs/{id}/progress")).unwrap_or_default();
    let mut last = heard;
    for word in said.as_array().into_iter().flatten() {
        let number = word["number"].as_u64().unwrap_or(0);
        if number > heard {
            progress.said(word["path"].as_str().unwrap_or_default(), word["fraction"].as_f64(), word["note"].as_str());
            last = last.max(number);
        }
    }
    Ok(last)
}
