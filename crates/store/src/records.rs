//! What the store gives back: rows about runs and assets.

use viat_engine::journal::Millis;

use crate::{AssetName, Hash, OwnerId, RunId};

/// What lists and wake-ups need to know of a run without folding its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The run's status, in the words of the public interface.
    pub status: String,
    /// Since when it has that status; `None` if nobody noted it.
    pub status_since: Option<Millis>,
    /// When the run wants to be looked at next, if nothing else happens.
    pub wake_at: Option<Millis>,
    /// Its error's class.
    pub error_class: Option<String>,
    /// Its error's code.
    pub error_code: Option<String>,
    /// When it ended. `None` means unfinished: such a run is taken over when its owner dies.
    pub ended_at: Option<Millis>,
    /// The version of its workflow that it was migrated to last; `None`: it has the one that it began with.
    pub moved_to: Option<u64>,
}

/// A run as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The workflow's version.
    pub version: u64,
    /// The catalogue revision that it pins.
    pub revision: u64,
    /// Who may append to it.
    pub owner: Option<OwnerId>,
    /// When it was created.
    pub created_at: Millis,
    /// What changes as it goes.
    pub summary: Summary,
}

/// How many unfinished runs of a workflow have a status, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRuns {
    /// The workflow's name.
    pub workflow: String,
    /// The status.
    pub status: String,
    /// So many runs.
    pub count: u64,
    /// For each moment that was asked about, how many of them have had the status since then or longer. What nobody noted
    /// counts from the run's creation.
    pub since: Vec<u64>,
}

/// Which runs to list. The default is the newest 100 of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFilter {
    /// Only those with this status.
    pub status: Option<String>,
    /// Only those of this workflow.
    pub workflow: Option<String>,
    /// Only those that ended with an error of this class.
    pub error_class: Option<String>,
    /// Only those created at this time or later.
    pub since: Option<Millis>,
    /// Only those created before this time.
    pub until: Option<Millis>,
    /// Only those older than this one: the cursor of the next page.
    pub before: Option<RunId>,
    /// At most so many.
    pub limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self { status: None, workflow: None, error_class: None, since: None, until: None, before: None, limit: 100 }
    }
}

/// Which keys of a space to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFilter {
    /// The space.
    pub space: String,
    /// Only those that sort before this one: the cursor of the next page.
    pub before: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// A review as lists show it: a question that a run has put to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRow {
    /// Its id.
    pub id: String,
    /// The run that asks.
    pub run: RunId,
    /// The entry that asks.
    pub path: String,
    /// The question, in one line.
    pub title: String,
    /// Who is asked; empty: anyone.
    pub assignees: Vec<String>,
    /// How it stands, in the words of the public interface.
    pub status: String,
    /// When it was asked.
    pub created_at: Millis,
    /// When it expires.
    pub due: Option<Millis>,
    /// When it was over.
    pub decided_at: Option<Millis>,
    /// Who decided.
    pub by: Option<String>,
    /// What they said.
    pub comment: Option<String>,
}

/// Which reviews to list. The default is the newest 100 of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFilter {
    /// Only those with this status.
    pub status: Option<String>,
    /// Only those of this run.
    pub run: Option<RunId>,
    /// Only those that name this assignee.
    pub assignee: Option<String>,
    /// Only those older than this one: the cursor of the next page.
    pub before: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl Default for ReviewFilter {
    fn default() -> Self {
        Self { status: None, run: None, assignee: None, before: None, limit: 100 }
    }
}

/// Which version of an asset is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest; nothing if the asset is deleted.
    Latest,
    /// This version, whether the asset is deleted or not.
    Version(u64),
    /// The version that was the newest at this catalogue revision; nothing if the asset was deleted then.
    Revision(u64),
}

/// One version of an asset, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetInfo {
    /// Its name.
    pub name: AssetName,
    /// 1, 2, 3, … for each name; deletion does not start them again.
    pub version: u64,
    /// The catalogue revision that this version made.
    pub revision: u64,
    /// When it was put.
    pub at: Millis,
    /// The hash that the caller gave.
    pub hash: Hash,
    /// The body's length in bytes.
    pub size: u64,
}

/// One version of an asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// All but the body.
    pub info: AssetInfo,
    /// What was put.
    pub body: Vec<u8>,
}
