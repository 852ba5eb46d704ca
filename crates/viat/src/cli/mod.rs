//! The command line: what can be typed, and which function does it.

mod apply;
pub mod audit;
mod background;
pub mod build;
mod client;
mod compile;
mod demo;
mod doctor;
pub mod endpoint;
pub mod environments;
pub mod error;
mod event;
mod example;
mod foreground;
pub mod given;
pub mod history;
mod inputs;
mod isolation;
mod next;
pub mod output;
mod progress;
mod recover;
mod rehearse;
mod remote;
pub mod resource;
pub mod review;
pub mod run;
pub mod schedule;
mod scope;
pub mod script;
mod script_logs;
mod server;
mod store;
mod tell;
mod test;
pub mod token;
mod trial;
mod versions;
mod watch;
mod workers;
pub mod workflow;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use viat_engine::Status;
use viat_engine::record::RunRecord;
use viat_store::{RunId, Store};

pub use scope::remotely;

use error::CliError;
use output::Output;

/// A workflow engine that knows what failed, what is done and what happens next.
#[derive(Parser)]
#[command(name = "viat", version, about, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Clone)]
struct Global {
    /// The folder that holds everything: runs, scripts, workflows, logs.
    #[arg(long, global = true, env = "VIAT_HOME", default_value = "./.viat", value_name = "DIR")]
    home: PathBuf,
    /// Print JSON on stdout instead of text.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Scripts: what steps run.
    #[command(subcommand)]
    Script(script::ScriptCommand),
    /// Workflows: which steps run, in which order, and what happens when one fails.
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Runs: what happened, attempt by attempt.
    #[command(subcommand)]
    Run(run::RunCommand),
    /// Serves this home: runs work in the background, the HTTP API, everything that dead processes left is taken up.
    #[command(after_help = "Example:\n  viat server --port 8427")]
    Server(server::ServerArgs),
    /// Events: what runs wait for.
    #[command(subcommand)]
    Event(event::EventCommand),
    /// Reviews: what runs ask people.
    #[command(subcommand)]
    Review(review::ReviewCommand),
    /// Resources: prompts, JSON, texts and secrets that scripts ask for.
    #[command(subcommand)]
    Resource(resource::ResourceCommand),
    /// Secrets: resources that are encrypted, given only to scripts that declare them, and masked in what they write.
    #[command(subcommand)]
    Secret(resource::SecretCommand),
    /// Endpoints: HTTP routes bound to published workflows.
    #[command(subcommand)]
    Endpoint(endpoint::EndpointCommand),
    /// Access tokens: who may use the server from elsewhere.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// The audit log: who changed or decided what, when and why.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Schedules: runs that begin by the clock, as long as a server runs.
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// The store: a check, copies, and how one takes the place of a lost database.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Environments: what scripts have installed for them.
    #[command(subcommand)]
    Env(environments::EnvCommand),
    /// Makes a project folder from an example.
    #[command(after_help = "Example:\n  viat init my-project --example recover\n  viat init books --example ledger")]
    Init(example::InitArgs),
    /// Creates or updates every script, workflow and resource of a project folder; what has not changed is left alone.
    #[command(after_help = "Example:\n  viat apply my-project\n  viat apply my-project --dry-run")]
    Apply(apply::ApplyArgs),
    /// The flagship example, end to end: what failed, what was retried, what was not repeated. Its review waits for a person,
    /// unless `--decide` says how it is decided.
    #[command(after_help = "Example:\n  viat demo --decide review=approved\n  viat demo --decide review=rejected\n  viat demo /tmp/content")]
    Demo(demo::DemoArgs),
    /// Prints the completions of a shell.
    #[command(after_help = "Example:\n  viat completions bash > /etc/bash_completion.d/viat")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Checks what viat needs on this machine and says how to fix what is missing.
    #[command(after_help = "Example:\n  viat doctor")]
    Doctor,
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; everything else is a usage error, exit 2.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let output = Output::new(cli.global.json);
    match dispatch(&cli, &output) {
        Ok(code) => code,
        Err(error) => {
            error.print(&output);
            ExitCode::from(error.code())
        }
    }
}

