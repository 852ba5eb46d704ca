//! `viat run resume|settle|compensate|migrate`: what people do about runs that did not end well.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use viat_engine::record::{Compensation, RunRecord};
use viat_engine::{Input, Status};
use viat_store::RunId;

use super::client::Client;
use super::error::CliError;
use super::foreground::Foreground;
use super::output::{Output, printable};
use super::review::user;
use super::tell::{patiently, tell};
use super::{find_run, inputs, next, run, run_record, test};
use crate::ask::{self, MigrateBody, ResumeBody, SettleBody, WhoBody};
use crate::audit::Change;
use crate::wiring::{Home, Mode};

/// Who asks, and why.
#[derive(Args, Clone)]
pub struct WhoArgs {
    /// Who asks for it [default: the user's name].
    #[arg(long)]
    by: Option<String>,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

impl WhoArgs {
    fn by(&self) -> Option<String> {
        self.by.clone().or_else(user)
    }
}

/// What `resume` takes.
#[derive(Args)]
pub struct ResumeArgs {
    /// The run's id.
    run: String,
    /// Start again at this earlier entry (its id, or its path) of a failed run.
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Why effects that are in place from there on may be repeated.
    #[arg(long, value_name = "REASON")]
    accept_repeat: Option<String>,
    #[command(flatten)]
    who: WhoArgs,
    /// Refused: other inputs make another run.
    #[arg(long, hide = true)]
    input: Option<String>,
}

/// What `settle` takes.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub struct SettleArgs {
    /// The run's id.
    run: String,
    /// The entry whose outcome is unknown: its id, or its path.
    #[arg(long, value_name = "ID")]
    step: String,
    /// It took effect, and this is its output: JSON, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON", group = "outcome")]
    completed: Option<String>,
    /// It did not take effect.
    #[arg(long, group = "outcome")]
    not_done: bool,
    #[command(flatten)]
    who: WhoArgs,
}

/// What `compensate` takes.
#[derive(Args)]
pub struct CompensateArgs {
    /// The run's id.
    run: String,
    #[command(flatten)]
    who: WhoArgs,
}

/// What `migrate` takes.
#[derive(Args)]
pub struct MigrateArgs {
    /// The run's id.
    run: String,
    /// The version of its workflow that it is moved to.
    #[arg(long, value_name = "VERSION")]
    to_version: u64,
    /// Why.
    #[arg(long)]
    reason: String,
    /// Who moves it [default: the user's name].
    #[arg(long)]
    by: Option<String>,
}

/// Goes on with a run: one that failed in the server or else here, one whose engine is gone here.
pub fn resume(args: &ResumeArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    if args.input.is_some() {
        return Err(CliError::usage("a run keeps its inputs: with others it is a new run").help("start one: viat run start WORKFLOW --input JSON"));
    }
    let id = find_run(home.store.as_ref(), &args.run)?;
    let row = home.store.run(&id).map_err(CliError::store)?;
    if row.is_none_or(|row| row.summary.ended_at.is_none()) {
        return take_over(&id, args, home, output);
    }
    if let Some(newer) = next::newer(&run_record(home.store.as_ref(), &id)?, home.store.as_ref()) {
        output.note(&newer);
    }
    let body = ResumeBody { by: args.who.by(), reason: args.who.reason.clone(), from: args.from.clone(), accept_repeat: args.accept_repeat.clone() };
    if let Some(client) = Client::of_run(home, &id)? {
        client.post(&format!("/api/v1/runs/{id}/resume"), &body)?;
        output.note(&format!("it runs in the server; follow it with: viat run watch {id}"));
        return said(&id, "resume", "it goes on", output);
    }
    let change = Change::asked(&format!("/api/v1/runs/{id}/resume"), &json!(body));
    let foreground = ask_and_watch(&id, ask::resume(body)?, change, home, output)?;
    test::follow(&id, &foreground, home, output)
}

fn take_over(id: &RunId, args: &ResumeArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    if args.from.is_some() || args.accept_repeat.is_some() {
        return Err(CliError::refused(format!("run {id} has not ended: --from and --accept-repeat are for failed runs")));
    }
    let foreground = adopt(id, home, output)?;
    home.note(Change { by: args.who.by(), reason: args.who.reason.clone(), ..Change::of("run.resume", id.as_str()) })?;
    test::follow(id, &foreground, home, output)
}

/// Takes a run over whose engine is gone.
fn adopt(id: &RunId, home: &Home, output: &Output) -> Result<Foreground, CliError> {
    if Client::of_run(home, id)?.is_some() && !run::is_stalled_now(id, home)? {
        return Err(going_on(id, home));
    }
    // Each try has an engine of its own: the one that was refused has told its watcher that the run is lost.
    patiently(|| {
        let foreground = Foreground::begin(home, Mode::traced(output))?;
        foreground.driver.adopt(id, Some(foreground.sender())).map_err(CliError::driver)?;
        Ok(foreground)
    })
}

