//! What the memory backend remembers, and how a unit changes it or leaves it alone.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use viat_engine::journal::Millis;

use crate::{AssetName, EncodedBatch, Hash, Op, OpenRuns, Outcome, OwnerId, Precondition, Receipt, ReviewRow, RunId, RunRow, StoreError, Summary, Unit};

/// A run with its journal.
#[derive(Clone)]
pub(super) struct Run {
    pub row: RunRow,
    pub journal: Vec<EncodedBatch>,
}

/// One entry of an asset's history; without a version it is a tombstone.
#[derive(Clone)]
pub(super) struct Entry {
    pub revision: u64,
    pub version: Option<u64>,
    pub at: Millis,
    pub hash: Hash,
    pub body: Vec<u8>,
}

/// Everything.
#[derive(Clone, Default)]
pub(super) struct State {
    /// In the order of creation.
    pub order: Vec<RunId>,
    pub runs: BTreeMap<RunId, Run>,
    /// In the order of creation.
    pub reviews: Vec<ReviewRow>,
    pub assets: BTreeMap<AssetName, Vec<Entry>>,
    /// (the referring asset, its version) → what it refers to.
    pub refs: BTreeMap<(AssetName, u64), BTreeSet<AssetName>>,
    pub keys: BTreeMap<(String, String), Vec<u8>>,
    pub blobs: BTreeMap<Hash, Arc<[u8]>>,
    pub revision: u64,
}

/// How to take one change back.
type Undo = Box<dyn FnOnce(&mut State)>;

impl State {
    /// Applies `unit` whole or not at all.
    pub fn apply(&mut self, unit: &Unit) -> Result<Receipt, StoreError> {
        unit.guard.iter().try_for_each(|precondition| self.check(precondition))?;
        let mut undo: Vec<Undo> = Vec::new();
        let mut receipt = Receipt::default();
        for op in &unit.ops {
            match self.op(op, &mut undo) {
                Ok(outcome) => receipt.outcomes.push(outcome),
                Err(error) => {
                    undo.into_iter().rev().for_each(|back| back(self));
                    return Err(error);
                }
            }
        }
        Ok(receipt)
    }

    /// The newest version, if the asset lives.
    pub fn live_version(&self, name: &AssetName) -> Option<u64> {
        self.assets.get(name)?.last()?.version
    }

    /// The live assets that refer to this one.
    pub fn referrers(&self, name: &AssetName) -> Vec<AssetName> {
        let holders: BTreeSet<_> = self.refs.iter().filter(|(_, to)| to.contains(name)).map(|((from, _), _)| from.clone()).collect();
        holders.into_iter().collect()
    }

    /// The rows of an owner's unfinished runs, oldest first.
    pub fn unfinished_of(&self, owner: &OwnerId) -> impl Iterator<Item = &RunRow> {
        let rows = self.order.iter().filter_map(|id| self.runs.get(id)).map(|run| &run.row);
        rows.filter(move |row| row.owner.as_ref() == Some(owner) && row.summary.ended_at.is_none())
    }

    /// The unfinished runs, counted.
    pub fn open_runs(&self, moments: &[Millis]) -> Vec<OpenRuns> {
        let mut counted: BTreeMap<(&str, &str), (u64, Vec<u64>)> = BTreeMap::new();
        for row in self.runs.values().map(|run| &run.row).filter(|row| row.summary.ended_at.is_none()) {
            let (count, since) = counted.entry((&row.workflow, &row.summary.status)).or_insert_with(|| (0, vec![0; moments.len()]));
            *count += 1;
            for (sum, moment) in since.iter_mut().zip(moments) {
                *sum += u64::from(row.summary.status_since.unwrap_or(row.created_at) <= *moment);
            }
        }
        let open =
            |((workflow, status), (count, since)): ((&str, &str), _)| OpenRuns { workflow: workflow.to_owned(), status: status.to_owned(), count, since };
        counted.into_iter().map(open).collect()
    }

    fn check(&self, precondition: &Precondition) -> Result<(), StoreError> {
        match precondition {
            Precondition::AssetLive(name) => self.live_version(name).map(|_| ()).ok_or_else(|| missing(name)),
            Precondition::AssetAbsent(name) if self.live_version(name).is_some() => Err(StoreError::Exists { what: name.to_string() }),
            Precondition::AssetAbsent(_) => Ok(()),
            Precondition::AssetVersion(name, expected) => agree(name, *expected, self.live_version(name).ok_or_else(|| missing(name))?),
            Precondition::Revision(expected) => agree(&"the catalogue", *expected, self.revision),
            Precondition::KeyIs { space, key, value } => match self.keys.get(&(space.clone(), key.clone())) {
                Some(actual) if actual == value => Ok(()),
                Some(actual) => Err(taken(space, key, actual)),
                None => Err(missing(&format!("{space} key `{key}`"))),
            },
        }
    }

