//! Applies one unit inside the writer's transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::assets;
use super::fault::{Stop, is_duplicate};
use super::known::{Known, KnownRuns};
use super::reviews;
use crate::{EncodedBatch, Hash, KeyFilter, Op, Outcome, OwnerId, Precondition, Receipt, RunId, RunRow, StoreError, Summary, Unit};

/// SQLite's integers are signed; a number that does not fit could only come from a bug and will match nothing.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Applies `unit` whole; when it is refused, the transaction is as it was before.
pub(super) fn unit(conn: &Connection, known: &mut KnownRuns, unit: &Unit) -> Result<Receipt, Stop> {
    for precondition in &unit.guard {
        check(conn, precondition)?;
    }
    // A single operation refuses before it writes, so only several need a way back.
    if let [only] = unit.ops.as_slice() {
        return Ok(Receipt { outcomes: vec![op(conn, known, only)?] });
    }
    conn.prepare_cached("SAVEPOINT unit")?.execute([])?;
    match unit.ops.iter().map(|each| op(conn, known, each)).collect() {
        Ok(outcomes) => {
            conn.prepare_cached("RELEASE unit")?.execute([])?;
            Ok(Receipt { outcomes })
        }
        Err(Stop::Refused(error)) => {
            known.forget_all();
            conn.execute_batch("ROLLBACK TO unit; RELEASE unit")?;
            Err(error.into())
        }
        Err(fault) => Err(fault),
    }
}

fn check(conn: &Connection, precondition: &Precondition) -> Result<(), Stop> {
    match precondition {
        Precondition::AssetLive(name) => assets::live_version(conn, name)?.map(|_| ()).ok_or_else(|| missing(name).into()),
        Precondition::AssetAbsent(name) => match assets::live_version(conn, name)? {
            Some(_) => Err(StoreError::Exists { what: name.to_string() }.into()),
            None => Ok(()),
        },
        Precondition::AssetVersion(name, expected) => {
            let actual = assets::live_version(conn, name)?.ok_or_else(|| missing(name))?;
            agree(name, *expected, actual)
        }
        Precondition::Revision(expected) => agree(&"the catalogue", *expected, assets::revision(conn)?),
        Precondition::KeyIs { space, key, value } => match key_value(conn, space, key)? {
            Some(actual) if actual == *value => Ok(()),
            Some(value) => Err(StoreError::KeyTaken { space: space.clone(), key: key.clone(), value }.into()),
            None => Err(missing(&format!("{space} key `{key}`")).into()),
        },
    }
}

fn agree(what: &dyn ToString, expected: u64, actual: u64) -> Result<(), Stop> {
    if expected == actual { Ok(()) } else { Err(StoreError::Conflict { what: what.to_string(), expected, actual }.into()) }
}

pub(super) fn missing(what: &dyn ToString) -> StoreError {
    StoreError::Missing { what: what.to_string() }
}

fn op(conn: &Connection, known: &mut KnownRuns, op: &Op) -> Result<Outcome, Stop> {
    match op {
        Op::CreateRun { row, first } => create_run(conn, known, row, first),
        Op::Append { run, expected, batch, summary, fence } => {
            let state = known.get(conn, run)?;
            fenced(run, state, Some(fence))?;
            append(conn, known, run, *expected, batch, summary.as_ref())
        }
        Op::ClaimRun { run, from, to } => set_owner(conn, known, run, from.as_ref(), Some(to)),
        Op::ClaimRuns { from, to, status } => claim_runs(conn, known, from, to, status),
        Op::ReleaseRun { run, owner } => set_owner(conn, known, run, Some(owner), None),
        Op::ClaimKey { space, key, value } => claim_key(conn, space, key, value),
        Op::SetKey { space, key, value } => {
            let set = "INSERT INTO keys (space, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET value = excluded.value";
            conn.prepare_cached(set)?.execute(params![space, key, value])?;
            Ok(Outcome::Done)
        }
        Op::DropKey { space, key } => {
            conn.prepare_cached("DELETE FROM keys WHERE space = ?1 AND key = ?2")?.execute([space, key])?;
            Ok(Outcome::Done)
        }
        Op::PutReview(row) => reviews::put(conn, row),
        Op::PutBlob { hash, bytes } => put_blob(conn, hash, bytes),
        Op::PutAsset { name, body, hash, refs, at } => assets::put(conn, name, body, hash, refs, *at),
        Op::DeleteAsset { name, at } => assets::delete(conn, name, *at),
        Op::EraseAsset { name, below } => assets::erase(conn, name, *below),
        Op::SetRefs { from, version, to } => assets::set_refs(conn, from, *version, to),
    }
}

