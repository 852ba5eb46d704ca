//! Recovery: what follows a final failure of an entry.

use serde::{Deserialize, Serialize};

use crate::failure::{Outcome, RunError};
use crate::ir::RegionId;
use crate::journal::Event;
use crate::path::Path;
use crate::policies::class::Class;
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

/// Applies the recovery policy of the entry that `frame` is at to its final failure.
pub(crate) fn entry(turn: &mut Turn<'_>, frame: &Path, path: Path, rules: &[RecoverRule], error: RunError) {
    let rule = match error.class {
        // An attempt's own evaluation is nothing that its rules see, also where a rehearsal lets it fail: only what failed inside.
        Outcome::Failed(Class::Orchestration) if error.attempt.is_some() && error.path.as_ref() == Some(&path) => None,
        Outcome::Failed(class) => rules.iter().find(|rule| rule.matches.covers(class)),
        // A spent budget and a cancel are nobody's to recover from.
        Outcome::DeadlineExceeded | Outcome::Cancelled => None,
    };
    match rule.map(|rule| &rule.then) {
        None => steps::fail(turn, frame, error),
        Some(Recovery::Continue) => turn.emit(Event::Continued { path, error }),
        Some(Recovery::Catch(_)) => turn.emit(Event::CatchEntered { path, error }),
    }
}