    fn op(&mut self, op: &Op, undo: &mut Vec<Undo>) -> Result<Outcome, StoreError> {
        match op {
            Op::CreateRun { row, first } => self.create_run(row, first, undo),
            Op::Append { run, expected, batch, summary, fence } => self.append(run, *expected, batch, summary.as_ref(), fence, undo),
            Op::ClaimRun { run, from, to } => self.set_owner(run, from.as_ref(), Some(to), undo),
            Op::ClaimRuns { from, to, status } => self.claim_runs(from, to, status, undo),
            Op::ReleaseRun { run, owner } => self.set_owner(run, Some(owner), None, undo),
            Op::ClaimKey { space, key, value } => {
                let name = (space.clone(), key.clone());
                if let Some(actual) = self.keys.get(&name) {
                    return Err(taken(space, key, actual));
                }
                self.keys.insert(name.clone(), value.clone());
                undo.push(Box::new(move |state| drop(state.keys.remove(&name))));
                Ok(Outcome::Done)
            }
            Op::SetKey { space, key, value } => {
                let name = (space.clone(), key.clone());
                let before = self.keys.insert(name.clone(), value.clone());
                undo.push(Box::new(move |state| {
                    match before {
                        Some(value) => state.keys.insert(name, value),
                        None => state.keys.remove(&name),
                    };
                }));
                Ok(Outcome::Done)
            }
            Op::DropKey { space, key } => {
                if let Some((name, value)) = self.keys.remove_entry(&(space.clone(), key.clone())) {
                    undo.push(Box::new(move |state| drop(state.keys.insert(name, value))));
                }
                Ok(Outcome::Done)
            }
            Op::PutReview(row) => {
                self.put_review(row, undo);
                Ok(Outcome::Done)
            }
            Op::PutBlob { hash, bytes } => {
                let hash = *hash;
                if let btree_map::Entry::Vacant(place) = self.blobs.entry(hash) {
                    place.insert(Arc::clone(bytes));
                    undo.push(Box::new(move |state| drop(state.blobs.remove(&hash))));
                }
                Ok(Outcome::Done)
            }
            Op::PutAsset { name, body, hash, refs, at } => Ok(self.put_asset(name, body, *hash, refs, *at, undo)),
            Op::DeleteAsset { name, at } => self.delete_asset(name, *at, undo),
            Op::EraseAsset { name, below } => self.erase_asset(name, *below, undo),
            Op::SetRefs { from, version, to } => {
                let newest = self.live_version(from).ok_or_else(|| missing(from))?;
                if *version == 0 || *version > newest {
                    return Err(missing(&format!("version {version} of {from}")));
                }
                self.replace_refs(from, *version, to, undo);
                Ok(Outcome::Done)
            }
        }
    }

    fn create_run(&mut self, row: &RunRow, first: &EncodedBatch, undo: &mut Vec<Undo>) -> Result<Outcome, StoreError> {
        let id = row.id.clone();
        if self.runs.contains_key(&id) {
            return Err(StoreError::Exists { what: format!("run {id}") });
        }
        self.runs.insert(id.clone(), Run { row: row.clone(), journal: vec![first.clone()] });
        self.order.push(id.clone());
        undo.push(Box::new(move |state| {
            state.runs.remove(&id);
            state.order.pop();
        }));
        Ok(Outcome::Appended { batches: 1 })
    }

    fn append(
        &mut self,
        id: &RunId,
        expected: u64,
        batch: &EncodedBatch,
        summary: Option<&Summary>,
        fence: &OwnerId,
        undo: &mut Vec<Undo>,
    ) -> Result<Outcome, StoreError> {
        let run = self.runs.get_mut(id).ok_or_else(|| missing(&format!("run {id}")))?;
        fenced(&run.row, Some(fence))?;
        agree(&format!("run {id}"), expected, run.journal.len() as u64)?;
        run.journal.push(batch.clone());
        let before = summary.map(|summary| std::mem::replace(&mut run.row.summary, summary.clone()));
        let id = id.clone();
        undo.push(Box::new(move |state| {
            if let Some(run) = state.runs.get_mut(&id) {
                run.journal.pop();
                if let Some(before) = before {
                    run.row.summary = before;
                }
            }
        }));
        Ok(Outcome::Appended { batches: expected + 1 })
    }

    fn set_owner(&mut self, id: &RunId, from: Option<&OwnerId>, to: Option<&OwnerId>, undo: &mut Vec<Undo>) -> Result<Outcome, StoreError> {
        let run = self.runs.get_mut(id).ok_or_else(|| missing(&format!("run {id}")))?;
        fenced(&run.row, from)?;
        let before = std::mem::replace(&mut run.row.owner, to.cloned());
        let id = id.clone();
        undo.push(Box::new(move |state| {
            if let Some(run) = state.runs.get_mut(&id) {
                run.row.owner = before;
            }
        }));
        Ok(Outcome::Done)
    }

