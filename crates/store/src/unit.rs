//! The one kind of write: an atomic unit of operations, and what comes back.

use std::sync::Arc;

use viat_engine::journal::Millis;

use crate::{AssetName, Hash, OwnerId, ReviewRow, RunId, RunRow, StoreError, Summary};

/// The most bytes that one unit may carry.
pub(crate) const MAX_UNIT_BYTES: usize = 256 << 20;

/// A batch of events, serialised by the thread that made it: by [`crate::big::encode`], to be read by [`crate::big::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBatch {
    /// The serialised batch; the store does not look into it.
    pub body: Vec<u8>,
    /// How many events it holds.
    pub events: u32,
}

/// Operations that become durable together or not at all, if the preconditions hold at that moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Checked first, against what was there before the unit.
    pub guard: Vec<Precondition>,
    /// Applied in order; each sees what the ones before it did.
    pub ops: Vec<Op>,
}

/// What must be true for a unit to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The asset exists and is not deleted, else [`StoreError::Missing`].
    AssetLive(AssetName),
    /// The asset does not exist or is deleted, else [`StoreError::Exists`].
    AssetAbsent(AssetName),
    /// The asset's newest version is this one and lives, else [`StoreError::Conflict`] (or `Missing`).
    AssetVersion(AssetName, u64),
    /// Nothing was put or deleted since this catalogue revision, else [`StoreError::Conflict`].
    Revision(u64),
    /// The key has this value, else [`StoreError::Missing`] or [`StoreError::KeyTaken`].
    KeyIs {
        /// The key's space.
        space: String,
        /// The key.
        key: String,
        /// What it must be.
        value: Vec<u8>,
    },
}

/// One operation of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new run with its first batch; [`StoreError::Exists`] if the id is taken.
    CreateRun {
        /// What lists show.
        row: RunRow,
        /// Batch number 0.
        first: EncodedBatch,
    },
    /// The run's next batch.
    Append {
        /// Which run.
        run: RunId,
        /// How many batches the caller knows; [`StoreError::Conflict`] if there are more or fewer.
        expected: u64,
        /// What is added.
        batch: EncodedBatch,
        /// What lists show from now on; `None` if it has not changed.
        summary: Option<Summary>,
        /// The caller; [`StoreError::Fenced`] unless it owns the run.
        fence: OwnerId,
    },
    /// Changes the run's owner from the one that the caller expects; else [`StoreError::Fenced`].
    ClaimRun {
        /// Which run.
        run: RunId,
        /// A dead owner, or `None` for a run that nobody owns.
        from: Option<OwnerId>,
        /// The new owner.
        to: OwnerId,
    },
    /// Takes over every unfinished run of `from` that has this status, all at once; [`Outcome::Taken`] says how many.
    ///
    /// The caller vouches that `from` is dead.
    ClaimRuns {
        /// The dead owner.
        from: OwnerId,
        /// The new owner.
        to: OwnerId,
        /// Only runs with this status.
        status: String,
    },
    /// Leaves the run without an owner; [`StoreError::Fenced`] unless `owner` has it.
    ReleaseRun {
        /// Which run.
        run: RunId,
        /// Who gives it up.
        owner: OwnerId,
    },
    /// Takes a unique key; [`StoreError::KeyTaken`], with the stored value, if it is taken.
    ClaimKey {
        /// What sort of key, so that sorts do not collide.
        space: String,
        /// The key.
        key: String,
        /// What the next one to claim it is told.
        value: Vec<u8>,
    },
    /// Gives a key a value, whatever it had before.
    SetKey {
        /// The key's space.
        space: String,
        /// The key.
        key: String,
        /// Its value from now on.
        value: Vec<u8>,
    },
    /// Frees a key; no error if it is free.
    DropKey {
        /// The key's space.
        space: String,
        /// The key.
        key: String,
    },
    /// Keeps how a review stands: new, or in place of what was known of it. It stays where it was in the order of reviews.
    ///
    /// Whoever writes it does so in the unit that appends to its run, whose fence then holds for both.
    PutReview(ReviewRow),
    /// Keeps bytes under their hash; idempotent. The caller vouches for the hash, reading checks it.
    PutBlob {
        /// BLAKE3 of the bytes.
        hash: Hash,
        /// The bytes; shared, because a unit is kept to be tried again.
        bytes: Arc<[u8]>,
    },
    /// A new immutable version of an asset, at a new catalogue revision.
    PutAsset {
        /// Its name.
        name: AssetName,
        /// Its content.
        body: Vec<u8>,
        /// The content's hash, for comparing versions.
        hash: Hash,
        /// The assets that this version needs: they cannot be deleted while it refers to them.
        refs: Vec<AssetName>,
        /// When.
        at: Millis,
    },
    /// Deletes an asset at a new catalogue revision; older revisions still have it.
    ///
    /// [`StoreError::Missing`] if it does not live, [`StoreError::Referenced`] if a live asset refers to it.
    DeleteAsset {
        /// Its name.
        name: AssetName,
        /// When.
        at: Millis,
    },
    /// Empties the bodies of an asset's versions below a number, for good; numbers, times and hashes stay, and it need not live.
    ///
    /// [`StoreError::Missing`] if there never was such an asset.
    EraseAsset {
        /// Its name.
        name: AssetName,
        /// The first version that is kept.
        below: u64,
    },
    /// Replaces what one version of a live asset refers to, for instance with nothing when the version is out of use.
    SetRefs {
        /// The asset that refers.
        from: AssetName,
        /// Its version.
        version: u64,
        /// What it refers to.
        to: Vec<AssetName>,
    },
}

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to tell.
    Done,
    /// The run's journal has so many batches now.
    Appended {
        /// The next `expected`.
        batches: u64,
    },
    /// So many runs have a new owner.
    Taken {
        /// How many.
        runs: u64,
    },
    /// The asset has this version now.
    AssetPut {
        /// The new version.
        version: u64,
        /// The new catalogue revision.
        revision: u64,
    },
    /// The asset is deleted from this revision on.
    AssetDeleted {
        /// The new catalogue revision.
        revision: u64,
    },
}

