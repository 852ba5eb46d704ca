//! `viat schedule`: create, list, show, pause, resume, delete.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use viat_engine::journal::Millis;
use viat_engine::record::rfc3339;
use viat_runner::assets::{self, WORKFLOW};
use viat_store::{AssetName, At, Hash, Op, Precondition, StoreError, Unit};

use super::client::Client;
use super::error::CliError;
use super::output::{Output, printable};
use super::script::time;
use super::{inputs, missing};
use crate::audit::Change;
use crate::schedules::{self, CatchUp, Fire, Overlap, Rhythm, SCHEDULE, ScheduleAsset, Standing};
use crate::wiring::Home;

/// How many of the next fire times are shown.
const SHOWN: usize = 5;
/// The most that a fire may be late by.
const MAX_JITTER_MS: u64 = 86_400_000;

/// What can be done with schedules.
#[derive(Subcommand)]
pub enum ScheduleCommand {
    /// Creates or changes a schedule. A server on this home starts a run of the published workflow at each of its fire times.
    #[command(
        after_help = "Example:\n  viat schedule create nightly --cron '30 2 * * *' --timezone Europe/Berlin --workflow report --input '{\"day\": \"$schedule.time\"}'"
    )]
    Create(CreateArgs),
    /// Lists schedules and when they fire next.
    #[command(after_help = "Example:\n  viat schedule list --json")]
    List,
    /// Shows a schedule: its next fire times, and what came of the last ones.
    #[command(after_help = "Example:\n  viat schedule show nightly")]
    Show {
        /// Its name.
        name: String,
    },
    /// Keeps a schedule from firing; what would have fired meanwhile is not made up for.
    #[command(after_help = "Example:\n  viat schedule pause nightly")]
    Pause {
        /// Its name.
        name: String,
    },
    /// Lets a paused schedule fire again.
    #[command(after_help = "Example:\n  viat schedule resume nightly")]
    Resume {
        /// Its name.
        name: String,
    },
    /// Deletes a schedule; its runs stay.
    #[command(after_help = "Example:\n  viat schedule delete nightly")]
    Delete {
        /// Its name.
        name: String,
    },
}

/// What `create` takes.
#[derive(Args)]
pub struct CreateArgs {
    /// Its name.
    pub name: String,
    /// When it fires: minute hour day-of-month month day-of-week; with six fields the first is the second.
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: String,
    /// The time zone in which the expression is read: an IANA name.
    #[arg(long, default_value = "UTC")]
    pub timezone: String,
    /// The workflow; its published version is run.
    #[arg(long)]
    pub workflow: String,
    /// Its inputs: JSON, @FILE, or - for stdin. "$schedule.time" and "$schedule.name" stand for the fire time and the schedule's name.
    #[arg(long, default_value = "{}")]
    pub input: String,
    /// Each fire is late by up to so much, so that many schedules do not fire at once.
    #[arg(long, value_name = "DURATION")]
    pub jitter: Option<String>,
    /// A budget for each run.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// What happens when it fires while its run before has not ended.
    #[arg(long, value_enum, default_value_t)]
    pub overlap: Overlap,
    /// What happens with fire times at which no server was there.
    #[arg(long, value_enum, default_value_t)]
    pub catch_up: CatchUp,
}

