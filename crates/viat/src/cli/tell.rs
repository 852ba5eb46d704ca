//! Telling a run something: through whoever drives it, or by an engine of this command that only writes it down.

use std::time::Duration;

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

/// Posts `body` to `path` where somebody drives the run; otherwise does it `here`, and says how the run goes on.
pub fn tell<B: Serialize, T>(
    run: &RunId,
    path: &str,
    body: B,
    home: &Home,
    output: &Output,
    here: impl FnOnce(&Driver, B) -> Result<T, CliError>,
) -> Result<(), CliError> {
    if let Some(client) = Client::of_run(home, run)? {
        client.post(path, &body)?;
        return Ok(());
    }
    let driver = home.scribe(output)?;
    let change = Change::asked(path, &json!(body));
    here(&driver, body)?;
    if let Some(change) = change {
        home.note(change)?;
    }
    driver.shut_down(WRITTEN_WITHIN);
    let row = home.store.run(run).map_err(CliError::store)?;
    if row.is_some_and(|row| row.summary.ended_at.is_none()) {
        output.note(&format!("no server runs on this home: the run goes on when one does (viat server), or with: viat run resume {run}"));
    }
    Ok(())
}
