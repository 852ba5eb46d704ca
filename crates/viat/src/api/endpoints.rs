//! `/e/...`: HTTP routes bound to published workflows. What a caller sees of a failure is decided here.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use viat_engine::Status;
use viat_engine::failure::{Outcome, RunError};
use viat_engine::policies::class::{Class, Kind};
use viat_engine::record::RunRecord;
use viat_runner::clock::wall_now;
use viat_store::{AssetName, At, RunId};

use super::Engine;
use super::access::{Caller, unauthorized};
use super::problem::{Problem, no_such_path};
use super::runs::{StartBody, blocking, idempotency_key, read, start_or_find};
use super::take::Place;
use super::waiters::NoWait;
use crate::audit::Via;
use crate::cli::endpoint::{DEFAULT_TIMEOUT_MS, ENDPOINT, EndpointAsset, EndpointAuth, Mode};
use crate::cli::error::CliError;
use crate::cli::run_record;
use crate::signature::{self, Signed};
use crate::tokens::Scope;

/// The status of a refusal that does not say one.
const REFUSED: u16 = 400;
/// When to come again if there was too much to do, in seconds.
const AGAIN_AFTER: &str = "1";
/// Said to who comes without a token.
const NO_TOKEN: &str = "this endpoint asks for an access token";
/// Tells which run an answer is about.
const RUN: &str = "viat-run";

/// Starts the endpoint's workflow with the body as its inputs. A sync endpoint answers with the run's end, an async one at once.
pub async fn call(
    State(engine): State<Engine>,
    caller: Caller,
    Place(route): Place<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let store = engine.store.clone();
    let Some(endpoint) = blocking(move || find(store.as_ref(), &route)).await.map_err(hidden)? else {
        // Who may not call anything does not learn what there is.
        return if engine.tokens && !caller.is_known() { Ok(unauthorized(NO_TOKEN)) } else { Err(no_such_path(uri).await) };
    };
    let signed = match check(&engine, &endpoint, &caller, &uri, &headers, &body).await? {
        Ok(signed) => signed,
        Err(refused) => return Ok(refused),
    };
    let inputs: Value = if body.is_empty() { json!({}) } else { read(&headers, &body)? };
    // A signature is one request: however often it comes, it starts one run.
    let key = idempotency_key(&headers)?.or(signed);
    let sync = matches!(endpoint.mode, Mode::Sync);
    // Asked before the run starts: a caller that is turned away has started nothing.
    if sync && !engine.waiters.has_room() {
        return Ok(overloaded("too many requests wait for their runs", None));
    }
    let body = StartBody { workflow: endpoint.workflow, inputs, version: None, timeout: Value::Null };
    let starter = engine.clone();
    let (_, id) = blocking(move || start_or_find(&starter, &body, key, None)).await.map_err(hidden)??;
    let id = RunId::from(id);
    if !sync {
        return Ok(accepted(&id));
    }
    wait(engine, id, Duration::from_millis(endpoint.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS))).await
}

