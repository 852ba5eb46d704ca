//! `/metrics`: what is counted, and what the store and the pools say at this moment.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use viat_engine::journal::Millis;
use viat_runner::clock::wall_now;

use super::Engine;
use super::problem::Problem;
use crate::observe::metrics::{AGES_S, CONTENT_TYPE, Now};

/// The page. It reads rows of unfinished runs, never a journal.
pub async fn show(State(engine): State<Engine>) -> Response {
    let page = tokio::task::spawn_blocking(move || {
        let now = wall_now();
        let ages = AGES_S.map(|age| now.saturating_sub(Millis::try_from(age * 1_000).unwrap_or(Millis::MAX)));
        // A store that does not answer is itself something to see here.
        let open = engine.store.open_runs(&ages).ok();
        engine.metrics.page(&Now { open, pools: engine.driver.pools() })
    });
    match page.await {
        Ok(page) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response(),
        Err(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be gathered").into_response(),
    }
}
