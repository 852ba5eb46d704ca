//! The home directory: made if need be, and the database in it opened with settings that were seen to take.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Access, FlockOperation, access, flock};

use super::fault::explain;
use super::schema;
use crate::StoreError;

/// Where things lie in a home.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub dir: PathBuf,
    pub db: PathBuf,
    pub owners: PathBuf,
    pub busy_timeout: Duration,
}

impl Home {
    pub fn new(dir: &Path, busy_timeout: Duration) -> Self {
        Self { dir: dir.to_owned(), db: dir.join("viat.db"), owners: dir.join("owners"), busy_timeout }
    }

    /// What an SQLite error means here.
    pub fn explain(&self, error: &rusqlite::Error) -> StoreError {
        explain(error, &self.db, u64::try_from(self.busy_timeout.as_millis()).unwrap_or(u64::MAX))
    }

    /// Opens the connection that writes, making the home if it is not there.
    pub fn open_writer(&self) -> Result<Connection, StoreError> {
        self.refuse_lost_database()?;
        make_dir(&self.owners)?;
        touch(&self.db)?;
        for path in [&self.dir, &self.owners, &self.db] {
            access(path, Access::WRITE_OK).map_err(|error| io(path, &error.into()))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = self.configure(Connection::open_with_flags(&self.db, flags))?;
        self.check_writable(&conn)?;
        self.check_format(&conn)?;
        if !self.is_ready(&conn).map_err(|error| self.explain(&error))? {
            self.prepare(&mut conn)?;
            // A newer viat may have been faster.
            self.check_format(&conn)?;
        }
        self.check_pragmas(&conn).map_err(|error| self.explain(&error))??;
        Ok(conn)
    }

    /// A home that was used has a database. One in its place that is new would lose what the write-ahead log still has.
    fn refuse_lost_database(&self) -> Result<(), StoreError> {
        let size = |path: &Path| fs::metadata(path).map(|found| found.len()).unwrap_or(0);
        let logs = fs::read_dir(self.dir.join("logs")).is_ok_and(|mut entries| entries.next().is_some());
        if size(&self.db) > 0 || (size(&self.dir.join("viat.db-wal")) == 0 && !logs) {
            return Ok(());
        }
        let detail = "it is missing or empty, although this home was used: restore it, or move the folder away to begin anew".to_owned();
        Err(StoreError::Corrupt { path: self.db.display().to_string(), detail })
    }

    /// Opens a connection that reads.
    pub fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        self.configure(Connection::open_with_flags(&self.db, flags))
    }

    fn configure(&self, opened: rusqlite::Result<Connection>) -> Result<Connection, StoreError> {
        let set = |conn: &mut Connection| {
            self.wait_at_most(conn, self.busy_timeout)?;
            conn.set_prepared_statement_cache_capacity(64);
            // The writer checkpoints after it has answered, not within a commit. Sorting needs no files.
            conn.execute_batch("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=67108864; PRAGMA temp_store=MEMORY")
        };
        opened.and_then(|mut conn| set(&mut conn).map(|()| conn)).map_err(|error| self.explain(&error))
    }

    /// Waits for other processes' locks in small steps: SQLite's own handler sleeps up to 0.1 s at a time, and a process
    /// that commits batch upon batch leaves only short gaps.
    pub fn wait_at_most(&self, conn: &mut Connection, limit: Duration) -> rusqlite::Result<()> {
        let mut since = Instant::now();
        conn.busy_handler(Some(move |attempt| {
            if attempt == 0 {
                since = Instant::now();
            }
            // Processes that started to wait together should not go on in step.
            let step = Duration::from_micros(100 + u64::from(since.elapsed().subsec_nanos()) % 150);
            thread::sleep(if attempt < 1_000 { step } else { step * 10 });
            since.elapsed() < limit
        }))
    }

    /// SQLite falls back to reading where it may not write; the store does not.
    fn check_writable(&self, conn: &Connection) -> Result<(), StoreError> {
        let read_only = conn.is_readonly("main").map_err(|error| self.explain(&error))?;
        if read_only { Err(self.read_only()) } else { Ok(()) }
    }