/// Whether the caller may; if the request is signed, the key under which it starts a run.
async fn check(
    engine: &Engine,
    endpoint: &EndpointAsset,
    caller: &Caller,
    uri: &Uri,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Result<Option<String>, Response>, Problem> {
    let auth = endpoint.auth.unwrap_or(if engine.tokens { EndpointAuth::Token } else { EndpointAuth::None });
    let salt = match auth {
        EndpointAuth::None => return Ok(Ok(None)),
        EndpointAuth::Token if caller.actor.token.is_none() && caller.actor.via == Via::Api => return Ok(Err(unauthorized(NO_TOKEN))),
        EndpointAuth::Token if !caller.may(&[Scope::Run]) => {
            return Err(Problem::new(StatusCode::FORBIDDEN, "this needs a token with the scope run or admin"));
        }
        EndpointAuth::Token => return Ok(Ok(None)),
        EndpointAuth::Signature => endpoint.salt.clone().unwrap_or_default(),
    };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (timestamp, signature) = (text("viat-timestamp").to_owned(), text("viat-signature").to_owned());
    if timestamp.is_empty() || signature.is_empty() {
        return Ok(Err(unauthorized("this endpoint takes signed requests only: viat-timestamp and viat-signature are missing")));
    }
    let (home, seen, body) = (engine.home.clone(), Arc::clone(&engine.seen), body.clone());
    let target = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    let key = format!("signature {signature}");
    let checked = blocking(move || {
        let secret = signature::secret(&home, &salt)?;
        let signed = Signed { timestamp: &timestamp, signature: &signature, method: "POST", target: &target, body: &body };
        Ok(signed.check(&secret, wall_now(), &seen))
    });
    Ok(checked.await.map_err(hidden)?.map(|()| Some(key)).map_err(unauthorized))
}

/// Waits for the run's end, for as long as the endpoint says.
async fn wait(engine: Engine, id: RunId, limit: Duration) -> Result<Response, Problem> {
    let mut place = match engine.waiters.wait(&id) {
        Ok(place) => place,
        // The run has started: its caller is told where to look for it.
        Err(NoWait::Full | NoWait::Closed) => return Ok(accepted(&id)),
    };
    if !has_ended(&engine, &id).await? {
        // Out of time, or the run went elsewhere, or the server ends: the record says which.
        let _ = tokio::time::timeout(limit, place.over()).await;
    }
    drop(place);
    let (store, run) = (engine.store.clone(), id.clone());
    let record = blocking(move || run_record(store.as_ref(), &run)).await.map_err(hidden)?;
    Ok(answer(&id, &record))
}

async fn has_ended(engine: &Engine, id: &RunId) -> Result<bool, Problem> {
    let (store, run) = (engine.store.clone(), id.clone());
    let row = blocking(move || store.run(&run).map_err(CliError::store)).await.map_err(hidden)?;
    Ok(row.is_some_and(|row| row.summary.ended_at.is_some()))
}

fn find(store: &dyn viat_store::Store, route: &str) -> Result<Option<EndpointAsset>, CliError> {
    let name = AssetName::new(ENDPOINT, format!("/{route}"));
    let Some(asset) = store.asset(&name, At::Latest).map_err(CliError::store)? else { return Ok(None) };
    let body = serde_json::from_slice(&asset.body).map_err(|error| CliError::failed(format!("endpoint /{route} cannot be read: {error}")))?;
    Ok(Some(body))
}

/// What a caller is told of a run that has come to an end, or has not yet.
fn answer(id: &RunId, record: &RunRecord) -> Response {
    match (record.status, &record.error) {
        (Status::Succeeded, _) => with_run(id, Json(&record.outputs).into_response()),
        (Status::Failed | Status::Cancelled, Some(error)) if error.class == Outcome::Failed(Class::User) => refusal(id, error),
        (Status::Failed | Status::Cancelled, error) => broken(id, error.as_ref().map(|error| error.kind)),
        _ => accepted(id),
    }
}

/// A refusal is the workflow's own word: it is passed on.
fn refusal(id: &RunId, error: &RunError) -> Response {
    let status = StatusCode::from_u16(error.status.unwrap_or(REFUSED)).unwrap_or(StatusCode::BAD_REQUEST);
    let mut body = Map::new();
    body.insert("code".to_owned(), error.code.clone().into());
    body.insert("message".to_owned(), error.message.clone().into());
    if let Some(extra) = &error.extra {
        body.insert("extra".to_owned(), extra.clone());
    }
    with_run(id, (status, Json(body)).into_response())
}

/// Anything else is ours: the caller is told that and no more; who runs the server finds the rest in the run.
fn broken(id: &RunId, kind: Option<Kind>) -> Response {
    match kind {
        Some(Kind::Overload) => overloaded("there was too much to do", Some(id)),
        Some(Kind::Timeout) => with_run(id, Problem::new(StatusCode::GATEWAY_TIMEOUT, "the workflow did not end in time").about(id).into_response()),
        _ => with_run(id, Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the workflow failed").about(id).into_response()),
    }
}

fn overloaded(why: &str, id: Option<&RunId>) -> Response {
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{why}; try again in a moment"));
    let mut response = match id {
        Some(id) => with_run(id, problem.about(id).into_response()),
        None => problem.into_response(),
    };
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(AGAIN_AFTER));
    response
}

fn accepted(id: &RunId) -> Response {
    let location = [(header::LOCATION, format!("/api/v1/runs/{id}"))];
    with_run(id, (StatusCode::ACCEPTED, location, Json(json!({"id": id.as_str()}))).into_response())
}

fn with_run(id: &RunId, mut response: Response) -> Response {
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(RUN, value);
    }
    response
}

/// What is wrong with the server is not the caller's to know.
fn hidden(problem: Problem) -> Problem {
    if problem.status().is_server_error() { Problem::new(problem.status(), "the server cannot do this now; try again in a moment") } else { problem }
}

#[cfg(test)]
mod tests {
    use viat_engine::failure::Failure;
    use viat_engine::journal::Created;
    use viat_engine::path::Path;

    use super::*;

    fn record(status: Status, error: Option<RunError>) -> RunRecord {
        let created = Created {
            run: "r".to_owned(),
            workflow: "w".to_owned(),
            version: 1,
            revision: 1,
            inputs: Map::new(),
            deadline: None,
            active_budget_ms: None,
            owner: String::new(),
            draft: false,
        };
        let mut record = RunRecord::new(&created, 0).with_status(status);
        record.error = error;
        record
    }

    fn status(status: Status, class: Outcome) -> u16 {
        let error = match class {
            Outcome::Failed(class) => RunError::of_entry(&Path::from("a"), "a", Some(1), &Failure::new(class, "secret")),
            outcome => RunError::of_run(outcome, "c", "secret", None),
        };
        answer(&RunId::from("r"), &record(status, Some(error))).status().as_u16()
    }

    #[test]
    fn each_class_has_its_status() {
        for class in Class::ALL {
            let expected = match class {
                Class::User => 400,
                Class::Timeout => 504,
                Class::QueueFull | Class::QueueWaitTimeout => 503,
                _ => 500,
            };
            assert_eq!(status(Status::Failed, Outcome::Failed(class)), expected, "{class:?}");
        }
        assert_eq!(status(Status::Failed, Outcome::DeadlineExceeded), 504);
        assert_eq!(status(Status::Cancelled, Outcome::Cancelled), 500);
        for unfinished in [Status::Queued, Status::Running, Status::Waiting] {
            let response = answer(&RunId::from("r"), &record(unfinished, None));
            assert_eq!((response.status().as_u16(), response.headers()["location"].to_str().ok()), (202, Some("/api/v1/runs/r")));
        }
    }

    #[test]
    fn overload_says_when_to_come_again() {
        let error = RunError::of_entry(&Path::from("a"), "a", Some(1), &Failure::new(Class::QueueFull, "secret"));
        let response = answer(&RunId::from("r"), &record(Status::Failed, Some(error)));
        assert_eq!(response.headers()["retry-after"], AGAIN_AFTER);
        assert_eq!(response.headers()[RUN], "r");
    }
}