/// A durable unit's outcomes, one for each operation, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// In the order of the unit's operations.
    pub outcomes: Vec<Outcome>,
}

impl From<Op> for Unit {
    fn from(op: Op) -> Self {
        Self { guard: Vec::new(), ops: vec![op] }
    }
}

impl From<Vec<Op>> for Unit {
    fn from(ops: Vec<Op>) -> Self {
        Self { guard: Vec::new(), ops }
    }
}

impl Unit {
    /// The same with one more precondition.
    #[must_use]
    pub fn guarded(mut self, precondition: Precondition) -> Self {
        self.guard.push(precondition);
        self
    }

    /// About how many bytes it takes in the queue and on disk.
    pub(crate) fn weight(&self) -> usize {
        self.ops.iter().map(|op| 128 + op.payload()).sum()
    }

    /// Refuses what no backend could store.
    pub(crate) fn check_size(&self) -> Result<(), StoreError> {
        let bytes = self.weight();
        if bytes > MAX_UNIT_BYTES {
            return Err(StoreError::TooBig { bytes: bytes as u64, limit: MAX_UNIT_BYTES as u64 });
        }
        Ok(())
    }
}

impl Op {
    fn payload(&self) -> usize {
        match self {
            Op::CreateRun { first, .. } => first.body.len(),
            Op::Append { batch, .. } => batch.body.len(),
            Op::ClaimKey { value, .. } | Op::SetKey { value, .. } => value.len(),
            Op::PutReview(row) => {
                let comment = row.comment.as_ref().map_or(0, String::len);
                row.title.len() + row.path.len() + comment + row.assignees.iter().map(|each| each.len() + 4).sum::<usize>()
            }
            Op::PutBlob { bytes, .. } => bytes.len(),
            Op::PutAsset { body, refs, .. } => body.len() + refs.len() * 64,
            Op::SetRefs { to, .. } => to.len() * 64,
            Op::ClaimRun { .. } | Op::ClaimRuns { .. } | Op::ReleaseRun { .. } | Op::DropKey { .. } | Op::DeleteAsset { .. } | Op::EraseAsset { .. } => 0,
        }
    }
}
