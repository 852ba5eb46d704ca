//! `/api/v1/runs`: start, show, cancel, send an event.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use viat_store::RunId;

use super::Engine;
use super::problem::Problem;
use crate::cli::error::CliError;
use crate::cli::{duration_value, find_run, run_record};
use crate::start::{Request, Which, prepare};

/// What starts a run.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StartBody {
    /// The workflow's name.
    pub workflow: String,
    /// Its inputs.
    #[serde(default = "empty")]
    pub inputs: Value,
    /// A version other than the published one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// A budget: a duration as the language spells it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub timeout: Value,
}

/// Who cancels a run, and why.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An event for a run.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EventBody {
    /// Its name.
    pub name: String,
    /// What it carries.
    #[serde(default)]
    pub data: Value,
}

fn empty() -> Value {
    json!({})
}

/// Starts a run in the background.
pub async fn start(State(engine): State<Engine>, body: Result<Json<StartBody>, JsonRejection>) -> Result<Response, Problem> {
    let Json(body) = body?;
    let id = blocking(move || {
        let timeout_ms = duration_value(&body.timeout, "timeout")?;
        let which = body.version.map_or(Which::Published, Which::Version);
        let new = prepare(engine.store.as_ref(), &Request { workflow: &body.workflow, which, inputs: &body.inputs, timeout_ms })?;
        let id = new.id.clone();
        engine.driver.start_run(new, None).map_err(CliError::driver)?;
        Ok(id)
    })
    .await?;
    let location = format!("/api/v1/runs/{id}");
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(json!({"id": id.as_str()}))).into_response())
}

/// The record of a run.
pub async fn show(State(engine): State<Engine>, Path(run): Path<String>) -> Result<Response, Problem> {
    let record = blocking(move || run_record(engine.store.as_ref(), &find_run(engine.store.as_ref(), &run)?)).await?;
    Ok(Json(record).into_response())
}

/// Cancels a run.
pub async fn cancel(State(engine): State<Engine>, Path(run): Path<String>, body: Result<Json<CancelBody>, JsonRejection>) -> Result<Response, Problem> {
    let Json(body) = body?;
    let id = blocking(move || {
        let id: RunId = find_run(engine.store.as_ref(), &run)?;
        engine.driver.cancel(&id, body.by, body.reason).map_err(CliError::driver)?;
        Ok(id)
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id.as_str()}))).into_response())
}

/// Sends an event to a run.
pub async fn event(State(engine): State<Engine>, Path(run): Path<String>, body: Result<Json<EventBody>, JsonRejection>) -> Result<Response, Problem> {
    let Json(body) = body?;
    let id = blocking(move || {
        let id = find_run(engine.store.as_ref(), &run)?;
        engine.driver.send_event(&id, body.name, body.data).map_err(CliError::driver)?;
        Ok(id)
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id.as_str()}))).into_response())
}

/// Store and driver calls wait: they have threads of their own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, CliError> + Send + 'static) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer.map_err(Problem::from),
        Err(_) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request's work was broken off")),
    }
}
