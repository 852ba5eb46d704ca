//! `/api/v1/pools`: what the workers of each script are doing right now.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::Engine;

/// What each pool is doing.
pub async fn show(State(engine): State<Engine>) -> Response {
    Json(engine.driver.pools()).into_response()
}
