//! The SQLite backend: a home directory that several processes may share, one writer thread in each.

mod apply;
mod assets;
mod copies;
mod fault;
mod home;
mod known;
mod owners;
mod pool;
mod queue;
mod reviews;
mod runs;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::OptionalExtension;
use viat_engine::journal::Millis;

use self::home::{Home, io};
use self::owners::Owners;
use self::pool::Pool;
use self::queue::{Bounds, Queue};
use self::writer::{Desk, Writer};
use crate::{
    Asset, AssetInfo, AssetName, At, Done, EncodedBatch, Hash, KeyFilter, Lease, OpenRuns, OwnerId, Receipt, ReviewFilter, ReviewRow, RunFilter, RunId, RunRow,
    Store, StoreError, Unit,
};

/// How a store waits and batches. The defaults are right unless a test wants to see the limits.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long to wait for another process's lock.
    pub busy_timeout: Duration,
    /// Units that may wait; then `commit` blocks.
    pub queued_units: usize,
    /// Bytes that may wait; then `commit` blocks.
    pub queued_bytes: usize,
    /// Units in one transaction.
    pub batch_units: usize,
    /// Bytes in one transaction, unless a single unit has more.
    pub batch_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(10), queued_units: 10_000, queued_bytes: 64 << 20, batch_units: 512, batch_bytes: 8 << 20 }
    }
}

/// A store in a home directory.
pub struct SqliteStore {
    home: Home,
    owners: Owners,
    pool: Pool,
    queue: Arc<Queue>,
    desk: Arc<Desk>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens the home, making it if it is not there.
    pub fn open(home: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(home, Options::default())
    }

    /// As [`SqliteStore::open`], with other limits.
    pub fn open_with(home: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let home = Home::new(home.as_ref(), options.busy_timeout);
        let conn = home.open_writer()?;
        let queue = Arc::new(Queue::new(Bounds {
            queued_units: options.queued_units,
            queued_bytes: options.queued_bytes,
            batch_units: options.batch_units,
            batch_bytes: options.batch_bytes,
        }));
        let writer = Writer::new(conn, home.clone()).map_err(|error| home.explain(&error))?;
        let desk = Arc::new(Desk::new(Some(writer)));
        let (at, from) = (Arc::clone(&desk), Arc::clone(&queue));
        let thread = thread::Builder::new().name("viat-store".to_owned()).spawn(move || writer::run(&at, &from)).map_err(|error| io(&home.db, &error))?;
        let owners = Owners::new(home.owners.clone());
        Ok(Self { pool: Pool::new(home.clone()), home, owners, queue, desk, writer: Mutex::new(Some(thread)) })
    }

    /// Puts a copy that [`Store::backup`] made in the place of a home's database; when this returns it is durable.
    ///
    /// # Errors
    /// The copy is damaged, not viat's, or from a newer one; or the home has a database already.
    pub fn restore(from: &Path, home: &Path) -> Result<(), StoreError> {
        copies::restore(from, &Home::new(home, Options::default().busy_timeout))
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.home.dir.clone()
    }

    fn io(&self, error: &std::io::Error) -> StoreError {
        io(&self.home.owners, error)
    }
}

/// What is wrong with a database, if something is; reads all of it.
fn damage(conn: &rusqlite::Connection) -> rusqlite::Result<Option<String>> {
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(Some(found).filter(|found| found != "ok"))
}

impl Store for SqliteStore {
    fn commit(&self, unit: Unit, done: Done) {
        match unit.check_size() {
            Ok(()) => self.queue.push(unit, done),
            Err(error) => done(Err(error)),
        }
    }

    fn commit_here(&self, unit: Unit, done: Done) {
        if let Err(error) = unit.check_size() {
            return done(Err(error));
        }
        // The turn is given back before the callback, which may commit again or close the store.
        match writer::write_here(&self.desk, &self.queue, &unit) {
            Some(answer) => done(answer),
            None => self.queue.push(unit, done),
        }
    }

    fn commit_blocking(&self, unit: Unit) -> Result<Receipt, StoreError> {
        if self.queue.on_writer() {
            let detail = "a callback of the store waits for the store; commit with a callback there".to_owned();
            return Err(StoreError::Io { detail });
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.commit(unit, Box::new(move |answer| drop(sender.send(answer))));
        receiver.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.pool.read(|conn| runs::get(conn, id))
    }

    fn find_run(&self, prefix: &str, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.pool.read(|conn| runs::find(conn, prefix, limit))
    }

    fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.pool.read(|conn| runs::list(conn, filter))
    }