/// Does what the command says.
pub fn run(command: &ScheduleCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        ScheduleCommand::Create(args) => create(args, home, output)?,
        ScheduleCommand::List => list(home, output)?,
        ScheduleCommand::Show { name } => show(name, home, output)?,
        ScheduleCommand::Pause { name } => pause(name, true, home, output)?,
        ScheduleCommand::Resume { name } => pause(name, false, home, output)?,
        ScheduleCommand::Delete { name } => delete(name, home, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn create(args: &CreateArgs, home: &Home, output: &Output) -> Result<(), CliError> {
    inputs::name(SCHEDULE, &args.name)?;
    Rhythm::of(&args.cron, &args.timezone).map_err(|problem| CliError::usage(problem).help(format!("write it as {}", schedules::HOW)))?;
    let jitter_ms = inputs::duration(args.jitter.as_deref(), "--jitter")?.unwrap_or(0);
    if jitter_ms > MAX_JITTER_MS {
        return Err(CliError::usage("--jitter is at most P1D"));
    }
    let asset = ScheduleAsset {
        cron: args.cron.clone(),
        timezone: args.timezone.clone(),
        workflow: args.workflow.clone(),
        inputs: inputs::json(&args.input, "--input")?,
        jitter_ms,
        timeout_ms: inputs::duration(args.timeout.as_deref(), "--timeout")?,
        overlap: args.overlap,
        catch_up: args.catch_up,
        paused: false,
    };
    check_workflow(&args.name, &asset, home)?;
    save("schedule.create", &args.name, &asset, home)?;
    if output.json {
        return output.value(&full_json(&args.name, &asset, inputs::now(), home)?);
    }
    let next = next_fires(&asset, inputs::now(), 1);
    output.line(&format!("schedule {} runs workflow {}; next: {}", args.name, asset.workflow, next.first().map(|next| next.1.clone()).unwrap_or_default()))?;
    note_without_server(home, output)
}

/// The workflow must be published, and its inputs must fit as far as they are known now.
fn check_workflow(name: &str, asset: &ScheduleAsset, home: &Home) -> Result<(), CliError> {
    let (store, workflow) = (home.store.as_ref(), asset.workflow.as_str());
    if store.asset(&AssetName::new(WORKFLOW, workflow), At::Latest).map_err(CliError::store)?.is_none() {
        return Err(missing(store, WORKFLOW, workflow, None));
    }
    let Some(version) = assets::published(store, workflow, At::Latest).map_err(CliError::assets)? else {
        return Err(CliError::refused(format!("workflow {workflow} was never published")).help(format!("publish it first: viat workflow publish {workflow}")));
    };
    let (_, body) = assets::workflow(store, workflow, At::Version(version)).map_err(CliError::assets)?;
    let checked = viat_dialect::check_inputs(&body.definition, &asset.inputs_at(name, inputs::now()));
    checked.map(drop).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CliError::usage(format!("the inputs do not fit workflow {workflow}: {}", lines.join("; ")))
    })
}

fn save(action: &'static str, name: &str, asset: &ScheduleAsset, home: &Home) -> Result<(), CliError> {
    let body = serde_json::to_vec(asset).map_err(|error| CliError::usage(error.to_string()))?;
    let bound = AssetName::new(WORKFLOW, &asset.workflow);
    let put = Op::PutAsset { name: AssetName::new(SCHEDULE, name), hash: Hash::of(&body), body, refs: vec![bound.clone()], at: inputs::now() };
    let noted = Change::of(action, format!("schedule {name}")).detail(format!("workflow {}", asset.workflow)).op(&home.actor);
    home.store.commit_blocking(Unit::from(vec![put, noted]).guarded(Precondition::AssetLive(bound))).map(drop).map_err(CliError::store)
}

fn pause(name: &str, paused: bool, home: &Home, output: &Output) -> Result<(), CliError> {
    let (mut asset, _) = found(name, home)?;
    let changes = asset.paused != paused;
    asset.paused = paused;
    if changes {
        save(if paused { "schedule.pause" } else { "schedule.resume" }, name, &asset, home)?;
    }
    if output.json {
        return output.value(&json!({"name": name, "paused": paused}));
    }
    output.line(&format!("schedule {name} {}", if paused { "is paused" } else { "fires again" }))
}

fn delete(name: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let gone = Op::DeleteAsset { name: AssetName::new(SCHEDULE, name), at: inputs::now() };
    let forgotten = Op::DropKey { space: SCHEDULE.to_owned(), key: name.to_owned() };
    let noted = Change::of("schedule.delete", format!("schedule {name}")).op(&home.actor);
    match home.store.commit_blocking(Unit { guard: Vec::new(), ops: vec![gone, forgotten, noted] }) {
        Ok(_) if output.json => output.value(&json!({"name": name, "deleted": true})),
        Ok(_) => output.line(&format!("schedule {name} is deleted")),
        Err(StoreError::Missing { .. }) => Err(missing(home.store.as_ref(), SCHEDULE, name, None)),
        Err(error) => Err(CliError::store(error)),
    }
}

fn found(name: &str, home: &Home) -> Result<(ScheduleAsset, Millis), CliError> {
    schedules::find(home.store.as_ref(), name)?.ok_or_else(|| missing(home.store.as_ref(), SCHEDULE, name, None))
}

/// The next fire times: RFC 3339, and as the zone's clocks show them; none of a paused schedule.
fn next_fires(asset: &ScheduleAsset, after: Millis, count: usize) -> Vec<(String, String)> {
    let Ok(rhythm) = Rhythm::of(&asset.cron, &asset.timezone) else { return Vec::new() };
    let fires = std::iter::successors(rhythm.after(after), |at| rhythm.after(*at));
    let count = if asset.paused { 0 } else { count };
    fires.take(count).map(|at| (rfc3339(at), rhythm.local(at))).collect()
}

