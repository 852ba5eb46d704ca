//! `viat audit list`: who changed or decided what, when and why.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use viat_engine::journal::Millis;

use super::error::CliError;
use super::output::{Output, printable};
use crate::audit::{self, MAX_ROWS, Wanted};
use crate::wiring::Home;

/// What can be done with the audit log.
#[derive(Subcommand)]
pub enum AuditCommand {
    /// Lists changes and decisions, newest first.
    #[command(after_help = "Example:\n  viat audit list --action workflow --limit 20\n  viat audit list --subject hello --json")]
    List(ListArgs),
}

/// What `audit list` takes.
#[derive(Args)]
pub struct ListArgs {
    /// Only this action (`workflow.publish`), or all that begin with it (`workflow`).
    #[arg(long)]
    action: Option<String>,
    /// Only what this user or token did, or what was done in this name.
    #[arg(long)]
    actor: Option<String>,
    /// Only what was done to this: an asset's name, a run's or review's id.
    #[arg(long)]
    subject: Option<String>,
    /// Only what was done at this time or later, RFC 3339.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// Does what the command says.
pub fn run(command: &AuditCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let AuditCommand::List(args) = command;
    if args.limit == 0 || args.limit > MAX_ROWS {
        return Err(CliError::usage(format!("--limit must be 1 to {MAX_ROWS}")));
    }
    let since = args.since.as_deref().map(|text| time(text, "--since")).transpose()?;
    let wanted = Wanted { action: args.action.clone(), actor: args.actor.clone(), subject: args.subject.clone(), since, before: None };
    show(&json!(audit::list(home.store.as_ref(), &wanted, args.limit)?), args.limit, output)?;
    Ok(ExitCode::SUCCESS)
}

/// A moment as RFC 3339 writes it.
pub fn time(text: &str, what: &str) -> Result<Millis, CliError> {
    let parsed = text.parse::<jiff::Timestamp>();
    let parsed = parsed.map_err(|_| CliError::usage(format!("{what}: {text:?} is no time")).help("write it as in 2026-01-31T08:00:00Z"))?;
    Ok(parsed.as_millisecond())
}

fn show(entries: &Value, limit: usize, output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.value(entries);
    }
    let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
    if entries.len() == limit {
        output.note(&format!("the newest {limit}; --limit shows more"));
    }
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    output.table(&["TIME", "WHO", "VIA", "ACTION", "SUBJECT", "WHAT", "WHY"], &rows, "nothing has been changed yet")
}

fn row(entry: &Value) -> Vec<String> {
    let cell = |key: &str| printable(entry[key].as_str().unwrap_or_default());
    let who = match entry["by"].as_str().filter(|by| Some(*by) != entry["actor"].as_str()) {
        Some(by) => format!("{} for {}", cell("actor"), printable(by)),
        None => cell("actor"),
    };
    vec![cell("at"), who, cell("via"), cell("action"), cell("subject"), cell("detail"), cell("reason")]
}
