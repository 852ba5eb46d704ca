//! `/api/v1/runs/ID/...`: what people do about runs that did not end well, and what is known of runs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use viat_engine::ledger::ledger;
use viat_engine::transitions::transitions;
use viat_runner::driver::Driver;
use viat_store::{RunId, Store};

use super::Engine;
use super::problem::Problem;
use super::runs::{blocking, read};
use super::take::Place;
use crate::ask::{self, MigrateBody, ResumeBody, SettleBody, WhoBody};
use crate::cli::error::CliError;
use crate::cli::{find_run, history};

/// Says what came of an attempt whose outcome is unknown.
pub async fn settle(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: SettleBody = read(&headers, &body)?;
    asked(engine, run, move |_, driver, id| ask::settle(driver, id, body)).await
}

/// Undoes the effects of a run that ended badly.
pub async fn compensate(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: WhoBody = if body.is_empty() { WhoBody::default() } else { read(&headers, &body)? };
    asked(engine, run, move |_, driver, id| driver.ask_run(id, ask::compensate(body)?).map_err(CliError::driver)).await
}

/// Lets a failed run go on.
pub async fn resume(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: ResumeBody = if body.is_empty() { ResumeBody::default() } else { read(&headers, &body)? };
    asked(engine, run, move |_, driver, id| driver.ask_run(id, ask::resume(body)?).map_err(CliError::driver)).await
}

/// Moves a run to another version of its workflow.
pub async fn migrate(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: MigrateBody = read(&headers, &body)?;
    asked(engine, run, move |store, driver, id| ask::migrate(store, driver, id, body)).await
}

async fn asked(
    engine: Engine,
    run: String,
    ask: impl FnOnce(&dyn Store, &Driver, &RunId) -> Result<(), CliError> + Send + 'static,
) -> Result<Response, Problem> {
    let id = blocking(move || {
        let id = find_run(engine.store.as_ref(), &run)?;
        ask(engine.store.as_ref(), &engine.driver, &id)?;
        Ok(id)
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id.as_str()}))).into_response())
}

/// Every change of state.
pub async fn show_transitions(State(engine): State<Engine>, Place(run): Place<String>) -> Result<Response, Problem> {
    let found = blocking(move || {
        let store = engine.store.as_ref();
        history::read(store, &find_run(store, &run)?, |journal| transitions(journal))
    });
    Ok(Json(found.await?).into_response())
}

/// What came of each script entry.
pub async fn show_ledger(State(engine): State<Engine>, Place(run): Place<String>) -> Result<Response, Problem> {
    let found = blocking(move || {
        let store = engine.store.as_ref();
        history::read(store, &find_run(store, &run)?, |journal| ledger(journal))
    });
    Ok(Json(found.await?).into_response())
}
