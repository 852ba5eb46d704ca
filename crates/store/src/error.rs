//! What can go wrong with remembering, in words that say what to do.

use std::fmt;

use crate::{AssetName, OwnerId};

/// Why a unit was refused or a read failed. Refusals leave no trace of the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Somebody wrote in between: a run's journal, an asset or the catalogue is not at the expected version.
    Conflict {
        /// What it is about.
        what: String,
        /// The version that the caller expected.
        expected: u64,
        /// The version that is there.
        actual: u64,
    },
    /// The run belongs to another owner.
    Fenced {
        /// The run.
        run: String,
        /// Who has it.
        owner: Option<OwnerId>,
    },
    /// What was to be created is there already.
    Exists {
        /// What it is.
        what: String,
    },
    /// What the unit or the read needs is not there.
    Missing {
        /// What it is.
        what: String,
    },
    /// The asset cannot be deleted while live assets refer to it.
    Referenced {
        /// The asset.
        asset: AssetName,
        /// What holds it.
        by: Vec<AssetName>,
    },
    /// The key is claimed; this is what the claimer left.
    KeyTaken {
        /// The key's space.
        space: String,
        /// The key.
        key: String,
        /// The stored value.
        value: Vec<u8>,
    },
    /// The unit is larger than the store takes.
    TooBig {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// No space is left. Nothing of the unit was stored; the store works again once there is space.
    DiskFull {
        /// Where.
        path: String,
    },
    /// The home cannot be written to.
    ReadOnly {
        /// Where.
        path: String,
    },
    /// Another process kept the database locked for longer than the time limit.
    Busy {
        /// How long was waited.
        waited_ms: u64,
    },
    /// The database is damaged or is not one of viat's.
    Corrupt {
        /// Where.
        path: String,
        /// What was found.
        detail: String,
    },
    /// The database was written by a newer viat.
    NewerFormat {
        /// The format found.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// Any other failure of the machine underneath.
    ///
    /// After a failed fsync nobody can say what a power cut would leave: the unit is not applied, but might be found
    /// applied then. The run's version and its unique keys tell.
    Io {
        /// What happened, and where.
        detail: String,
    },
    /// The store has been closed.
    Closed,
}

impl StoreError {
    /// Whether the unit was refused for what it says (and would be again), rather than for the state of the machine.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Conflict { .. }
                | Self::Fenced { .. }
                | Self::Exists { .. }
                | Self::Missing { .. }
                | Self::Referenced { .. }
                | Self::KeyTaken { .. }
                | Self::TooBig { .. }
        )
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { what, expected, actual } => {
                write!(f, "{what} is at version {actual}, not {expected}: somebody changed it meanwhile; read it again and retry")
            }
            Self::Fenced { run, owner: Some(owner) } => {
                write!(f, "run {run} belongs to engine {owner}; only its owner may write to it, or who takes it over after its owner's death")
            }
            Self::Fenced { run, owner: None } => write!(f, "run {run} has no owner; claim it before writing to it"),
            Self::Exists { what } => write!(f, "{what} already exists; choose another name or change the existing one"),
            Self::Missing { what } => write!(f, "{what} does not exist; check the name, or create it first"),
            Self::Referenced { asset, by } => {
                write!(f, "{asset} is in use by ")?;
                for (index, holder) in by.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{holder}")?;
                }
                f.write_str("; delete or change what uses it first")
            }
            Self::KeyTaken { space, key, .. } => write!(f, "{space} key `{key}` is already taken; its stored value tells by what"),
            Self::TooBig { bytes, limit } => {
                write!(f, "a write of {bytes} bytes is over the limit of {limit}; split it or store less")
            }
            Self::DiskFull { path } => {
                write!(f, "no space left for {path}; nothing of this write was stored; free some space and retry")
            }
            Self::ReadOnly { path } => write!(f, "{path} cannot be written to; check its permissions and how it is mounted, or choose another home"),
            Self::Busy { waited_ms } => {
                write!(f, "another process kept the database locked for over {waited_ms} ms; retry, and see what holds it if this stays")
            }
            Self::Corrupt { path, detail } => {
                write!(f, "{path} is damaged or not a viat database ({detail}); move it away, or restore the home from a backup")
            }
            Self::NewerFormat { found, known } => {
                write!(f, "the home was written by a newer viat (format {found}, this one knows up to {known}); use that viat or a newer one")
            }
            Self::Io { detail } => f.write_str(detail),
            Self::Closed => f.write_str("the store is closed: the engine is shutting down; start it again and retry"),
        }
    }
}

impl std::error::Error for StoreError {}