fn full_json(name: &str, asset: &ScheduleAsset, since: Millis, home: &Home) -> Result<Value, CliError> {
    let stands = schedules::standing(home.store.as_ref(), name)?.map(|(stands, _)| stands).unwrap_or_default();
    let mut value = serde_json::to_value(asset).map_err(|error| CliError::failed(error.to_string()))?;
    if let Some(map) = value.as_object_mut() {
        map.insert("name".to_owned(), name.into());
        map.insert("paused".to_owned(), asset.paused.into());
        map.insert("saved_at".to_owned(), rfc3339(since).into());
        map.insert("next".to_owned(), next_fires(asset, inputs::now(), SHOWN).into_iter().map(|(at, _)| at).collect());
        map.insert("waiting".to_owned(), stands.waiting.iter().map(|at| rfc3339(*at)).collect());
        map.insert("fires".to_owned(), stands.fires.iter().map(fire_json).collect());
    }
    Ok(value)
}

fn fire_json(fire: &Fire) -> Value {
    json!({"at": rfc3339(fire.at), "outcome": fire.outcome, "run": fire.run, "detail": fire.detail})
}

fn list(home: &Home, output: &Output) -> Result<(), CliError> {
    let mut live = home.store.assets(Some(SCHEDULE), None).map_err(CliError::store)?;
    super::script::newest_first(&mut live);
    let mut rows = Vec::new();
    for info in &live {
        let (asset, since) = found(&info.name.name, home)?;
        rows.push((info, asset, since));
    }
    if output.json {
        let rows: Result<Vec<_>, _> = rows.iter().map(|(info, asset, since)| full_json(&info.name.name, asset, *since, home)).collect();
        return output.value(&rows?);
    }
    let now = inputs::now();
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|(info, asset, _)| {
            let next = next_fires(asset, now, 1).pop().map_or_else(|| "paused".to_owned(), |next| next.1);
            vec![info.name.name.clone(), printable(&asset.cron), asset.timezone.clone(), asset.workflow.clone(), next, time(info)]
        })
        .collect();
    output.table(&["SCHEDULE", "CRON", "TIME ZONE", "WORKFLOW", "NEXT", "SAVED"], &table, "no schedules")?;
    if rows.is_empty() { Ok(()) } else { note_without_server(home, output) }
}

fn show(name: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let (asset, since) = found(name, home)?;
    if output.json {
        return output.value(&full_json(name, &asset, since, home)?);
    }
    let rhythm = Rhythm::of(&asset.cron, &asset.timezone).map_err(CliError::failed)?;
    let stands: Standing = schedules::standing(home.store.as_ref(), name)?.map(|(stands, _)| stands).unwrap_or_default();
    output.line(&format!("schedule {name}{}", if asset.paused { "  paused" } else { "" }))?;
    output.line(&format!("fires    {}  ({}, {})", printable(&asset.cron), rhythm.words(), asset.timezone))?;
    output.line(&format!("runs     workflow {} with {}", asset.workflow, asset.inputs))?;
    output.line(&format!("overlap  {}, catch-up {}", word(&asset.overlap), word(&asset.catch_up)))?;
    if asset.jitter_ms > 0 {
        output.line(&format!("jitter   up to {} ms", asset.jitter_ms))?;
    }
    for (at, local) in next_fires(&asset, inputs::now(), SHOWN) {
        output.line(&format!("next     {local}  ({at})"))?;
    }
    if !stands.waiting.is_empty() {
        output.line(&format!("waiting  {} fires, until run {} has ended", stands.waiting.len(), stands.run.as_deref().unwrap_or_default()))?;
    }
    let table: Vec<Vec<String>> = stands.fires.iter().map(|fire| fire_row(fire, &rhythm)).collect();
    output.line("")?;
    output.table(&["FIRED", "OUTCOME", "WHAT"], &table, "it has not fired yet")?;
    if asset.paused { Ok(()) } else { note_without_server(home, output) }
}

fn fire_row(fire: &Fire, rhythm: &Rhythm) -> Vec<String> {
    let what = fire.run.as_ref().map(|run| format!("run {run}")).or_else(|| fire.detail.clone());
    vec![rhythm.local(fire.at), fire.outcome.name().to_owned(), printable(&what.unwrap_or_default())]
}

fn word(value: &impl serde::Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

fn note_without_server(home: &Home, output: &Output) -> Result<(), CliError> {
    if Client::find(&home.folder)?.is_none() {
        output.note("no server runs on this home: schedules fire as long as one does (viat server)");
    }
    Ok(())
}