    fn read_only(&self) -> StoreError {
        StoreError::ReadOnly { path: self.dir.display().to_string() }
    }

    fn check_format(&self, conn: &Connection) -> Result<(), StoreError> {
        let check = || -> rusqlite::Result<Result<(), StoreError>> {
            if !schema::is_ours(conn)? {
                let (path, detail) = (self.db.display().to_string(), "it carries another program's mark".to_owned());
                return Ok(Err(StoreError::Corrupt { path, detail }));
            }
            let found = schema::format(conn)?;
            if found > schema::FORMAT {
                return Ok(Err(StoreError::NewerFormat { found, known: schema::FORMAT }));
            }
            Ok(Ok(()))
        };
        check().map_err(|error| self.explain(&error))?
    }

    fn is_ready(&self, conn: &Connection) -> rusqlite::Result<bool> {
        Ok(schema::format(conn)? == schema::FORMAT && journal_mode(conn)? == "wal")
    }

    /// Makes the database current. One process at a time, because two that switch to WAL at once deadlock into `Busy`.
    fn prepare(&self, conn: &mut Connection) -> Result<(), StoreError> {
        let turn = File::open(&self.dir).map_err(|error| io(&self.dir, &error))?;
        flock(&turn, FlockOperation::LockExclusive).map_err(|error| io(&self.dir, &error.into()))?;
        self.patiently(|| conn.execute_batch("PRAGMA journal_mode=WAL"))?;
        self.patiently(|| schema::migrate(conn))?;
        for dir in [Some(self.dir.as_path()), self.dir.parent().filter(|dir| !dir.as_os_str().is_empty())] {
            dir.map_or(Ok(()), sync_dir)?;
        }
        Ok(())
    }

    /// SQLite gives up at once, without its busy timeout, where waiting might deadlock; here it cannot.
    fn patiently(&self, mut work: impl FnMut() -> rusqlite::Result<()>) -> Result<(), StoreError> {
        let start = Instant::now();
        loop {
            match work().map_err(|error| self.explain(&error)) {
                Err(StoreError::Busy { .. }) if start.elapsed() < self.busy_timeout => thread::sleep(Duration::from_millis(5)),
                answer => return answer,
            }
        }
    }

    /// Durability rests on these two; a build or a file system on which they do not take must not be used.
    fn check_pragmas(&self, conn: &Connection) -> rusqlite::Result<Result<(), StoreError>> {
        let mode = journal_mode(conn)?;
        let synchronous: i64 = conn.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        if mode == "wal" && synchronous == 2 {
            return Ok(Ok(()));
        }
        let detail = format!(
            "{}: SQLite keeps journal_mode={mode}, synchronous={synchronous} where wal and 2 are needed; \
             put the home on a local file system",
            self.db.display()
        );
        Ok(Err(StoreError::Io { detail }))
    }
}

fn journal_mode(conn: &Connection) -> rusqlite::Result<String> {
    conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))
}

/// Says where and what an input/output error was.
pub(super) fn io(path: &Path, error: &std::io::Error) -> StoreError {
    let leads_nowhere = path.ancestors().any(|part| part.is_symlink() && !part.exists());
    let path = path.display().to_string();
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => StoreError::ReadOnly { path },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists if leads_nowhere => {
            StoreError::Io { detail: format!("{path}: a symbolic link on the way leads nowhere; mend it, or choose another home") }
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            StoreError::Io { detail: format!("{path}: a file is in the way of a directory; move it, or choose another home") }
        }
        _ => StoreError::Io { detail: format!("{path}: {error}") },
    }
}

fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| io(dir, &error))
}

/// SQLite would make the file readable by all; its companions inherit the mode of this one.
///
/// A file that is there is not opened: closing it again would drop the locks that another store of this process has on it.
fn touch(db: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(db) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(io(db, &error)),
        Err(_) if fs::metadata(db).is_ok_and(|meta| meta.is_dir()) => {
            Err(StoreError::Io { detail: format!("{}: a directory is in the way of the database; move it", db.display()) })
        }
        _ => Ok(()),
    }
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| io(dir, &error))
}