fn create_run(conn: &Connection, known: &mut KnownRuns, row: &RunRow, first: &EncodedBatch) -> Result<Outcome, Stop> {
    let summary = &row.summary;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO runs (id, workflow, version, revision, owner, created_at, status, wake_at, error_class, error_code, ended_at, status_since, moved_to) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .insert(params![
            row.id.as_str(),
            row.workflow,
            int(row.version),
            int(row.revision),
            row.owner.as_ref().map(OwnerId::as_str),
            row.created_at,
            summary.status,
            summary.wake_at,
            summary.error_class,
            summary.error_code,
            summary.ended_at,
            summary.status_since,
            summary.moved_to.map(int),
        ]);
    let key = match inserted {
        Err(error) if is_duplicate(&error) => return Err(StoreError::Exists { what: format!("run {}", row.id) }.into()),
        other => other?,
    };
    insert_batch(conn, key, 0, first)?;
    known.put(&row.id, Known { key, batches: 1, owner: row.owner.clone() });
    Ok(Outcome::Appended { batches: 1 })
}

fn fenced(run: &RunId, state: &Known, claimed: Option<&OwnerId>) -> Result<(), StoreError> {
    if state.owner.as_ref() == claimed {
        return Ok(());
    }
    Err(StoreError::Fenced { run: run.to_string(), owner: state.owner.clone() })
}

fn append(conn: &Connection, known: &mut KnownRuns, run: &RunId, expected: u64, batch: &EncodedBatch, summary: Option<&Summary>) -> Result<Outcome, Stop> {
    let state = known.get(conn, run)?;
    let actual = state.batches;
    if actual != expected {
        return Err(StoreError::Conflict { what: format!("run {run}"), expected, actual }.into());
    }
    insert_batch(conn, state.key, expected, batch)?;
    state.batches += 1;
    if let Some(summary) = summary {
        let key = state.key;
        summarise(conn, key, summary)?;
        if summary.ended_at.is_some() {
            known.forget(run);
        }
    }
    Ok(Outcome::Appended { batches: expected + 1 })
}

fn insert_batch(conn: &Connection, key: i64, number: u64, batch: &EncodedBatch) -> Result<(), Stop> {
    conn.prepare_cached("INSERT INTO journal (run, number, events, body) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        key,
        int(number),
        batch.events,
        batch.body
    ])?;
    Ok(())
}

fn summarise(conn: &Connection, key: i64, summary: &Summary) -> Result<(), Stop> {
    conn.prepare_cached(
        "UPDATE runs SET status = ?2, wake_at = ?3, error_class = ?4, error_code = ?5, ended_at = ?6, status_since = ?7, moved_to = ?8 WHERE key = ?1",
    )?
    .execute(params![
        key,
        summary.status,
        summary.wake_at,
        summary.error_class,
        summary.error_code,
        summary.ended_at,
        summary.status_since,
        summary.moved_to.map(int)
    ])?;
    Ok(())
}

fn set_owner(conn: &Connection, known: &mut KnownRuns, run: &RunId, from: Option<&OwnerId>, to: Option<&OwnerId>) -> Result<Outcome, Stop> {
    let state = known.get(conn, run)?;
    fenced(run, state, from)?;
    conn.prepare_cached("UPDATE runs SET owner = ?2 WHERE key = ?1")?.execute(params![state.key, to.map(OwnerId::as_str)])?;
    state.owner = to.cloned();
    Ok(Outcome::Done)
}

/// The value of a claimed key.
pub(super) fn key_value(conn: &Connection, space: &str, key: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    conn.prepare_cached("SELECT value FROM keys WHERE space = ?1 AND key = ?2")?.query_row([space, key], |row| row.get(0)).optional()
}

/// Keys with their values, the greatest first.
pub(super) fn keys(conn: &Connection, filter: &KeyFilter) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    conn.prepare_cached("SELECT key, value FROM keys WHERE space = ?1 AND (?2 IS NULL OR key < ?2) ORDER BY key DESC LIMIT ?3")?
        .query_map(params![filter.space, filter.before, int(filter.limit as u64)], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn claim_runs(conn: &Connection, known: &mut KnownRuns, from: &OwnerId, to: &OwnerId, status: &str) -> Result<Outcome, Stop> {
    let taken = conn.prepare_cached("UPDATE runs SET owner = ?1 WHERE owner = ?2 AND status = ?3 AND ended_at IS NULL")?.execute([
        to.as_str(),
        from.as_str(),
        status,
    ])?;
    // The cache knows owners run by run.
    known.forget_all();
    Ok(Outcome::Taken { runs: taken as u64 })
}

fn claim_key(conn: &Connection, space: &str, key: &str, value: &[u8]) -> Result<Outcome, Stop> {
    if let Some(value) = key_value(conn, space, key)? {
        return Err(StoreError::KeyTaken { space: space.to_owned(), key: key.to_owned(), value }.into());
    }
    conn.prepare_cached("INSERT INTO keys (space, key, value) VALUES (?1, ?2, ?3)")?.execute(params![space, key, value])?;
    Ok(Outcome::Done)
}

fn put_blob(conn: &Connection, hash: &Hash, bytes: &[u8]) -> Result<Outcome, Stop> {
    // Asked first: SQLite copies what it is given to insert.
    if !conn.prepare_cached("SELECT 1 FROM blobs WHERE hash = ?1")?.exists([hash.as_bytes().as_slice()])? {
        conn.prepare_cached("INSERT INTO blobs (hash, bytes) VALUES (?1, ?2)")?.execute(params![hash.as_bytes().as_slice(), bytes])?;
    }
    Ok(Outcome::Done)
}
