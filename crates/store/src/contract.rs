//! The contract between the engine's shell and whatever remembers for it.

use std::path::Path;
use std::sync::mpsc;

use viat_engine::journal::Millis;

use crate::{
    Asset, AssetInfo, AssetName, At, EncodedBatch, Hash, KeyFilter, OpenRuns, OwnerId, Receipt, ReviewFilter, ReviewRow, RunFilter, RunId, RunRow, StoreError,
    Unit,
};

/// Called once, when a unit is durable or refused, on the store's own thread ([`Store::commit_here`] may call it on the
/// caller's): be brief, hand the news on.
pub type Done = Box<dyn FnOnce(Result<Receipt, StoreError>) + Send>;

/// Proof of life of an owner: while this value lives, [`Store::is_alive`] says yes, in every process.
///
/// The operating system ends it with the process, however the process ends.
pub struct Lease {
    owner: OwnerId,
    _proof: Box<dyn Send + Sync>,
}

impl Lease {
    /// A lease that lasts as long as `proof` is not dropped.
    pub fn new(owner: OwnerId, proof: Box<dyn Send + Sync>) -> Self {
        Self { owner, _proof: proof }
    }

    /// Whose life it proves; never used again by another.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }
}

/// A place that remembers runs, assets, keys and blobs. Shared as `Arc<dyn Store>`.
///
/// Units of one thread are applied in the order they were committed. A read sees everything whose callback was called.
pub trait Store: Send + Sync {
    /// Makes `unit` durable, all of it or nothing, and then calls `done` on the store's own thread.
    ///
    /// Blocks only while the queue is full, and never on the store's own thread, so a callback may commit again.
    fn commit(&self, unit: Unit, done: Done);

    /// As [`Store::commit`], waiting for the answer. Not to be called from a callback, where it could never be answered.
    fn commit_blocking(&self, unit: Unit) -> Result<Receipt, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.commit(
            unit,
            Box::new(move |answer| {
                // Nobody waits any more only if the waiting thread is gone; then nobody wants to know.
                let _ = sender.send(answer);
            }),
        );
        receiver.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// As [`Store::commit`], from a thread that has nothing better to do meanwhile: where nobody else's units wait, the store
    /// may do the work on it, which spares waking another thread and being woken again. Then `done` is called on the calling
    /// thread, before this returns.
    fn commit_here(&self, unit: Unit, done: Done) {
        self.commit(unit, done);
    }

    /// The run's row.
    fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError>;

    /// The ids that begin with `prefix`, at most `limit`, in the order of ids. Two are enough to know it is ambiguous.
    fn find_run(&self, prefix: &str, limit: usize) -> Result<Vec<RunId>, StoreError>;

    /// Rows, newest first.
    fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError>;

    /// The run's batches from number `from` (0 is the first) on; `Missing` if there is no such run.
    fn journal(&self, id: &RunId, from: u64) -> Result<Vec<EncodedBatch>, StoreError>;

    /// Unfinished runs whose owner is dead or that have none, oldest first, at most `limit`.
    fn orphans(&self, limit: usize) -> Result<Vec<RunRow>, StoreError>;

    /// Unfinished runs of `owner` whose wake-up time has come, earliest first, at most `limit`.
    fn runs_due(&self, owner: &OwnerId, now: Millis, limit: usize) -> Result<Vec<RunRow>, StoreError>;

    /// The earliest wake-up time of `owner`'s unfinished runs.
    fn next_wake(&self, owner: &OwnerId) -> Result<Option<Millis>, StoreError>;

    /// The unfinished runs, counted by workflow and status and sorted by both; for each of `moments`, how many have had their
    /// status since then. Reads rows, never journals.
    fn open_runs(&self, moments: &[Millis]) -> Result<Vec<OpenRuns>, StoreError>;

    /// A review's row.
    fn review(&self, id: &str) -> Result<Option<ReviewRow>, StoreError>;

    /// Reviews, newest first.
    fn reviews(&self, filter: &ReviewFilter) -> Result<Vec<ReviewRow>, StoreError>;

    /// One version of an asset, with its body.
    fn asset(&self, name: &AssetName, at: At) -> Result<Option<Asset>, StoreError>;

    /// The assets (of one kind, or all) that live at a revision (`None`: now), sorted by kind and name.
    fn assets(&self, kind: Option<&str>, revision: Option<u64>) -> Result<Vec<AssetInfo>, StoreError>;

    /// Every version ever, oldest first, those from before a deletion too.
    fn asset_versions(&self, name: &AssetName) -> Result<Vec<AssetInfo>, StoreError>;

    /// The live assets that refer to this one, sorted.
    fn referrers(&self, name: &AssetName) -> Result<Vec<AssetName>, StoreError>;

    /// The newest catalogue revision; 0 before the first asset.
    fn revision(&self) -> Result<u64, StoreError>;

    /// The value of a claimed key.
    fn key(&self, space: &str, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The keys of a space with their values, the greatest key first: keys that begin with a time are listed newest first.
    fn keys(&self, filter: &KeyFilter) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// A blob's bytes, checked against their hash.
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError>;

    /// Begins to own: a new identity, alive until the lease is dropped or the process is gone.
    fn lease(&self) -> Result<Lease, StoreError>;

    /// Whether the owner's process still lives. Once it said no it will always say no.
    fn is_alive(&self, owner: &OwnerId) -> Result<bool, StoreError>;

    /// Clears what dead owners without unfinished runs left behind; says how many they were.
    fn sweep_owners(&self) -> Result<usize, StoreError>;

    /// Whether what is stored is whole, as far as that can be told without understanding it; reads all of it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] says what is damaged.
    fn check(&self) -> Result<(), StoreError>;

    /// Writes a consistent copy of everything into a new file; when this returns it is durable. Writers are not kept waiting.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the file is there; what the disk says; a store without a disk has no copies.
    fn backup(&self, to: &Path) -> Result<(), StoreError>;

    /// Finishes what is queued and refuses everything after it. Dropping the store does the same.
    fn close(&self);
}
