//! The catalogue of assets: immutable versions, tombstones, and who refers to whom.

use rusqlite::{Connection, OptionalExtension, Row, params};
use viat_engine::journal::Millis;

use super::apply::{int, missing};
use super::fault::Stop;
use crate::{Asset, AssetInfo, AssetName, At, Hash, Outcome, StoreError};

/// The newest version, if the asset lives.
pub(super) fn live_version(conn: &Connection, name: &AssetName) -> rusqlite::Result<Option<u64>> {
    let found: Option<Option<i64>> = conn
        .prepare_cached("SELECT version FROM assets WHERE kind = ?1 AND name = ?2 ORDER BY revision DESC LIMIT 1")?
        .query_row([&name.kind, &name.name], |row| row.get(0))
        .optional()?;
    Ok(found.flatten().map(i64::unsigned_abs))
}

/// The newest catalogue revision.
pub(super) fn revision(conn: &Connection) -> rusqlite::Result<u64> {
    let newest: Option<i64> = conn.prepare_cached("SELECT max(revision) FROM assets")?.query_row([], |row| row.get(0))?;
    Ok(newest.unwrap_or(0).unsigned_abs())
}

/// Adds a version and its references.
pub(super) fn put(conn: &Connection, name: &AssetName, body: &[u8], hash: &Hash, refs: &[AssetName], at: Millis) -> Result<Outcome, Stop> {
    let newest: Option<i64> =
        conn.prepare_cached("SELECT max(version) FROM assets WHERE kind = ?1 AND name = ?2")?.query_row([&name.kind, &name.name], |row| row.get(0))?;
    let version = newest.unwrap_or(0) + 1;
    let revision = conn.prepare_cached("INSERT INTO assets (kind, name, version, at, hash, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.insert(params![
        name.kind,
        name.name,
        version,
        at,
        hash.as_bytes().as_slice(),
        body
    ])?;
    insert_refs(conn, name, version, refs)?;
    Ok(Outcome::AssetPut { version: version.unsigned_abs(), revision: revision.unsigned_abs() })
}

/// Adds a tombstone, unless somebody else refers to the asset.
pub(super) fn delete(conn: &Connection, name: &AssetName, at: Millis) -> Result<Outcome, Stop> {
    live_version(conn, name)?.ok_or_else(|| missing(name))?;
    let mut by = referrers(conn, name)?;
    by.retain(|holder| holder != name);
    if !by.is_empty() {
        return Err(StoreError::Referenced { asset: name.clone(), by }.into());
    }
    let revision = conn.prepare_cached("INSERT INTO assets (kind, name, at) VALUES (?1, ?2, ?3)")?.insert(params![name.kind, name.name, at])?;
    conn.prepare_cached("DELETE FROM refs WHERE from_kind = ?1 AND from_name = ?2")?.execute([&name.kind, &name.name])?;
    Ok(Outcome::AssetDeleted { revision: revision.unsigned_abs() })
}

/// Empties the bodies of the versions below a number.
pub(super) fn erase(conn: &Connection, name: &AssetName, below: u64) -> Result<Outcome, Stop> {
    let known: bool =
        conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM assets WHERE kind = ?1 AND name = ?2)")?.query_row([&name.kind, &name.name], |row| row.get(0))?;
    if !known {
        return Err(missing(name).into());
    }
    conn.prepare_cached("UPDATE assets SET body = x'' WHERE kind = ?1 AND name = ?2 AND version < ?3")?.execute(params![name.kind, name.name, int(below)])?;
    Ok(Outcome::Done)
}

/// Replaces one version's references.
pub(super) fn set_refs(conn: &Connection, from: &AssetName, version: u64, to: &[AssetName]) -> Result<Outcome, Stop> {
    let newest = live_version(conn, from)?.ok_or_else(|| missing(from))?;
    if version == 0 || version > newest {
        return Err(missing(&format!("version {version} of {from}")).into());
    }
    conn.prepare_cached("DELETE FROM refs WHERE from_kind = ?1 AND from_name = ?2 AND from_version = ?3")?.execute(params![
        from.kind,
        from.name,
        int(version)
    ])?;
    insert_refs(conn, from, int(version), to)?;
    Ok(Outcome::Done)
}

fn insert_refs(conn: &Connection, from: &AssetName, version: i64, to: &[AssetName]) -> rusqlite::Result<()> {
    let mut insert =
        conn.prepare_cached("INSERT INTO refs (to_kind, to_name, from_kind, from_name, from_version) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING")?;
    for target in to {
        insert.execute(params![target.kind, target.name, from.kind, from.name, version])?;
    }
    Ok(())
}

/// The live assets that refer to this one.
pub(super) fn referrers(conn: &Connection, name: &AssetName) -> rusqlite::Result<Vec<AssetName>> {
    conn.prepare_cached("SELECT DISTINCT from_kind, from_name FROM refs WHERE to_kind = ?1 AND to_name = ?2 ORDER BY 1, 2")?
        .query_map([&name.kind, &name.name], |row| Ok(AssetName { kind: row.get(0)?, name: row.get(1)? }))?
        .collect()
}

const INFO: &str = "kind, name, version, revision, at, hash, length(body)";

fn info(row: &Row<'_>) -> rusqlite::Result<AssetInfo> {
    let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(AssetInfo {
        name: AssetName { kind: row.get(0)?, name: row.get(1)? },
        version: number(2)?,
        revision: number(3)?,
        at: row.get(4)?,
        hash: Hash::from_bytes(row.get(5)?),
        size: number(6)?,
    })
}

/// One version with its body.
pub(super) fn get(conn: &Connection, name: &AssetName, at: At) -> rusqlite::Result<Option<Asset>> {
    let (condition, number) = match at {
        At::Latest => ("revision <= ?3", i64::MAX),
        At::Revision(revision) => ("revision <= ?3", int(revision)),
        At::Version(version) => ("version = ?3", int(version)),
    };
    let newest = format!("SELECT {INFO}, body FROM assets WHERE kind = ?1 AND name = ?2 AND {condition} ORDER BY revision DESC LIMIT 1");
    conn.prepare_cached(&format!("SELECT * FROM ({newest}) WHERE version IS NOT NULL"))?
        .query_row(params![name.kind, name.name, number], |row| Ok(Asset { info: info(row)?, body: row.get(7)? }))
        .optional()
}

/// What lives at a revision.
pub(super) fn list(conn: &Connection, kind: Option<&str>, revision: Option<u64>) -> rusqlite::Result<Vec<AssetInfo>> {
    conn.prepare_cached(&format!(
        "SELECT {INFO} FROM assets WHERE version IS NOT NULL AND revision IN \
         (SELECT max(revision) FROM assets WHERE (?1 IS NULL OR kind = ?1) AND revision <= ?2 GROUP BY kind, name) ORDER BY kind, name"
    ))?
    .query_map(params![kind, revision.map_or(i64::MAX, int)], info)?
    .collect()
}

/// Every version ever.
pub(super) fn versions(conn: &Connection, name: &AssetName) -> rusqlite::Result<Vec<AssetInfo>> {
    conn.prepare_cached(&format!("SELECT {INFO} FROM assets WHERE kind = ?1 AND name = ?2 AND version IS NOT NULL ORDER BY version"))?
        .query_map([&name.kind, &name.name], info)?
        .collect()
}
