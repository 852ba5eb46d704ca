//! Reads of runs and their journals.

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter, types::Value};
use viat_engine::journal::Millis;

use super::apply::int;
use crate::{EncodedBatch, OpenRuns, OwnerId, RunFilter, RunId, RunRow, Summary};

const ROW: &str = "id, workflow, version, revision, owner, created_at, status, wake_at, error_class, error_code, ended_at, status_since, moved_to";

fn row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: RunId::from(row.get::<_, String>(0)?),
        workflow: row.get(1)?,
        version: row.get::<_, i64>(2)?.unsigned_abs(),
        revision: row.get::<_, i64>(3)?.unsigned_abs(),
        owner: row.get::<_, Option<String>>(4)?.map(OwnerId::from),
        created_at: row.get(5)?,
        summary: Summary {
            status: row.get(6)?,
            wake_at: row.get(7)?,
            error_class: row.get(8)?,
            error_code: row.get(9)?,
            ended_at: row.get(10)?,
            status_since: row.get(11)?,
            moved_to: row.get::<_, Option<i64>>(12)?.map(i64::unsigned_abs),
        },
    })
}

fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn get(conn: &Connection, id: &RunId) -> rusqlite::Result<Option<RunRow>> {
    conn.prepare_cached(&format!("SELECT {ROW} FROM runs WHERE id = ?1"))?.query_row([id.as_str()], row).optional()
}

/// A range of ids is found in the index; the last character of all ends it.
pub(super) fn find(conn: &Connection, prefix: &str, count: usize) -> rusqlite::Result<Vec<RunId>> {
    conn.prepare_cached("SELECT id FROM runs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3")?
        .query_map(params![prefix, format!("{prefix}{}", char::MAX), limit(count)], |row| row.get::<_, String>(0).map(RunId::from))?
        .collect()
}

/// The order of `key` is the order of creation.
pub(super) fn list(conn: &Connection, filter: &RunFilter) -> rusqlite::Result<Vec<RunRow>> {
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    let wanted = [
        ("status = ?", text(&filter.status)),
        ("workflow = ?", text(&filter.workflow)),
        ("error_class = ?", text(&filter.error_class)),
        ("created_at >= ?", filter.since.map(Value::Integer)),
        ("created_at < ?", filter.until.map(Value::Integer)),
        ("key < (SELECT key FROM runs WHERE id = ?)", filter.before.as_ref().map(|id| Value::Text(id.as_str().to_owned()))),
    ];
    for (condition, value) in wanted {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value);
        }
    }
    values.push(Value::Integer(limit(filter.limit)));
    let sql = format!("SELECT {ROW} FROM runs WHERE {} ORDER BY key DESC LIMIT ?", conditions.join(" AND "));
    conn.prepare_cached(&sql)?.query_map(params_from_iter(values), row)?.collect()
}

/// The key by which the other tables know a run.
pub(super) fn key(conn: &Connection, id: &RunId) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT key FROM runs WHERE id = ?1")?.query_row([id.as_str()], |row| row.get(0)).optional()
}

pub(super) fn journal(conn: &Connection, key: i64, from: u64) -> rusqlite::Result<Vec<EncodedBatch>> {
    conn.prepare_cached("SELECT body, events FROM journal WHERE run = ?1 AND number >= ?2 ORDER BY number")?
        .query_map([key, int(from)], |row| Ok(EncodedBatch { body: row.get(0)?, events: row.get(1)? }))?
        .collect()
}

pub(super) fn open(conn: &Connection, moments: &[Millis]) -> rusqlite::Result<Vec<OpenRuns>> {
    let sums: String = (1..=moments.len()).map(|number| format!(", sum(coalesce(status_since, created_at) <= ?{number})")).collect();
    let sql = format!("SELECT workflow, status, count(*){sums} FROM runs WHERE ended_at IS NULL GROUP BY workflow, status ORDER BY workflow, status");
    conn.prepare_cached(&sql)?
        .query_map(params_from_iter(moments), |row| {
            let number = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
            let since = (3..3 + moments.len()).map(number).collect::<Result<_, _>>()?;
            Ok(OpenRuns { workflow: row.get(0)?, status: row.get(1)?, count: number(2)?, since })
        })?
        .collect()
}

/// Those who own unfinished runs; `None` stands for nobody.
pub(super) fn owners(conn: &Connection) -> rusqlite::Result<Vec<Option<OwnerId>>> {
    conn.prepare_cached("SELECT DISTINCT owner FROM runs WHERE ended_at IS NULL")?
        .query_map([], |row| row.get::<_, Option<String>>(0).map(|owner| owner.map(OwnerId::from)))?
        .collect()
}

pub(super) fn unfinished(conn: &Connection, owner: Option<&OwnerId>, count: usize) -> rusqlite::Result<Vec<RunRow>> {
    conn.prepare_cached(&format!("SELECT {ROW} FROM runs WHERE owner IS ?1 AND ended_at IS NULL ORDER BY key LIMIT ?2"))?
        .query_map(params![owner.map(OwnerId::as_str), limit(count)], row)?
        .collect()
}

pub(super) fn due(conn: &Connection, owner: &OwnerId, now: Millis, count: usize) -> rusqlite::Result<Vec<RunRow>> {
    conn.prepare_cached(&format!("SELECT {ROW} FROM runs WHERE owner = ?1 AND ended_at IS NULL AND wake_at <= ?2 ORDER BY wake_at, key LIMIT ?3"))?
        .query_map(params![owner.as_str(), now, limit(count)], row)?
        .collect()
}

pub(super) fn next_wake(conn: &Connection, owner: &OwnerId) -> rusqlite::Result<Option<Millis>> {
    conn.prepare_cached("SELECT min(wake_at) FROM runs WHERE owner = ?1 AND ended_at IS NULL AND wake_at IS NOT NULL")?
        .query_row([owner.as_str()], |row| row.get(0))
}
