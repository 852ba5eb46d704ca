//! What a journal says of undoing: how an effect can be undone, and what came of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policies::retry::RetryRule;

/// How a completed effect can be undone; everything is evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// By a script.
    Script(UndoScript),
    /// Not at all, and why.
    Irreversible(String),
    /// It is not known how: the arguments could not be evaluated.
    Unusable(String),
}

impl Undo {
    /// Whether its author gave leave to do it again after an attempt that came to nothing, or whose outcome is unknown.
    pub fn may_be_repeated(&self) -> bool {
        matches!(self, Undo::Script(undo) if undo.idempotent || !undo.retry.is_empty())
    }
}

/// A script that undoes an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoScript {
    /// The script asset's name.
    pub script: String,
    /// A JSON object.
    pub args: Value,
    /// Of its own attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry: Vec<RetryRule>,
    /// Of each of its attempts, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The author's leave to run it again after an attempt whose outcome is unknown because the engine died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
}

/// How a run ends that does not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With an error.
    Failed,
    /// Because it was asked to.
    Cancelled,
}

/// What came of undoing an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undone {
    /// There was nothing to undo: it never took effect, or was undone before.
    Skip,
    /// It cannot be undone.
    Irreversible,
    /// It is undone.
    Compensated,
    /// It is not.
    CompensationFailed,
}

impl Undone {
    /// Its name in values, ledgers and records.
    pub fn name(self) -> &'static str {
        match self {
            Undone::Skip => "skip",
            Undone::Irreversible => "irreversible",
            Undone::Compensated => "compensated",
            Undone::CompensationFailed => "compensation_failed",
        }
    }
}