    fn journal(&self, id: &RunId, from: u64) -> Result<Vec<EncodedBatch>, StoreError> {
        // Two statements without a transaction: a run's key never changes.
        let found = self.pool.read(|conn| runs::key(conn, id)?.map(|key| runs::journal(conn, key, from)).transpose())?;
        found.ok_or_else(|| apply::missing(&format!("run {id}")))
    }

    fn orphans(&self, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let mut found = Vec::new();
        for owner in self.pool.read(runs::owners)? {
            if owner.as_ref().map_or(Ok(false), |owner| self.is_alive(owner))? {
                continue;
            }
            found.extend(self.pool.read(|conn| runs::unfinished(conn, owner.as_ref(), limit - found.len()))?);
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    fn runs_due(&self, owner: &OwnerId, now: Millis, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        self.pool.read(|conn| runs::due(conn, owner, now, limit))
    }

    fn next_wake(&self, owner: &OwnerId) -> Result<Option<Millis>, StoreError> {
        self.pool.read(|conn| runs::next_wake(conn, owner))
    }

    fn open_runs(&self, moments: &[Millis]) -> Result<Vec<OpenRuns>, StoreError> {
        self.pool.read(|conn| runs::open(conn, moments))
    }

    fn review(&self, id: &str) -> Result<Option<ReviewRow>, StoreError> {
        self.pool.read(|conn| reviews::get(conn, id))
    }

    fn reviews(&self, filter: &ReviewFilter) -> Result<Vec<ReviewRow>, StoreError> {
        self.pool.read(|conn| reviews::list(conn, filter))
    }

    fn asset(&self, name: &AssetName, at: At) -> Result<Option<Asset>, StoreError> {
        self.pool.read(|conn| assets::get(conn, name, at))
    }

    fn assets(&self, kind: Option<&str>, revision: Option<u64>) -> Result<Vec<AssetInfo>, StoreError> {
        self.pool.read(|conn| assets::list(conn, kind, revision))
    }

    fn asset_versions(&self, name: &AssetName) -> Result<Vec<AssetInfo>, StoreError> {
        self.pool.read(|conn| assets::versions(conn, name))
    }

    fn referrers(&self, name: &AssetName) -> Result<Vec<AssetName>, StoreError> {
        self.pool.read(|conn| assets::referrers(conn, name))
    }

    fn check(&self) -> Result<(), StoreError> {
        let path = self.home.db.display().to_string();
        self.pool.read(damage)?.map_or(Ok(()), |detail| Err(StoreError::Corrupt { path, detail }))
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.pool.read(|conn| Ok(copies::backup(conn, to)))?
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.pool.read(assets::revision)
    }

    fn key(&self, space: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.pool.read(|conn| apply::key_value(conn, space, key))
    }

    fn keys(&self, filter: &KeyFilter) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.pool.read(|conn| apply::keys(conn, filter))
    }

    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let found: Option<Vec<u8>> = self.pool.read(|conn| {
            conn.prepare_cached("SELECT bytes FROM blobs WHERE hash = ?1")?.query_row([hash.as_bytes().as_slice()], |row| row.get(0)).optional()
        })?;
        if found.as_ref().is_some_and(|bytes| Hash::of(bytes) != *hash) {
            let (path, detail) = (self.home.db.display().to_string(), format!("the bytes of blob {hash} have another hash"));
            return Err(StoreError::Corrupt { path, detail });
        }
        Ok(found)
    }

    fn lease(&self) -> Result<Lease, StoreError> {
        let (owner, file) = self.owners.lease().map_err(|error| self.io(&error))?;
        Ok(Lease::new(owner, Box::new(file)))
    }

    fn is_alive(&self, owner: &OwnerId) -> Result<bool, StoreError> {
        self.owners.is_alive(owner).map_err(|error| self.io(&error))
    }

    fn sweep_owners(&self) -> Result<usize, StoreError> {
        let with_runs = self.pool.read(runs::owners)?;
        self.owners.sweep(|owner| with_runs.iter().flatten().any(|with_runs| with_runs == owner)).map_err(|error| self.io(&error))
    }

    fn close(&self) {
        self.queue.close();
        // The last handle may be dropped by a callback: the writer cannot wait for itself.
        if !self.queue.on_writer() {
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The writer does not panic; if it did, its farewell has answered everybody.
            let _ = writer.map(JoinHandle::join);
            self.pool.clear();
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}
