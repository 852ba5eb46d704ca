//! The database's tables, and how an older database becomes a current one.

use rusqlite::{Connection, TransactionBehavior};

/// The format that this code reads and writes.
pub(super) const FORMAT: i64 = 4;

/// "viat" in ASCII: tells our databases from other programs'.
pub(super) const APPLICATION_ID: i64 = 0x7669_6174;

/// Step `n` leads from format `n` to `n + 1`. Steps are never edited once shipped, only added.
///
/// - `journal` is in the order of arrival, so that the batches of many runs that share one fsync also share pages:
///   clustered by run, each of 256 busy runs would dirty a page of its own. Its index finds a run's batches and is what
///   makes two writers of the same number collide.
/// - `runs.ended_at IS NULL` marks what has to be taken over when its owner dies; one index finds those and the due ones,
///   because each index is a page more in the log for every batch that creates or ends a run.
/// - A tombstone is an `assets` row without a version; the row id is the catalogue revision.
/// - `runs.status_since` has no index: only unfinished runs are asked about it, and those have one.
/// - `runs.moved_to` is the version that a run was migrated to; `version` stays what its journal begins with.
/// - `reviews` names runs by their ids, because reviews are listed with them and seldom by them; `assignees` is a JSON array.
/// - `refs` holds only the references of live assets.
///
/// There are no foreign keys: rows are only made by the writer, which looked the parent up in the same transaction.
const STEPS: [&str; FORMAT as usize] = [
    "
CREATE TABLE runs (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  workflow TEXT NOT NULL,
  version INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  owner TEXT,
  created_at INTEGER NOT NULL,
  status TEXT NOT NULL,
  wake_at INTEGER,
  error_class TEXT,
  error_code TEXT,
  ended_at INTEGER
);
CREATE INDEX runs_status ON runs (status, key);
CREATE INDEX runs_workflow ON runs (workflow, key);
CREATE INDEX runs_open ON runs (owner, wake_at) WHERE ended_at IS NULL;

CREATE TABLE journal (
  position INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  number INTEGER NOT NULL,
  events INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE UNIQUE INDEX journal_run ON journal (run, number);

CREATE TABLE keys (
  space TEXT NOT NULL,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (space, key)
) WITHOUT ROWID;

CREATE TABLE blobs (
  hash BLOB PRIMARY KEY,
  bytes BLOB NOT NULL
);

CREATE TABLE assets (
  revision INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER,
  at INTEGER NOT NULL,
  hash BLOB,
  body BLOB
);
CREATE UNIQUE INDEX assets_name ON assets (kind, name, revision);
CREATE UNIQUE INDEX assets_version ON assets (kind, name, version) WHERE version IS NOT NULL;

CREATE TABLE refs (
  to_kind TEXT NOT NULL,
  to_name TEXT NOT NULL,
  from_kind TEXT NOT NULL,
  from_name TEXT NOT NULL,
  from_version INTEGER NOT NULL,
  PRIMARY KEY (to_kind, to_name, from_kind, from_name, from_version)
) WITHOUT ROWID;
CREATE INDEX refs_from ON refs (from_kind, from_name, from_version);
",
    "
CREATE TABLE reviews (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL,
  path TEXT NOT NULL,
  title TEXT NOT NULL,
  assignees TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  due INTEGER,
  decided_at INTEGER,
  decided_by TEXT,
  comment TEXT
);
CREATE INDEX reviews_status ON reviews (status, key);
CREATE INDEX reviews_run ON reviews (run, key);
",
    "
ALTER TABLE runs ADD COLUMN status_since INTEGER;
",
    "
ALTER TABLE runs ADD COLUMN moved_to INTEGER;
",
];

/// The format of the database that is open; 0 for an empty one.
pub(super) fn format(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Whether the database is empty or carries our mark.
pub(super) fn is_ours(conn: &Connection) -> rusqlite::Result<bool> {
    let mark = || conn.query_row("PRAGMA application_id", [], |row| row.get::<_, i64>(0));
    if mark()? == APPLICATION_ID {
        return Ok(true);
    }
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    // Asked again, because another process may have made the tables, and set the mark with them, since the first answer.
    Ok(match mark()? {
        APPLICATION_ID => true,
        0 => tables == 0,
        _ => false,
    })
}

/// Brings the database to the current format; harmless if another process does or did the same.
pub(super) fn migrate(conn: &mut Connection) -> rusqlite::Result<()> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = format(&transaction)?;
    if found >= FORMAT {
        return Ok(());
    }
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}
