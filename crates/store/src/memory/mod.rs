//! The memory backend: the same meaning without a disk, for tests and the simulator, with faults on demand.
//!
//! It has no thread: callbacks are called by whichever thread commits, one after the other, and a callback that commits
//! has its unit applied after it returned. With one thread everything is deterministic.

mod state;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viat_engine::journal::Millis;

use self::state::{Entry, State, missing};
use crate::{
    Asset, AssetInfo, AssetName, At, Done, EncodedBatch, Hash, KeyFilter, Lease, OpenRuns, OwnerId, Receipt, ReviewFilter, ReviewRow, RunFilter, RunId, RunRow,
    Store, StoreError, Unit,
};

#[derive(Default)]
struct Inner {
    state: State,
    waiting: VecDeque<(Unit, Done)>,
    /// Whether a thread is calling back; it will take what others queue meanwhile.
    draining: bool,
    held: bool,
    closed: bool,
    faults: VecDeque<StoreError>,
    alive: Arc<Mutex<BTreeSet<OwnerId>>>,
}

/// A store in memory.
#[derive(Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

/// Ends a life in the set of the living.
struct Alive {
    owner: OwnerId,
    all: Arc<Mutex<BTreeSet<OwnerId>>>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.owner);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next `count` units are answered with `error` and not applied.
    pub fn fail_next(&self, count: usize, error: &StoreError) {
        lock(&self.inner).faults.extend(std::iter::repeat_n(error.clone(), count));
    }

    /// Units are only queued from now on, as by a slow disk, until [`MemoryStore::resume`].
    pub fn hold(&self) {
        lock(&self.inner).held = true;
    }

    /// Applies and answers what was held.
    pub fn resume(&self) {
        lock(&self.inner).held = false;
        self.drain();
    }

    /// The process dies: what is not applied is lost and never answered, every lease ends, and this store is closed.
    ///
    /// The store that is returned has what was durable.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        let lost = std::mem::take(&mut inner.waiting);
        let state = std::mem::take(&mut inner.state);
        drop(inner);
        // Dropped after the lock is gone: what a callback holds may itself use the store when it goes.
        drop(lost);
        Self { inner: Mutex::new(Inner { state, ..Inner::default() }) }
    }

    fn drain(&self) {
        loop {
            let mut inner = lock(&self.inner);
            if inner.draining || inner.held {
                return;
            }
            let Some((unit, done)) = inner.waiting.pop_front() else { return };
            inner.draining = true;
            let answer = inner.answer(&unit);
            drop(inner);
            // Also when the callback panics, the next commit must drain again.
            let _turn = Turn(&self.inner);
            done(answer);
        }
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> Result<T, StoreError> {
        Ok(read(&lock(&self.inner).state))
    }
}

/// The right to call back, given up on drop.
struct Turn<'a>(&'a Mutex<Inner>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(self.0).draining = false;
    }
}

impl Inner {
    fn answer(&mut self, unit: &Unit) -> Result<Receipt, StoreError> {
        match self.faults.pop_front() {
            Some(fault) => Err(fault),
            None => self.state.apply(unit),
        }
    }
}

fn info(name: &AssetName, entry: &Entry) -> Option<AssetInfo> {
    Some(AssetInfo { name: name.clone(), version: entry.version?, revision: entry.revision, at: entry.at, hash: entry.hash, size: entry.body.len() as u64 })
}

impl Store for MemoryStore {
    fn commit(&self, unit: Unit, done: Done) {
        if let Err(error) = unit.check_size() {
            return done(Err(error));
        }
        let mut inner = lock(&self.inner);
        if inner.closed {
            drop(inner);
            return done(Err(StoreError::Closed));
        }
        inner.waiting.push_back((unit, done));
        drop(inner);
        self.drain();
    }

    fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.read(|state| state.runs.get(id).map(|run| run.row.clone()))
    }

    fn find_run(&self, prefix: &str, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.read(|state| state.runs.keys().filter(|id| id.as_str().starts_with(prefix)).take(limit).cloned().collect())
    }

    fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.read(|state| {
            let end = match &filter.before {
                Some(before) => state.order.iter().position(|id| id == before).unwrap_or(0),
                None => state.order.len(),
            };
            let matches = |row: &&RunRow| {
                filter.status.as_ref().is_none_or(|status| *status == row.summary.status)
                    && filter.workflow.as_ref().is_none_or(|workflow| *workflow == row.workflow)
                    && filter.error_class.as_ref().is_none_or(|class| Some(class) == row.summary.error_class.as_ref())
                    && filter.since.is_none_or(|since| row.created_at >= since)
                    && filter.until.is_none_or(|until| row.created_at < until)
            };
            let rows = state.order[..end].iter().rev().filter_map(|id| state.runs.get(id)).map(|run| &run.row);
            rows.filter(matches).take(filter.limit).cloned().collect()
        })
    }

    fn journal(&self, id: &RunId, from: u64) -> Result<Vec<EncodedBatch>, StoreError> {
        self.read(|state| {
            let run = state.runs.get(id).ok_or_else(|| missing(&format!("run {id}")))?;
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            Ok(run.journal.iter().skip(from).cloned().collect())
        })?
    }

    fn orphans(&self, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let inner = lock(&self.inner);
        let alive = lock(&inner.alive);
        let rows = inner.state.order.iter().filter_map(|id| inner.state.runs.get(id)).map(|run| &run.row);
        let orphaned = |row: &&RunRow| row.summary.ended_at.is_none() && row.owner.as_ref().is_none_or(|owner| !alive.contains(owner));
        Ok(rows.filter(orphaned).take(limit).cloned().collect())
    }

    fn runs_due(&self, owner: &OwnerId, now: Millis, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        self.read(|state| {
            let mut due: Vec<_> = state.unfinished_of(owner).filter(|row| row.summary.wake_at.is_some_and(|at| at <= now)).cloned().collect();
            due.sort_by_key(|row| row.summary.wake_at);
            due.truncate(limit);
            due
        })
    }

    fn next_wake(&self, owner: &OwnerId) -> Result<Option<Millis>, StoreError> {
        self.read(|state| state.unfinished_of(owner).filter_map(|row| row.summary.wake_at).min())
    }

    fn open_runs(&self, moments: &[Millis]) -> Result<Vec<OpenRuns>, StoreError> {
        self.read(|state| state.open_runs(moments))
    }

    fn review(&self, id: &str) -> Result<Option<ReviewRow>, StoreError> {
        self.read(|state| state.reviews.iter().find(|row| row.id == id).cloned())
    }

    fn reviews(&self, filter: &ReviewFilter) -> Result<Vec<ReviewRow>, StoreError> {
        self.read(|state| {
            let end = match &filter.before {
                Some(before) => state.reviews.iter().position(|row| row.id == *before).unwrap_or(0),
                None => state.reviews.len(),
            };
            let matches = |row: &&ReviewRow| {
                filter.status.as_ref().is_none_or(|status| *status == row.status)
                    && filter.run.as_ref().is_none_or(|run| *run == row.run)
                    && filter.assignee.as_ref().is_none_or(|assignee| row.assignees.contains(assignee))
            };
            state.reviews[..end].iter().rev().filter(matches).take(filter.limit).cloned().collect()
        })
    }

    fn asset(&self, name: &AssetName, at: At) -> Result<Option<Asset>, StoreError> {
        self.read(|state| {
            let history = state.assets.get(name)?;
            let entry = match at {
                At::Latest => history.last(),
                At::Version(version) => history.iter().find(|entry| entry.version == Some(version)),
                At::Revision(revision) => history.iter().rfind(|entry| entry.revision <= revision),
            }?;
            Some(Asset { info: info(name, entry)?, body: entry.body.clone() })
        })
    }

    fn assets(&self, kind: Option<&str>, revision: Option<u64>) -> Result<Vec<AssetInfo>, StoreError> {
        let revision = revision.unwrap_or(u64::MAX);
        self.read(|state| {
            let wanted = state.assets.iter().filter(|(name, _)| kind.is_none_or(|kind| kind == name.kind));
            wanted.filter_map(|(name, history)| info(name, history.iter().rfind(|entry| entry.revision <= revision)?)).collect()
        })
    }

    fn asset_versions(&self, name: &AssetName) -> Result<Vec<AssetInfo>, StoreError> {
        self.read(|state| state.assets.get(name).into_iter().flatten().filter_map(|entry| info(name, entry)).collect())
    }

    fn referrers(&self, name: &AssetName) -> Result<Vec<AssetName>, StoreError> {
        self.read(|state| state.referrers(name))
    }

    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn backup(&self, _to: &std::path::Path) -> Result<(), StoreError> {
        Err(StoreError::Io { detail: "what is kept in memory only has no copies".to_owned() })
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.read(|state| state.revision)
    }

    fn key(&self, space: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|state| state.keys.get(&(space.to_owned(), key.to_owned())).cloned())
    }

    fn keys(&self, filter: &KeyFilter) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read(|state| {
            let of_space = state.keys.iter().rev().filter(|((space, _), _)| *space == filter.space);
            let wanted = of_space.filter(|((_, key), _)| filter.before.as_ref().is_none_or(|before| key < before));
            wanted.take(filter.limit).map(|((_, key), value)| (key.clone(), value.clone())).collect()
        })
    }

    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.read(|state| state.blobs.get(hash).cloned())?;
        match found {
            Some(bytes) if Hash::of(&bytes) != *hash => {
                Err(StoreError::Corrupt { path: "memory".to_owned(), detail: format!("the bytes of blob {hash} have another hash") })
            }
            found => Ok(found.map(|bytes| bytes.to_vec())),
        }
    }

    fn lease(&self) -> Result<Lease, StoreError> {
        let owner = OwnerId::fresh();
        let all = Arc::clone(&lock(&self.inner).alive);
        lock(&all).insert(owner.clone());
        Ok(Lease::new(owner.clone(), Box::new(Alive { owner, all })))
    }

    fn is_alive(&self, owner: &OwnerId) -> Result<bool, StoreError> {
        Ok(lock(&lock(&self.inner).alive).contains(owner))
    }

    fn sweep_owners(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    fn close(&self) {
        lock(&self.inner).held = false;
        self.drain();
        lock(&self.inner).closed = true;
    }
}
