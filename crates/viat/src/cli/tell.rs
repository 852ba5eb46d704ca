//! Telling a run something: through whoever drives it, or by an engine of this command that only writes it down.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use viat_runner::driver::Driver;
use viat_store::RunId;

use super::client::Client;
use super::error::CliError;
use super::output::Output;
use crate::audit::Change;
use crate::wiring::Home;

/// How long an append may take before the command ends.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait before the next try.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long another command may take to let go of a run that it has for a moment.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// Posts `body` to `path` where somebody drives the run; otherwise does it `here`, and says how the run goes on.
pub fn tell<B: Serialize + Clone, T>(
    run: &RunId,
    path: &str,
    body: B,
    home: &Home,
    output: &Output,
    here: impl Fn(&Driver, B) -> Result<T, CliError>,
) -> Result<(), CliError> {
    let change = Change::asked(path, &json!(body));
    let here = patiently(|| {
        if let Some(client) = Client::of_run(home, run)? {
            client.post(path, &body)?;
            return Ok(false);
        }
        let driver = home.scribe(output)?;
        let told = here(&driver, body.clone());
        driver.shut_down(WRITTEN_WITHIN);
        told.map(|_| true)
    })?;
    if let Some(change) = change.filter(|_| here) {
        home.note(change)?;
    }
    let row = home.store.run(run).map_err(CliError::store)?;
    if here && row.is_some_and(|row| row.summary.ended_at.is_none()) {
        output.note(&format!("no server runs on this home: the run goes on when one does (viat server), or with: viat run resume {run}"));
    }
    Ok(())
}

/// Tries again while another command has the run for a moment: to write something down, or to take it over.
pub fn patiently<T>(attempt: impl Fn() -> Result<T, CliError>) -> Result<T, CliError> {
    let until = Instant::now() + LET_GO_WITHIN;
    loop {
        match attempt() {
            Err(error) if error.is_held() && Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
            came_of_it => return came_of_it,
        }
    }
}
