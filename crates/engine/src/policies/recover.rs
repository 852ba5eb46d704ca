//! Recovery: what follows a final failure of an entry.

use serde::{Deserialize, Serialize};

use crate::failure::{Outcome, RunError};
use crate::ir::RegionId;
use crate::journal::Event;
use crate::path::Path;
use crate::policies::retry::Matcher;
use crate::steps;
use crate::turn::Turn;

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

/// Applies the recovery policy of the entry `number` in `frame` to its final failure.
pub(crate) fn entry(turn: &mut Turn<'_>, frame: &Path, number: usize, error: RunError) {
    let Some(node) = turn.node(frame, number) else { return };
    let path = frame.child(&node.id);
    let Outcome::Failed(class) = error.class else { return steps::fail(turn, frame, error) };
    match node.policy.recover.iter().find(|rule| rule.matches.covers(class)).map(|rule| &rule.then) {
        None => steps::fail(turn, frame, error),
        Some(Recovery::Continue) => turn.emit(Event::Continued { path, error }),
        Some(Recovery::Catch(_)) => turn.emit(Event::CatchEntered { path, error }),
    }
}
