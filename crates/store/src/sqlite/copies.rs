//! Copies of a database: made while it is in use, and put where one is missing.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::fault::explain;
use super::home::{Home, io, sync_dir};
use super::{damage, schema};
use crate::StoreError;

/// Writes a consistent copy of the database into a new file; when this returns it is durable. Writers are not kept waiting.
pub(super) fn backup(conn: &Connection, to: &Path) -> Result<(), StoreError> {
    let partial = beside(to);
    refuse_if_there(to)?;
    // What a copy that was broken off has left.
    let _ = fs::remove_file(&partial);
    let made = copy(conn, &partial, to);
    if made.is_err() {
        let _ = fs::remove_file(&partial);
    }
    made
}

fn copy(conn: &Connection, partial: &Path, to: &Path) -> Result<(), StoreError> {
    let Some(name) = partial.to_str() else {
        return Err(StoreError::Io { detail: format!("{}: SQLite takes only names of files that are UTF-8", to.display()) });
    };
    // Made first, so that nobody else can read what SQLite puts into it.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial).map_err(|error| io(partial, &error))?;
    conn.execute("VACUUM INTO ?1", [name]).map_err(|error| explain(&error, partial, 0))?;
    settle(partial, to)
}

/// Puts a copy in the place of a home's database, which must not be there; when this returns it is durable.
///
/// # Errors
/// The copy is damaged, not viat's, or from a newer one; or the home has a database.
pub(super) fn restore(from: &Path, home: &Home) -> Result<(), StoreError> {
    check(from)?;
    fs::create_dir_all(&home.dir).map_err(|error| io(&home.dir, &error))?;
    for file in [home.db.clone(), with_ending(&home.db, "-wal")] {
        refuse_if_there(&file)?;
    }
    let partial = beside(&home.db);
    let _ = fs::remove_file(&partial);
    let mut source = File::open(from).map_err(|error| io(from, &error))?;
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
    let copied = target.and_then(|mut target| std::io::copy(&mut source, &mut target));
    copied.map_err(|error| io(&partial, &error)).and_then(|_| settle(&partial, &home.db)).inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// Whether a file is a whole database of viat's that this code can read.
fn check(from: &Path) -> Result<(), StoreError> {
    fs::metadata(from).map_err(|error| io(from, &error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = || -> rusqlite::Result<(bool, i64, Option<String>)> {
        let conn = Connection::open_with_flags(from, flags)?;
        let empty: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        Ok((empty > 0 && schema::is_ours(&conn)?, schema::format(&conn)?, damage(&conn)?))
    };
    let path = from.display().to_string();
    let corrupt = |detail: String| Err(StoreError::Corrupt { path: path.clone(), detail });
    match look().map_err(|error| explain(&error, from, 0))? {
        (false, ..) => corrupt("it is no database of viat's".to_owned()),
        (_, found, _) if found > schema::FORMAT => Err(StoreError::NewerFormat { found, known: schema::FORMAT }),
        (.., Some(detail)) => corrupt(detail),
        _ => Ok(()),
    }
}

fn refuse_if_there(file: &Path) -> Result<(), StoreError> {
    if file.exists() { Err(StoreError::Exists { what: format!("the file {}", file.display()) }) } else { Ok(()) }
}

/// Makes a file durable and gives it its name.
fn settle(partial: &Path, name: &Path) -> Result<(), StoreError> {
    let synced = File::open(partial).and_then(|file| file.sync_all());
    synced.and_then(|()| fs::rename(partial, name)).map_err(|error| io(name, &error))?;
    sync_dir(name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

fn beside(file: &Path) -> PathBuf {
    with_ending(file, ".partial")
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
