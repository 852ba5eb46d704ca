//! `/api/v1/tokens` and `/api/v1/audit`: who may use the server, and what was changed.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Engine;
use super::access::Caller;
use super::pages::{PageQuery, cut};
use super::problem::Problem;
use super::runs::{blocking, read};
use super::take::{Asked, Place};
use crate::audit::{self, MAX_ROWS};
use crate::cli::audit::time;
use crate::cli::error::CliError;
use crate::cli::token::created;
use crate::tokens;

/// How many entries a page has if nobody says.
const PAGE: usize = 100;

/// All tokens, newest first.
pub async fn list(State(engine): State<Engine>, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = blocking(move || tokens::list(engine.store.as_ref())).await?;
    Ok(Json(cut(json!(all), &page, "id")?).into_response())
}

/// Makes a token; its text is in this answer and nowhere else.
pub async fn create(State(engine): State<Engine>, caller: Caller, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body = read(&headers, &body)?;
    let (token, text) = blocking(move || tokens::create(engine.store.as_ref(), &caller.actor, body)).await?;
    Ok((StatusCode::CREATED, Json(created(&token, &text))).into_response())
}

/// Makes a token worthless.
pub async fn revoke(State(engine): State<Engine>, caller: Caller, Place(token): Place<String>) -> Result<Response, Problem> {
    let revoked = blocking(move || tokens::revoke(engine.store.as_ref(), &caller.actor, &token)).await?;
    Ok(Json(revoked).into_response())
}

/// Which entries of the audit log are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    action: Option<String>,
    actor: Option<String>,
    subject: Option<String>,
    since: Option<String>,
    limit: Option<usize>,
    /// Where the last page ended.
    cursor: Option<String>,
}

/// Changes and decisions, newest first, in pages.
pub async fn show_audit(State(engine): State<Engine>, Asked(wanted): Asked<Wanted>) -> Result<Response, Problem> {
    let page = blocking(move || {
        let limit = wanted.limit.unwrap_or(PAGE);
        if limit == 0 || limit > MAX_ROWS {
            return Err(CliError::usage(format!("the limit must be 1 to {MAX_ROWS}")));
        }
        let since = wanted.since.as_deref().map(|text| time(text, "since")).transpose()?;
        let wanted = audit::Wanted { action: wanted.action, actor: wanted.actor, subject: wanted.subject, since, before: wanted.cursor };
        // One more than is shown tells whether there is another page.
        let mut items = audit::list(engine.store.as_ref(), &wanted, limit + 1)?;
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|entry| entry.id.clone());
        Ok(json!({"items": items, "next_cursor": next}))
    });
    Ok(Json(page.await?).into_response())
}
