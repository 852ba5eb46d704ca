//! Schedules: runs that begin by the clock. A server fires them, each fire time exactly once.

pub mod keeper;
mod plan;
mod rhythm;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use viat_engine::journal::Millis;
use viat_engine::record::rfc3339;
use viat_store::{AssetName, At, Store};

use crate::cli::error::CliError;
pub use rhythm::{HOW, Rhythm};

/// The kind under which schedules are stored, and the space of the keys under which it is kept how they stand.
pub const SCHEDULE: &str = "schedule";
/// An input with this text is given the time at which the schedule fires, RFC 3339.
const TIME: &str = "$schedule.time";
/// An input with this text is given the schedule's name.
const NAME: &str = "$schedule.name";

/// What happens when a schedule fires while its run before has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Nothing: that fire is left out.
    #[default]
    Skip,
    /// Its run begins when the one before has ended; at most 100 wait.
    Queue,
    /// Its run begins, beside the one before.
    Allow,
}

/// What happens with fire times at which no server was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Nothing.
    None,
    /// The last of them is made up for.
    #[default]
    Latest,
    /// All of them are, at most the last 100.
    All,
}

/// The stored body of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScheduleAsset {
    /// A cron expression.
    pub cron: String,
    /// The IANA name of the time zone in which it is read.
    pub timezone: String,
    /// The workflow's name; its published version is run.
    pub workflow: String,
    /// Its inputs; `$schedule.time` and `$schedule.name` stand for the fire time and the schedule's name.
    pub inputs: Value,
    /// Each fire is late by up to so much, in milliseconds; by how much depends on the name and the fire time only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter_ms: u64,
    /// A budget for each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// See [`Overlap`].
    #[serde(default)]
    pub overlap: Overlap,
    /// See [`CatchUp`].
    #[serde(default)]
    pub catch_up: CatchUp,
    /// A paused schedule does not fire, and fire times of the pause are not made up for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

/// How a schedule stands; kept under its name, changed in the very unit that creates a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Fire times up to here are dealt with.
    pub at: Millis,
    /// Fires that wait for a run to end, earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Millis>,
    /// The run that was started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What came of the last fires, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fires: Vec<Fire>,
}

/// What came of a fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fire {
    /// When it was due, without jitter.
    pub at: Millis,
    /// What came of it.
    pub outcome: FireOutcome,
    /// The run that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What can come of a fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FireOutcome {
    /// A run was started.
    Started,
    /// The run before had not ended.
    Skipped,
    /// No server was there.
    Missed,
    /// The run could not be started.
    Failed,
}

impl FireOutcome {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FireOutcome::Started => "started",
            FireOutcome::Skipped => "skipped",
            FireOutcome::Missed => "missed",
            FireOutcome::Failed => "failed",
        }
    }
}

impl ScheduleAsset {
    /// The inputs of the run that fires at `at`.
    pub fn inputs_at(&self, name: &str, at: Millis) -> Value {
        filled(&self.inputs, name, at)
    }
}

fn filled(value: &Value, name: &str, at: Millis) -> Value {
    match value {
        Value::String(text) if text == TIME => rfc3339(at).into(),
        Value::String(text) if text == NAME => name.into(),
        Value::Array(items) => items.iter().map(|item| filled(item, name, at)).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, item)| (key.clone(), filled(item, name, at))).collect::<Map<_, _>>()),
        other => other.clone(),
    }
}

/// A schedule and when its newest version was saved; `None` if there is none of that name.
pub fn find(store: &dyn Store, name: &str) -> Result<Option<(ScheduleAsset, Millis)>, CliError> {
    let Some(found) = store.asset(&AssetName::new(SCHEDULE, name), At::Latest).map_err(CliError::store)? else { return Ok(None) };
    let asset = serde_json::from_slice(&found.body).map_err(|error| CliError::failed(format!("schedule {name} cannot be read: {error}")))?;
    Ok(Some((asset, found.info.at)))
}

/// How a schedule stands, and the bytes that say so; `None` if it was never looked at.
pub fn standing(store: &dyn Store, name: &str) -> Result<Option<(Standing, Vec<u8>)>, CliError> {
    let Some(bytes) = store.key(SCHEDULE, name).map_err(CliError::store)? else { return Ok(None) };
    let standing = serde_json::from_slice(&bytes).map_err(|error| CliError::failed(format!("how schedule {name} stands cannot be read: {error}")))?;
    Ok(Some((standing, bytes)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_time_and_the_name_are_filled_in() {
        let given = json!({"day": "$schedule.time", "of": ["$schedule.name", "$schedule", 1]});
        let wanted = json!({"day": "1970-01-01T00:00:01.000Z", "of": ["nightly", "$schedule", 1]});
        assert_eq!(filled(&given, "nightly", 1_000), wanted);
    }
}
