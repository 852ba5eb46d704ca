//! `/api/v1/resources`, `secrets`, `schedules`: what the commands do, and answers as they print with `--json`.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use viat_runner::resources::Kind;

use super::Engine;
use super::access::Caller;
use super::assets::{VersionQuery, printed};
use super::pages::{PageQuery, cut};
use super::problem::Problem;
use super::runs::read;
use super::take::{Asked, Place};
use crate::cli::resource::{self, ResourceCommand, SecretCommand};
use crate::cli::schedule::{self, CreateArgs, ScheduleCommand};
use crate::schedules::{CatchUp, Overlap};

/// What a resource is; secrets have routes of their own.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A text for a model.
    Prompt,
    /// A JSON value.
    Json,
    /// Any text.
    Text,
}

/// A resource that is to be saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceBody {
    /// What it is.
    pub kind: ResourceKind,
    /// Its text; of the kind `json` too.
    pub text: String,
}

/// A secret that is to be saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBody {
    /// Its value, which is never shown again.
    pub value: String,
}

/// A schedule that is to be saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    /// When it fires.
    pub cron: String,
    /// An IANA name; UTC, if it is not given.
    pub timezone: Option<String>,
    /// The workflow.
    pub workflow: String,
    /// Its inputs.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Each fire is late by up to so much.
    pub jitter: Option<String>,
    /// A budget for each run.
    pub timeout: Option<String>,
    /// What happens while its run before has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// What happens with fire times at which no server was there.
    #[serde(default)]
    pub catch_up: CatchUp,
}

async fn of_resources(engine: Engine, caller: Caller, command: ResourceCommand) -> Result<Value, Problem> {
    printed(engine, caller, move |home, output| resource::run(&command, home, output).map(drop)).await
}

async fn of_secrets(engine: Engine, caller: Caller, command: SecretCommand) -> Result<Value, Problem> {
    printed(engine, caller, move |home, output| resource::run_secret(&command, home, output).map(drop)).await
}

async fn of_schedules(engine: Engine, caller: Caller, command: ScheduleCommand) -> Result<Value, Problem> {
    printed(engine, caller, move |home, output| schedule::run(&command, home, output).map(drop)).await
}

/// Resources, newest first; secrets without their values.
pub async fn resources(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = of_resources(engine, caller, ResourceCommand::List { kind: None }).await?;
    Ok(Json(cut(all, &page, "name")?).into_response())
}

/// One resource.
pub async fn show_resource(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    Asked(query): Asked<VersionQuery>,
) -> Result<Response, Problem> {
    Ok(Json(of_resources(engine, caller, ResourceCommand::Show { name, version: query.version }).await?).into_response())
}

/// Saves a resource as a new version.
pub async fn put_resource(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let ResourceBody { kind, text } = read(&headers, &body)?;
    let kind = match kind {
        ResourceKind::Prompt => Kind::Prompt,
        ResourceKind::Json => Kind::Json,
        ResourceKind::Text => Kind::Text,
    };
    Ok(Json(printed(engine, caller, move |home, output| resource::create_text(&name, kind, text, home, output)).await?).into_response())
}

/// Deletes a resource.
pub async fn delete_resource(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_resources(engine, caller, ResourceCommand::Delete { name }).await?).into_response())
}

/// Secrets, newest first, without their values.
pub async fn secrets(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = of_secrets(engine, caller, SecretCommand::List).await?;
    Ok(Json(cut(all, &page, "name")?).into_response())
}

/// What is known of a secret.
pub async fn show_secret(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_secrets(engine, caller, SecretCommand::Show { name }).await?).into_response())
}

/// Saves a secret.
pub async fn put_secret(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let SecretBody { value } = read(&headers, &body)?;
    let saved = printed(engine, caller, move |home, output| resource::create_text(&name, Kind::Secret, value, home, output));
    Ok(Json(saved.await?).into_response())
}

/// Deletes a secret.
pub async fn delete_secret(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_secrets(engine, caller, SecretCommand::Delete { name }).await?).into_response())
}

/// Seals every secret with a new key.
pub async fn rekey(State(engine): State<Engine>, caller: Caller) -> Result<Response, Problem> {
    Ok(Json(of_secrets(engine, caller, SecretCommand::Rekey).await?).into_response())
}

/// Schedules, newest first.
pub async fn schedules(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = of_schedules(engine, caller, ScheduleCommand::List).await?;
    Ok(Json(cut(all, &page, "name")?).into_response())
}

/// One schedule.
pub async fn show_schedule(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_schedules(engine, caller, ScheduleCommand::Show { name }).await?).into_response())
}

/// Creates or changes a schedule.
pub async fn put_schedule(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let ScheduleBody { cron, timezone, workflow, inputs, jitter, timeout, overlap, catch_up } = read(&headers, &body)?;
    let (timezone, input) = (timezone.unwrap_or_else(|| "UTC".to_owned()), json!(inputs).to_string());
    let args = CreateArgs { name, cron, timezone, workflow, input, jitter, timeout, overlap, catch_up };
    Ok(Json(of_schedules(engine, caller, ScheduleCommand::Create(args)).await?).into_response())
}

/// Deletes a schedule.
pub async fn delete_schedule(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_schedules(engine, caller, ScheduleCommand::Delete { name }).await?).into_response())
}

/// Keeps a schedule from firing.
pub async fn pause(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_schedules(engine, caller, ScheduleCommand::Pause { name }).await?).into_response())
}

/// Lets a schedule fire again.
pub async fn resume(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    Ok(Json(of_schedules(engine, caller, ScheduleCommand::Resume { name }).await?).into_response())
}
