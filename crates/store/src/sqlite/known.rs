//! What the writer knows of runs without asking the database: a cache that another process's commit empties.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use super::apply::missing;
use super::fault::Stop;
use crate::{OwnerId, RunId};

/// Entries kept; beyond it the cache is emptied rather than aged, which at this size happens too seldom to matter.
const CAPACITY: usize = 50_000;

/// What an append must know of its run.
pub(super) struct Known {
    pub key: i64,
    pub batches: u64,
    pub owner: Option<OwnerId>,
}

/// The cache. It is right as long as only this connection writes, which `refresh` finds out.
#[derive(Default)]
pub(super) struct KnownRuns {
    runs: HashMap<RunId, Known>,
    data_version: i64,
}

impl KnownRuns {
    /// To be called inside each write transaction: forgets everything if another connection has committed since the last.
    pub fn refresh(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let version: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version != self.data_version {
            self.runs.clear();
            self.data_version = version;
        }
        Ok(())
    }

    /// The run's state, from the cache or the database.
    pub fn get(&mut self, conn: &Connection, run: &RunId) -> Result<&mut Known, Stop> {
        // Looked up twice on a hit because a returned borrow cannot be conditional.
        if !self.runs.contains_key(run) {
            let found = load(conn, run)?.ok_or_else(|| missing(&format!("run {run}")))?;
            self.put(run, found);
        }
        self.runs.get_mut(run).ok_or_else(|| missing(&format!("run {run}")).into())
    }

    /// Remembers a run.
    pub fn put(&mut self, run: &RunId, state: Known) {
        if self.runs.len() >= CAPACITY {
            self.runs.clear();
        }
        self.runs.insert(run.clone(), state);
    }

    /// Forgets a run that is not expected to be written again.
    pub fn forget(&mut self, run: &RunId) {
        self.runs.remove(run);
    }

    /// Forgets everything, after a rollback.
    pub fn forget_all(&mut self) {
        self.runs.clear();
    }
}

fn load(conn: &Connection, run: &RunId) -> rusqlite::Result<Option<Known>> {
    conn.prepare_cached("SELECT key, owner, (SELECT max(number) + 1 FROM journal WHERE run = key) FROM runs WHERE id = ?1")?
        .query_row([run.as_str()], |row| {
            let batches: i64 = row.get(2)?;
            let owner: Option<String> = row.get(1)?;
            Ok(Known { key: row.get(0)?, batches: batches.unsigned_abs(), owner: owner.map(OwnerId::from) })
        })
        .optional()
}
