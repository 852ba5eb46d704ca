//! Recovery: what follows a final failure of an entry.

use serde::{Deserialize, Serialize};

use crate::ir::RegionId;
use crate::policies::retry::Matcher;

/// One rule of a recovery policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoverRule {
    /// Which failures it is about.
    pub matches: Matcher,
    /// What follows.
    pub then: Recovery,
}

/// What follows a failure that a rule matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// The output is `null`, the error is kept beside it, the next entry runs.
    Continue,
    /// The region runs; its value becomes the entry's output.
    Catch(RegionId),
}
