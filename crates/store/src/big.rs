//! Big values: what is over 64 KiB in a batch is stored once, under its hash, and the batch has a reference in its place.
//!
//! A batch without big values is written as it always was. One that has some begins with `"big"`, a map of the hashes that it
//! needs (those that are needed by big values inside others too) to their sizes; only in such a batch is a map with the
//! single key [`MARK`] a reference. A user's own map that looks like one is written with one more `$`.

mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use viat_engine::journal::Batch;

use crate::{EncodedBatch, Hash, Op, Store, StoreError};

/// A value that takes more bytes than this as JSON is kept outside of the journal.
pub const BIG: usize = 64 << 10;

/// The key of a reference.
const MARK: &str = "$viat:blob";
/// What the text of a batch with references begins with.
const HEAD: &[u8] = br#"{"big":"#;

/// What the store has of one run's big values, and the bytes of all that it has of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    bytes: u64,
    blobs: BTreeSet<Hash>,
}

impl Kept {
    /// The run's journal and its distinct big values, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts a batch that the store has.
    ///
    /// # Errors
    /// The batch cannot be read.
    pub fn note(&mut self, encoded: &EncodedBatch) -> Result<(), Unreadable> {
        self.bytes = self.bytes.saturating_add(encoded.body.len() as u64);
        if encoded.body.starts_with(HEAD) {
            let head: Head = serde_json::from_slice(&encoded.body).map_err(Unreadable::json)?;
            for (hash, bytes) in head.big {
                self.add(hash.parse().map_err(|_| Unreadable(format!("{hash} is no hash")))?, bytes);
            }
        }
        Ok(())
    }

    /// Counts a big value; says whether it is new.
    fn add(&mut self, hash: Hash, bytes: u64) -> bool {
        let new = self.blobs.insert(hash);
        if new {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        new
    }
}

#[derive(Deserialize)]
struct Head {
    big: BTreeMap<String, u64>,
}

/// Why a batch cannot be read, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl Unreadable {
    fn json(error: serde_json::Error) -> Unreadable {
        Unreadable(error.to_string())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Serialises a batch, and gives the operations that store its big values: they belong into the unit that appends the batch.
///
/// What `kept` says the store has is not put again; what it does not have yet is added to it, so a batch that is given up
/// must take `kept` with it.
///
/// # Errors
/// The batch cannot be serialised.
pub fn encode(batch: &Batch, kept: &mut Kept) -> Result<(EncodedBatch, Vec<Op>), serde_json::Error> {
    let events = u32::try_from(batch.events.len()).unwrap_or(u32::MAX);
    let text = serde_json::to_vec(batch)?;
    if text.len() <= BIG {
        kept.bytes = kept.bytes.saturating_add(text.len() as u64);
        return Ok((EncodedBatch { body: text, events }, Vec::new()));
    }
    let mut puts = Vec::new();
    let mut big = BTreeMap::new();
    let rest = take::take_out(&text, &mut |value| {
        let hash = Hash::of(value);
        big.insert(hash.to_string(), value.len() as u64);
        if kept.add(hash, value.len() as u64) {
            puts.push(Op::PutBlob { hash, bytes: Arc::from(value) });
        }
        hash
    });
    // Without a reference nothing had to be disguised as none either.
    let body = if big.is_empty() { text } else { [HEAD, &serde_json::to_vec(&big)?, b",", &rest[1..]].concat() };
    kept.bytes = kept.bytes.saturating_add(body.len() as u64);
    Ok((EncodedBatch { body, events }, puts))
}

/// Reads a batch, with its big values in their places.
///
/// # Errors
/// The batch is damaged, or a big value is damaged or missing; the sentence names its hash.
pub fn decode(store: &dyn Store, encoded: &EncodedBatch) -> Result<Batch, Unreadable> {
    if !encoded.body.starts_with(HEAD) {
        return serde_json::from_slice(&encoded.body).map_err(Unreadable::json);
    }
    let mut batch: Value = serde_json::from_slice(&encoded.body).map_err(Unreadable::json)?;
    if let Value::Object(fields) = &mut batch {
        fields.shift_remove("big");
    }
    put_back(&mut batch, store)?;
    serde_json::from_value(batch).map_err(Unreadable::json)
}

/// Reads a run's journal batch by batch, so that only one batch's big values are in memory for it at a time.
///
/// # Errors
/// As [`decode`]; what was made of the batches before the unreadable one is dropped.
pub fn read<T>(store: &dyn Store, journal: &[EncodedBatch], fold: impl FnOnce(&mut dyn Iterator<Item = Batch>) -> T) -> Result<T, Unreadable> {
    let mut problem = None;
    let mut batches = journal.iter().map_while(|encoded| decode(store, encoded).map_err(|error| problem = Some(error)).ok());
    let made = fold(&mut batches);
    drop(batches);
    problem.map_or(Ok(made), Err)
}

fn put_back(value: &mut Value, store: &dyn Store) -> Result<(), Unreadable> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_back(item, store)),
        Value::Object(map) if map.len() == 1 && map.contains_key(MARK) => {
            *value = fetch(&map[MARK], store)?;
            Ok(())
        }
        Value::Object(map) => {
            if let Some(plain) = disguised(map) {
                *map = std::mem::take(map).into_iter().map(|(_, inner)| (plain.clone(), inner)).collect();
            }
            map.values_mut().try_for_each(|inner| put_back(inner, store))
        }
        _ => Ok(()),
    }
}

fn fetch(reference: &Value, store: &dyn Store) -> Result<Value, Unreadable> {
    let hash: Option<Hash> = reference.as_str().and_then(|text| text.parse().ok());
    let hash = hash.ok_or_else(|| Unreadable(format!("{reference} refers to no big value")))?;
    let bytes = store.blob(&hash).map_err(|error| match error {
        StoreError::Corrupt { detail, .. } => Unreadable(format!("its big value {hash} is damaged: {detail}; restore the home from a backup")),
        error => Unreadable(format!("its big value {hash} cannot be read: {error}")),
    })?;
    let bytes = bytes.ok_or_else(|| Unreadable(format!("its big value {hash} is missing from the store; restore the home from a backup")))?;
    let mut value = serde_json::from_slice(&bytes).map_err(|error| Unreadable(format!("its big value {hash} is no JSON: {error}")))?;
    drop(bytes);
    put_back(&mut value, store)?;
    Ok(value)
}

/// The user's own key, if the map's only key is one that was disguised.
fn disguised(map: &Map<String, Value>) -> Option<String> {
    let (key, _) = map.iter().next().filter(|_| map.len() == 1)?;
    let plain = key.strip_prefix('$').filter(|plain| plain.starts_with('$'))?;
    is_marked(plain.as_bytes()).then(|| plain.to_owned())
}

/// Whether a key is the mark of a reference or could be taken for one: any number of `$`, and the rest of the mark.
fn is_marked(key: &[u8]) -> bool {
    let dollars = key.iter().take_while(|byte| **byte == b'$').count();
    dollars > 0 && key.get(dollars..) == MARK.as_bytes().get(1..)
}