fn dispatch(cli: &Cli, output: &Output) -> Result<ExitCode, CliError> {
    if !scope::is_local(&cli.command)
        && let Some(remote) = remote::Remote::from_environment()?
    {
        return remote.run(output);
    }
    let home = || crate::wiring::Home::open(&cli.global.home);
    match &cli.command {
        Command::Script(command) => script::run(command, &home()?, output),
        Command::Workflow(workflow::WorkflowCommand::Test(args)) => test::test(args, &home()?, output),
        Command::Workflow(command) => workflow::run(command, &home()?, output),
        Command::Run(command) => run::run(command, &home()?, output),
        Command::Server(args) => server::run(args, &home()?, output),
        Command::Event(command) => event::run(command, &home()?, output),
        Command::Review(command) => review::run(command, &home()?, output),
        Command::Endpoint(command) => endpoint::run(command, &home()?, output),
        Command::Token(command) => token::run(command, &home()?, output),
        Command::Audit(command) => audit::run(command, &home()?, output),
        Command::Schedule(command) => schedule::run(command, &home()?, output),
        Command::Resource(command) => resource::run(command, &home()?, output),
        Command::Secret(command) => resource::run_secret(command, &home()?, output),
        Command::Store(command) => store::run(command, &cli.global.home, output),
        Command::Env(command) => environments::run(command, &home()?, output),
        Command::Init(args) => example::init(args, output),
        Command::Apply(args) => apply::run(args, &home()?, output),
        Command::Demo(args) => demo::run_demo(args, output),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "viat", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor => doctor::run(&cli.global.home, output),
    }
}

/// The record of a run.
pub fn run_record(store: &dyn Store, id: &RunId) -> Result<RunRecord, CliError> {
    let unreadable = || history::unreadable(id, &"it does not begin with `created`");
    let record = history::read(store, id, |journal| RunRecord::of(journal))?.ok_or_else(unreadable)?;
    // Whether it waits or runs is no event; the store's row was written with the last ones.
    let row = store.run(id).map_err(CliError::store)?;
    let told = row.map(|row| row.summary.status).unwrap_or_default();
    let resting = [Status::Waiting, Status::NeedsAttention].into_iter().find(|status| status.name() == told);
    Ok(match resting {
        Some(status) if matches!(record.status, Status::Running | Status::Waiting | Status::NeedsAttention) => record.with_status(status),
        _ => record,
    })
}

/// Finds a run by its id or by a unique beginning of it.
pub fn find_run(store: &dyn Store, given: &str) -> Result<RunId, CliError> {
    let found = if given.is_empty() { Vec::new() } else { store.find_run(given, 3).map_err(CliError::store)? };
    match found.as_slice() {
        [] => Err(CliError::not_found(format!("there is no run {given}")).help("`viat run list` shows those there are")),
        [one] => Ok(one.clone()),
        several => match several.iter().find(|id| id.as_str() == given) {
            Some(exact) => Ok(exact.clone()),
            None => Err(CliError::refused(format!("several runs begin with {given}")).help("give more of the id")),
        },
    }
}

/// The error for an asset that is not there, naming the nearest one that is.
pub fn missing(store: &dyn Store, kind: &str, name: &str, version: Option<u64>) -> CliError {
    let found = store.assets(Some(kind), None).unwrap_or_default();
    if let Some(version) = version.filter(|_| found.iter().any(|info| info.name.name == name)) {
        return CliError::not_found(format!("there is no version {version} of {kind} {name}"));
    }
    let error = CliError::not_found(format!("there is no {kind} {name}"));
    match viat_dialect::suggest::nearest(name, found.iter().map(|info| info.name.name.as_str())) {
        Some(nearest) => error.help(format!("did you mean {nearest}?")),
        None => error.help(format!("`viat {kind} list` shows those there are")),
    }
}

/// A duration as JSON; `None` if none was given.
pub fn duration_value(value: &serde_json::Value, what: &str) -> Result<Option<u64>, CliError> {
    let parsed = viat_dialect::duration::from_json(value).map_err(|error| CliError::usage(format!("{what}: {error}")))?;
    Ok(parsed.millis())
}

/// Checks the name of an event.
pub fn check_event_name(name: &str) -> Result<(), CliError> {
    if name.is_empty() || name.len() > 256 || name.chars().any(char::is_control) {
        return Err(CliError::usage("an event's name has 1 to 256 bytes and no control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_arguments_collide() {
        Cli::command().debug_assert();
    }
}
