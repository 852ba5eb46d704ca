//! `/api/v1/reviews`: list, show, decide, extend, make links.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use viat_store::{ReviewFilter, RunId};

use super::Engine;
use super::problem::Problem;
use super::runs::{blocking, read};
use super::take::{Asked, Place};
use crate::ask::{self, DecisionBody, ExtensionBody};
use crate::cli::error::CliError;
use crate::cli::review::{filter, full_json, row_json};
use crate::links::{self, LinkBody};

/// How many reviews a page has if nobody says.
const PAGE: usize = 100;

/// Which reviews are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    status: Option<String>,
    run: Option<String>,
    assignee: Option<String>,
    limit: Option<usize>,
    /// Where the last page ended.
    cursor: Option<String>,
}

/// Reviews, newest first, in pages.
pub async fn list(State(engine): State<Engine>, Asked(wanted): Asked<Wanted>) -> Result<Response, Problem> {
    let page = blocking(move || {
        let limit = wanted.limit.unwrap_or(PAGE);
        let filter = filter(wanted.status.as_deref(), wanted.assignee, limit)?;
        // One more than is shown tells whether there is another page.
        let filter = ReviewFilter { run: wanted.run.map(RunId::from), before: wanted.cursor, limit: limit + 1, ..filter };
        let mut rows = engine.store.reviews(&filter).map_err(CliError::store)?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| row.id.clone());
        let items = rows.iter().map(|row| row_json(engine.store.as_ref(), row)).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({"items": items, "next_cursor": next}))
    });
    Ok(Json(page.await?).into_response())
}

/// One review with what there is to look at.
pub async fn show(State(engine): State<Engine>, Place(id): Place<String>) -> Result<Response, Problem> {
    let review = blocking(move || full_json(engine.store.as_ref(), &ask::find_review(engine.store.as_ref(), &id)?)).await?;
    Ok(Json(review).into_response())
}

/// Takes a decision, once.
pub async fn decide(State(engine): State<Engine>, Place(id): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: DecisionBody = read(&headers, &body)?;
    let review = blocking(move || {
        let store = engine.store.as_ref();
        row_json(store, &ask::decide(store, &engine.driver, &id, body)?)
    });
    Ok(Json(review.await?).into_response())
}

/// Moves the expiry.
pub async fn extend(State(engine): State<Engine>, Place(id): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: ExtensionBody = read(&headers, &body)?;
    let review = blocking(move || {
        let store = engine.store.as_ref();
        row_json(store, &ask::extend(store, &engine.driver, &id, body)?)
    });
    Ok(Json(review.await?).into_response())
}

/// Makes a signed link.
pub async fn link(State(engine): State<Engine>, Place(id): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: LinkBody = read(&headers, &body)?;
    let made = blocking(move || links::make(engine.store.as_ref(), &engine.home, &id, body, &engine.base)).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}
