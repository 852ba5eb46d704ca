//! `viat event`: send.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::output::Output;
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
    match Client::of_run(home, &id)? {
        Some(client) => {
            client.post(&format!("/api/v1/runs/{id}/events"), &json!({"name": name, "data": payload}))?;
        }
        None => {
            let driver = home.scribe(output)?;
            driver.send_event(&id, name.clone(), payload).map_err(CliError::driver)?;
            driver.shut_down(Duration::from_secs(5));
            output.note(&format!("no server runs on this home: the run goes on when one does (viat server), or with: viat run resume {id}"));
        }
    }
    if output.json {
        output.value(&json!({"run": id.as_str(), "event": name}))?;
    } else {
        output.line(&format!("event {name} sent to run {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