    fn claim_runs(&mut self, from: &OwnerId, to: &OwnerId, status: &str, undo: &mut Vec<Undo>) -> Result<Outcome, StoreError> {
        let mine: Vec<RunId> = self.unfinished_of(from).filter(|row| row.summary.status == status).map(|row| row.id.clone()).collect();
        for id in &mine {
            self.set_owner(id, Some(from), Some(to), undo)?;
        }
        Ok(Outcome::Taken { runs: mine.len() as u64 })
    }

    fn put_review(&mut self, row: &ReviewRow, undo: &mut Vec<Undo>) {
        match self.reviews.iter_mut().find(|known| known.id == row.id) {
            Some(known) => {
                let before = std::mem::replace(known, row.clone());
                undo.push(Box::new(move |state| {
                    if let Some(known) = state.reviews.iter_mut().find(|known| known.id == before.id) {
                        *known = before;
                    }
                }));
            }
            None => {
                self.reviews.push(row.clone());
                undo.push(Box::new(|state| drop(state.reviews.pop())));
            }
        }
    }

    fn put_asset(&mut self, name: &AssetName, body: &[u8], hash: Hash, refs: &[AssetName], at: Millis, undo: &mut Vec<Undo>) -> Outcome {
        let newest = self.assets.get(name).and_then(|history| history.iter().filter_map(|entry| entry.version).max());
        let version = newest.unwrap_or(0) + 1;
        let revision = self.record(name, Entry { revision: 0, version: Some(version), at, hash, body: body.to_vec() }, undo);
        self.replace_refs(name, version, refs, undo);
        Outcome::AssetPut { version, revision }
    }

    fn delete_asset(&mut self, name: &AssetName, at: Millis, undo: &mut Vec<Undo>) -> Result<Outcome, StoreError> {
        let newest = self.live_version(name).ok_or_else(|| missing(name))?;
        let by: Vec<_> = self.referrers(name).into_iter().filter(|holder| holder != name).collect();
        if !by.is_empty() {
            return Err(StoreError::Referenced { asset: name.clone(), by });
        }
        let revision = self.record(name, Entry { revision: 0, version: None, at, hash: Hash::of(b""), body: Vec::new() }, undo);
        for version in 1..=newest {
            self.replace_refs(name, version, &[], undo);
        }
        Ok(Outcome::AssetDeleted { revision })
    }

    fn erase_asset(&mut self, name: &AssetName, below: u64, undo: &mut Vec<Undo>) -> Result<Outcome, StoreError> {
        let history = self.assets.get_mut(name).filter(|history| !history.is_empty()).ok_or_else(|| missing(name))?;
        let mut before = Vec::new();
        for entry in history.iter_mut().filter(|entry| entry.version.is_some_and(|version| version < below)) {
            before.push((entry.revision, std::mem::take(&mut entry.body)));
        }
        let name = name.clone();
        undo.push(Box::new(move |state| {
            let entries = state.assets.get_mut(&name).into_iter().flatten();
            for entry in entries {
                if let Some((_, body)) = before.iter_mut().find(|(revision, _)| *revision == entry.revision) {
                    entry.body = std::mem::take(body);
                }
            }
        }));
        Ok(Outcome::Done)
    }

    /// Adds to an asset's history at the next revision.
    fn record(&mut self, name: &AssetName, entry: Entry, undo: &mut Vec<Undo>) -> u64 {
        self.revision += 1;
        let revision = self.revision;
        self.assets.entry(name.clone()).or_default().push(Entry { revision, ..entry });
        let name = name.clone();
        undo.push(Box::new(move |state| {
            state.revision -= 1;
            state.assets.entry(name).or_default().pop();
        }));
        revision
    }

    fn replace_refs(&mut self, from: &AssetName, version: u64, to: &[AssetName], undo: &mut Vec<Undo>) {
        let key = (from.clone(), version);
        let before = self.refs.remove(&key);
        if !to.is_empty() {
            self.refs.insert(key.clone(), to.iter().cloned().collect());
        }
        undo.push(Box::new(move |state| {
            state.refs.remove(&key);
            if let Some(before) = before {
                state.refs.insert(key, before);
            }
        }));
    }
}

pub(super) fn missing(what: &dyn ToString) -> StoreError {
    StoreError::Missing { what: what.to_string() }
}

fn taken(space: &str, key: &str, value: &[u8]) -> StoreError {
    StoreError::KeyTaken { space: space.to_owned(), key: key.to_owned(), value: value.to_vec() }
}

fn agree(what: &dyn ToString, expected: u64, actual: u64) -> Result<(), StoreError> {
    if expected == actual { Ok(()) } else { Err(StoreError::Conflict { what: what.to_string(), expected, actual }) }
}

fn fenced(row: &RunRow, claimed: Option<&OwnerId>) -> Result<(), StoreError> {
    if row.owner.as_ref() == claimed {
        return Ok(());
    }
    Err(StoreError::Fenced { run: row.id.to_string(), owner: row.owner.clone() })
}
