//! Reads and writes of the index of reviews.

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter, types::Value};

use super::fault::Stop;
use crate::{Outcome, ReviewFilter, ReviewRow, RunId, StoreError};

const ROW: &str = "id, run, path, title, assignees, status, created_at, due, decided_at, decided_by, comment";

fn row(row: &Row<'_>) -> rusqlite::Result<ReviewRow> {
    let assignees: String = row.get(4)?;
    Ok(ReviewRow {
        id: row.get(0)?,
        run: RunId::from(row.get::<_, String>(1)?),
        path: row.get(2)?,
        title: row.get(3)?,
        assignees: serde_json::from_str(&assignees).map_err(|error| rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, error.into()))?,
        status: row.get(5)?,
        created_at: row.get(6)?,
        due: row.get(7)?,
        decided_at: row.get(8)?,
        by: row.get(9)?,
        comment: row.get(10)?,
    })
}

pub(super) fn get(conn: &Connection, id: &str) -> rusqlite::Result<Option<ReviewRow>> {
    conn.prepare_cached(&format!("SELECT {ROW} FROM reviews WHERE id = ?1"))?.query_row([id], row).optional()
}

/// The order of `key` is the order of creation.
pub(super) fn list(conn: &Connection, filter: &ReviewFilter) -> rusqlite::Result<Vec<ReviewRow>> {
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    let wanted = [
        ("status = ?", &filter.status),
        ("run = ?", &filter.run.as_ref().map(|run| run.as_str().to_owned())),
        ("EXISTS (SELECT 1 FROM json_each(assignees) WHERE value = ?)", &filter.assignee),
        ("key < (SELECT key FROM reviews WHERE id = ?)", &filter.before),
    ];
    for (condition, value) in wanted {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(Value::Text(value.clone()));
        }
    }
    values.push(Value::Integer(i64::try_from(filter.limit).unwrap_or(i64::MAX)));
    let sql = format!("SELECT {ROW} FROM reviews WHERE {} ORDER BY key DESC LIMIT ?", conditions.join(" AND "));
    conn.prepare_cached(&sql)?.query_map(params_from_iter(values), row)?.collect()
}

/// A review that is known keeps its key, and so its place.
pub(super) fn put(conn: &Connection, row: &ReviewRow) -> Result<Outcome, Stop> {
    let assignees = serde_json::to_string(&row.assignees).map_err(|error| StoreError::Io { detail: format!("review {}: {error}", row.id) })?;
    conn.prepare_cached(
        "INSERT INTO reviews (id, run, path, title, assignees, status, created_at, due, decided_at, decided_by, comment) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
         ON CONFLICT (id) DO UPDATE SET run = excluded.run, path = excluded.path, title = excluded.title, assignees = excluded.assignees, \
         status = excluded.status, created_at = excluded.created_at, due = excluded.due, decided_at = excluded.decided_at, \
         decided_by = excluded.decided_by, comment = excluded.comment",
    )?
    .execute(params![
        row.id,
        row.run.as_str(),
        row.path,
        row.title,
        assignees,
        row.status,
        row.created_at,
        row.due,
        row.decided_at,
        row.by,
        row.comment,
    ])?;
    Ok(Outcome::Done)
}
