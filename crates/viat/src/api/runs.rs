//! `/api/v1/runs`: start, show, cancel, send an event.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use viat_runner::driver::{DriverError, RUN_KEYS, RunKey};
use viat_store::{Hash, RunFilter, RunId, StoreError};

use super::Engine;
use super::access::Caller;
use super::pages;
use super::problem::Problem;
use super::take::{Asked, Place};
use crate::audit::{Actor, Change};
use crate::cli::error::CliError;
use crate::cli::run::{ListArgs, filter, row_json};
use crate::cli::{check_event_name, duration_value, find_run, run_record};
use crate::start::{Request, Which, prepare};

/// What starts a run.
#[derive(Deserialize, Serialize, JsonSchema)]
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
#[derive(Default, Deserialize, Serialize, JsonSchema)]
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
#[derive(Deserialize, Serialize, JsonSchema)]
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

/// Which runs are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsQuery {
    /// Only those of this workflow.
    workflow: Option<String>,
    /// Only those with this status.
    status: Option<String>,
    /// Only those that ended with an error of this class.
    error_class: Option<String>,
    /// Only those created at this time or later, RFC 3339.
    since: Option<String>,
    /// Only those created before this time, RFC 3339.
    until: Option<String>,
    /// At most so many.
    limit: Option<usize>,
    /// Where the last page ended.
    cursor: Option<String>,
}

/// Runs, newest first, in pages.
pub async fn list(State(engine): State<Engine>, Asked(wanted): Asked<RunsQuery>) -> Result<Response, Problem> {
    let RunsQuery { workflow, status, error_class, since, until, limit, cursor } = wanted;
    let limit = pages::size(limit)?;
    let rows = blocking(move || {
        let filter = filter(ListArgs { workflow, status, error_class, since, until, limit })?;
        // One more than is shown tells whether there is another page.
        let filter = RunFilter { before: cursor.map(RunId::from), limit: limit + 1, ..filter };
        Ok(engine.store.list_runs(&filter).map_err(CliError::store)?.iter().map(row_json).collect())
    });
    Ok(Json(pages::of(rows.await?, limit, "id")).into_response())
}

/// Starts a run in the background. With an `Idempotency-Key`, the same request again gives the same run.
pub async fn start(State(engine): State<Engine>, caller: Caller, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: StartBody = read(&headers, &body)?;
    let key = idempotency_key(&headers)?;
    let (status, id) = blocking(move || start_or_find(&engine, &body, key, Some(&caller.actor))).await??;
    let location = format!("/api/v1/runs/{id}");
    Ok((status, [(header::LOCATION, location)], Json(json!({"id": id}))).into_response())
}

/// What is kept under an idempotency key.
#[derive(Deserialize, Serialize)]
struct Claimed {
    run: String,
    /// The hash of the request that made the run.
    request: String,
}

/// Starts a run, or finds the one that the same request with the same key has started. It is noted who did, unless a route did.
pub fn start_or_find(engine: &Engine, body: &StartBody, key: Option<String>, actor: Option<&Actor>) -> Result<Result<(StatusCode, String), Problem>, CliError> {
    let request = Hash::of(json!(body).to_string().as_bytes()).to_string();
    if let Some(key) = &key
        && let Some(claimed) = engine.store.key(RUN_KEYS, key).map_err(CliError::store)?
    {
        return Ok(known(&claimed, &request));
    }
    let timeout_ms = duration_value(&body.timeout, "timeout")?;
    let which = body.version.map_or(Which::Published, Which::Version);
    let mut new = prepare(engine.store.as_ref(), &Request { workflow: &body.workflow, which, inputs: &body.inputs, timeout_ms })?;
    let id = new.id.to_string();
    new.key = key.map(|key| RunKey { key, value: json!(Claimed { run: id.clone(), request: request.clone() }).to_string().into_bytes() });
    match engine.driver.start_run(new, None) {
        Ok(()) => {
            if let Some(actor) = actor {
                Change::of("run.start", id.as_str()).detail(format!("workflow {}", body.workflow)).mention(engine.store.as_ref(), actor);
            }
            Ok(Ok((StatusCode::CREATED, id)))
        }
        // Another request with the same key was faster.
        Err(DriverError::Store(StoreError::KeyTaken { value, .. })) => Ok(known(&value, &request)),
        Err(error) => Err(CliError::driver(error)),
    }
}

fn known(claimed: &[u8], request: &str) -> Result<(StatusCode, String), Problem> {
    match serde_json::from_slice::<Claimed>(claimed) {
        Ok(claimed) if claimed.request == request => Ok((StatusCode::OK, claimed.run)),
        Ok(claimed) => Err(Problem::new(StatusCode::CONFLICT, format!("this Idempotency-Key was used for another request, which started run {}", claimed.run))),
        Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("what is kept under this Idempotency-Key cannot be read: {error}"))),
    }
}

/// The caller's idempotency key.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| !text.is_empty() && text.len() <= 256);
    let text = text.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "an Idempotency-Key has 1 to 256 printable ASCII characters"))?;
    Ok(Some(text.to_owned()))
}

/// The record of a run.
pub async fn show(State(engine): State<Engine>, Place(run): Place<String>) -> Result<Response, Problem> {
    let record = blocking(move || run_record(engine.store.as_ref(), &find_run(engine.store.as_ref(), &run)?)).await?;
    Ok(Json(record).into_response())
}

/// Cancels a run.
pub async fn cancel(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: CancelBody = if body.is_empty() { CancelBody::default() } else { read(&headers, &body)? };
    let id = blocking(move || {
        let id: RunId = find_run(engine.store.as_ref(), &run)?;
        engine.driver.cancel(&id, body.by, body.reason).map_err(CliError::driver)?;
        Ok(id)
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id.as_str()}))).into_response())
}

/// Sends an event to a run.
pub async fn event(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: EventBody = read(&headers, &body)?;
    let id = blocking(move || {
        let id = find_run(engine.store.as_ref(), &run)?;
        check_event_name(&body.name)?;
        engine.driver.send_event(&id, body.name, body.data).map_err(CliError::driver)?;
        Ok(id)
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id.as_str()}))).into_response())
}

/// A JSON body. The dialect's reader refuses integers that would silently lose digits.
pub fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the body as application/json"));
    }
    let text = std::str::from_utf8(body).map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the body is not UTF-8 text"))?;
    let value = viat_dialect::json::parse(text).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}")))?;
    serde_json::from_value(value).map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the body does not fit: {error}")))
}

/// Store and driver calls wait: they have threads of their own.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, CliError> + Send + 'static) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer.map_err(Problem::from),
        Err(_) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request's work was broken off")),
    }
}
