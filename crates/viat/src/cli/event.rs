//! `viat event`: send.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::error::CliError;
use super::output::Output;
use super::tell::tell;
use super::{check_event_name, find_run, inputs};
use crate::wiring::Home;

/// What can be done with events.
#[derive(Subcommand)]
pub enum EventCommand {
    /// Sends an event to a run; it is kept until a `wait` takes it.
    #[command(after_help = "Example:\n  viat event send paid --run 0198f3c2 --data '{\"amount\": 3}'")]
    Send {
        /// The event's name.
        name: String,
        /// The run's id.
        #[arg(long)]
        run: String,
        /// What it carries: JSON, @FILE, or - for stdin.
        #[arg(long, default_value = "null")]
        data: String,
    },
}

/// Does what the command says.
pub fn run(command: &EventCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let EventCommand::Send { name, run, data } = command;
    check_event_name(name)?;
    let payload = inputs::json(data, "--data")?;
    let id = find_run(home.store.as_ref(), run)?;
    let body = json!({"name": name, "data": payload});
    tell(&id, &format!("/api/v1/runs/{id}/events"), body, home, output, |driver, _| {
        driver.send_event(&id, name.clone(), payload.clone()).map_err(CliError::driver)
    })?;
    if output.json {
        output.value(&json!({"run": id.as_str(), "event": name}))?;
    } else {
        output.line(&format!("event {name} sent to run {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