/// A run that somebody drives already goes on by itself, or when a person has said something.
fn going_on(id: &RunId, home: &Home) -> CliError {
    let waits_for = run_record(home.store.as_ref(), id).ok().and_then(|record| next::waits_for(&record));
    let help = waits_for.unwrap_or_else(|| format!("follow it with: viat run watch {id}"));
    CliError::refused(format!("run {id} has not ended, and an engine that is alive has it")).help(help)
}

/// Says what came of an attempt whose outcome is unknown.
pub fn settle(args: &SettleArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let completed = args.completed.as_deref().map(|output| inputs::json(output, "--completed")).transpose()?;
    let id = find_run(home.store.as_ref(), &args.run)?;
    let body = SettleBody { step: args.step.clone(), completed, not_done: args.not_done, by: args.who.by(), reason: args.who.reason.clone() };
    tell(&id, &format!("/api/v1/runs/{id}/settle"), body, home, output, |driver, body| ask::settle(driver, &id, body))?;
    warn_of_undoing(&id, &args.step, home, output)?;
    said(&id, "settle", &format!("{} is settled", args.step), output)
}

/// What was said to have completed may lack what its undoing needs.
fn warn_of_undoing(id: &RunId, step: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let record = run_record(home.store.as_ref(), id)?;
    let rows = record.ledger.iter().filter(|row| row.path.as_str() == step || row.path.last() == step);
    for (path, reason) in rows.filter_map(|row| Some((&row.path, row.reason.as_ref()?))) {
        output.note(&format!("{} {path} cannot be undone with this output: {}", output.paint("33;1", "warning:"), printable(reason)));
    }
    Ok(())
}

/// Moves a run to another version of its workflow.
pub fn migrate(args: &MigrateArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let id = find_run(home.store.as_ref(), &args.run)?;
    let body = MigrateBody { to_version: args.to_version, reason: args.reason.clone(), by: args.by.clone().or_else(user) };
    tell(&id, &format!("/api/v1/runs/{id}/migrate"), body, home, output, |driver, body| ask::migrate(home.store.as_ref(), driver, &id, body))?;
    let failed = home.store.run(&id).map_err(CliError::store)?.is_some_and(|row| row.summary.ended_at.is_some());
    if failed {
        output.note(&format!("go on with: viat run resume {id}"));
    }
    said(&id, "migrate", &format!("it has version {} now", args.to_version), output)
}

/// Undoes the effects of a run that ended badly: in the server, or here until it is done.
pub fn compensate(args: &CompensateArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let id = find_run(home.store.as_ref(), &args.run)?;
    let body = WhoBody { by: args.who.by(), reason: args.who.reason.clone() };
    if let Some(client) = Client::of_run(home, &id)? {
        client.post(&format!("/api/v1/runs/{id}/compensate"), &body)?;
        return said(&id, "compensate", "its effects are being undone", output);
    }
    let change = Change::asked(&format!("/api/v1/runs/{id}/compensate"), &json!(body));
    let foreground = match left_undoing(&id, home)? {
        true => {
            let foreground = adopt(&id, home, output)?;
            change.map_or(Ok(()), |change| home.note(change))?;
            foreground
        }
        false => ask_and_watch(&id, ask::compensate(body)?, change, home, output)?,
    };
    test::until_over(&id, &foreground, home, output)?;
    let record = run_record(home.store.as_ref(), &id)?;
    conclude_compensation(&record, output)
}

/// Whether an engine that is gone had begun to undo the run's effects: then that is to be gone on with.
fn left_undoing(id: &RunId, home: &Home) -> Result<bool, CliError> {
    let row = home.store.run(id).map_err(CliError::store)?;
    Ok(row.is_some_and(|row| row.summary.status == Status::Compensating.name()))
}

fn conclude_compensation(record: &RunRecord, output: &Output) -> Result<ExitCode, CliError> {
    let complete = record.compensation == Compensation::Complete;
    if output.json {
        output.value(record)?;
    } else {
        let word = serde_json::to_value(record.compensation).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default();
        output.line(&format!("run {}: compensation {word}; see: viat run ledger {}", record.id, record.id))?;
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn ask_and_watch(id: &RunId, input: Input, change: Option<Change>, home: &Home, output: &Output) -> Result<Foreground, CliError> {
    let foreground = patiently(|| {
        let foreground = Foreground::begin(home, Mode::traced(output))?;
        foreground.driver.ask_and_watch(id, input.clone(), foreground.sender()).map_err(CliError::driver)?;
        Ok(foreground)
    })?;
    change.map_or(Ok(()), |change| home.note(change))?;
    Ok(foreground)
}

fn said(id: &RunId, what: &str, words: &str, output: &Output) -> Result<ExitCode, CliError> {
    if output.json {
        let mut value = json!({"id": id.as_str()});
        if let Some(map) = value.as_object_mut() {
            map.insert(what.to_owned(), Value::from("done"));
        }
        output.value(&value)?;
    } else {
        output.line(&format!("run {id}: {words}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
