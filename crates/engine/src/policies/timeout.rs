//! A node's own time budget.

use serde::{Deserialize, Serialize};

/// A budget and what it covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeout {
    /// Milliseconds; zero times out at once and starts nothing.
    pub ms: u64,
    /// What the budget covers.
    pub scope: Scope,
}

/// What a timeout covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Each attempt anew, from the moment a ready worker has its arguments.
    Attempt,
}
