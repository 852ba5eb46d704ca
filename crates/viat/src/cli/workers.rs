//! The workers of a script for `script show`: how many there may be, and what they are doing in the server of this home.

use serde_json::{Value, json};
use viat_runner::assets::ScriptAsset;
use viat_runner::script::{Limits, Profile};

use super::client::Client;
use super::error::CliError;
use super::output::Output;
use crate::wiring::Home;

/// The settings of a script's pool: its own, and the general ones where it says nothing.
pub fn settings(script: &ScriptAsset, home: &Home) -> Result<Value, CliError> {
    let general = home.scripts()?;
    let pool = script.metadata.settings.pool.over(&general.pool);
    Ok(json!({
        "min": pool.min, "max": pool.max.min(general.max_workers), "queue": pool.queue, "queue_wait_ms": pool.queue_wait.as_millis() as u64,
        "recycle_after": pool.recycle_after, "recycle_growth": pool.recycle_growth, "idle_after_ms": pool.idle_after.as_millis() as u64,
    }))
}

/// What its attempts may use, and how far they are kept from the machine: by this process's settings, which a server's may differ from.
pub fn bounds(script: &ScriptAsset, home: &Home) -> Result<(Profile, Limits), CliError> {
    let general = home.scripts()?;
    Ok((general.profile, general.limited(&script.metadata.settings.limits)))
}

/// What the workers of each version of a script are doing; `null` if no server runs on this home.
pub fn live(name: &str, home: &Home) -> Result<Value, CliError> {
    let Some(client) = Client::find(&home.folder)? else { return Ok(Value::Null) };
    let all = client.get("/api/v1/pools")?;
    let of_script = all.as_array().into_iter().flatten().filter(|pool| pool["script"] == name).cloned();
    Ok(Value::Array(of_script.collect()))
}

/// The same for people.
pub fn show(name: &str, script: &ScriptAsset, home: &Home, output: &Output) -> Result<(), CliError> {
    let pool = settings(script, home)?;
    output.line(&format!(
        "workers {} to {}, {} attempts may wait {} s each",
        pool["min"],
        pool["max"],
        pool["queue"],
        pool["queue_wait_ms"].as_u64().unwrap_or(0) / 1000
    ))?;
    if bounds(script, home)?.0 == Profile::Strict {
        output.line("strict: its attempts see the system's programs, a folder of their own, and the hosts that it declares")?;
    }
    for pool in live(name, home)?.as_array().into_iter().flatten() {
        let kept = if pool["profile"] == Profile::Strict.name() { ", strict" } else { "" };
        let line = format!(
            "in the server: version {}{kept}: {} busy, {} idle, {} starting; {} wait; {} attempts served by {} workers, {} of them recycled",
            pool["version"], pool["busy"], pool["idle"], pool["starting"], pool["waiting"], pool["served"], pool["started"], pool["recycled"]
        );
        output.line(&line)?;
    }
    Ok(())
}
