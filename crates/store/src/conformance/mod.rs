//! The examiner: every behaviour that the rest of viat relies on, put to a backend.
//!
//! Each behaviour is a function that panics with what it missed; [`examine`] runs them all, each on a store of its own.

mod assets;
mod big;
mod load;
mod reviews;
mod runs;
mod units;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::{AssetName, EncodedBatch, Hash, Op, OwnerId, Receipt, RunId, RunRow, Store, StoreError, Summary, Unit};

pub use assets::*;
pub use big::*;
pub use load::*;
pub use reviews::*;
pub use runs::*;
pub use units::*;

/// A behaviour's name, and the function that checks it.
pub type Check = (&'static str, fn(&dyn Store));

macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        /// All of them, those that need several threads apart.
        pub const CHECKS: &[Check] = &[$((stringify!($name), $name)),*];
    };
}

checks![
    run_round_trip,
    run_exists,
    claim_runs,
    append_versions,
    append_to_missing_run,
    append_is_fenced,
    claim_and_release,
    summaries,
    lists,
    prefixes,
    orphans_and_leases,
    due_runs,
    open_runs,
    odd_bodies,
    odd_names,
    unit_is_atomic,
    unit_sees_itself,
    refused_unit_spoils_no_other,
    empty_unit,
    guards,
    keys,
    keys_are_set_and_listed,
    blobs,
    damaged_blobs,
    big_values,
    big_values_are_kept_once,
    big_values_come_with_their_batch,
    big_values_that_are_gone,
    too_big,
    order_of_one_thread,
    asset_versions_and_revisions,
    asset_pins,
    asset_lists,
    tombstones,
    references,
    references_of_old_versions,
    deletion_in_one_unit,
    catalogue_guard,
    erasure,
    review_round_trip,
    review_lists,
    review_in_a_unit,
];

/// Runs every check on stores that `make` makes, each empty; panics with the list of those that failed.
pub fn examine(make: impl Fn() -> Arc<dyn Store>) {
    let mut failed = Vec::new();
    let mut check = |name: &str, run: &dyn Fn(Arc<dyn Store>)| {
        if catch_unwind(AssertUnwindSafe(|| run(make()))).is_err() {
            failed.push(name.to_owned());
        }
    };
    for (name, run) in CHECKS {
        check(name, &|store| run(&*store));
    }
    check("many_threads", &many_threads);
    check("contended_run", &contended_run);
    check("durable_when_called", &durable_when_called);
    check("callbacks_commit", &callbacks_commit);
    check("committing_here", &committing_here);
    check("closing", &closing);
    assert!(failed.is_empty(), "not as the contract says (see the panics above): {}", failed.join(", "));
}

/// Panics unless the answer is an error that `matches`.
#[macro_export]
#[doc(hidden)]
macro_rules! expect_refusal {
    ($answer:expr, $pattern:pat $(if $guard:expr)?) => {{
        let answer = $answer;
        assert!(matches!(&answer, Err($pattern) $(if $guard)?), "unexpected answer: {answer:?}");
    }};
}

fn batch(body: impl Into<Vec<u8>>) -> EncodedBatch {
    EncodedBatch { body: body.into(), events: 1 }
}

fn owner() -> OwnerId {
    OwnerId::from("owner-a")
}

fn summary(status: &str) -> Summary {
    Summary { status: status.to_owned(), ..Summary::default() }
}

fn row(id: &str) -> RunRow {
    RunRow { id: RunId::from(id), workflow: "flow".to_owned(), version: 3, revision: 17, owner: Some(owner()), created_at: 1_000, summary: summary("running") }
}

fn create(id: &str) -> Op {
    Op::CreateRun { row: row(id), first: batch("first") }
}

fn append(id: &str, expected: u64, body: impl Into<Vec<u8>>) -> Op {
    Op::Append { run: RunId::from(id), expected, batch: batch(body), summary: None, fence: owner() }
}

fn put(kind: &str, name: &str, body: &str, refs: &[(&str, &str)]) -> Op {
    Op::PutAsset {
        name: AssetName::new(kind, name),
        body: body.as_bytes().to_vec(),
        hash: Hash::of(body.as_bytes()),
        refs: refs.iter().map(|(kind, name)| AssetName::new(*kind, *name)).collect(),
        at: 5,
    }
}

fn delete(kind: &str, name: &str) -> Op {
    Op::DeleteAsset { name: AssetName::new(kind, name), at: 6 }
}

fn claim(key: &str, value: &str) -> Op {
    Op::ClaimKey { space: "test".to_owned(), key: key.to_owned(), value: value.as_bytes().to_vec() }
}

fn commit(store: &dyn Store, unit: impl Into<Unit>) -> Result<Receipt, StoreError> {
    store.commit_blocking(unit.into())
}

/// Commits what must be accepted.
fn done(store: &dyn Store, unit: impl Into<Unit>) -> Receipt {
    commit(store, unit).expect("accepted")
}

fn bodies(store: &dyn Store, id: &str, from: u64) -> Vec<Vec<u8>> {
    store.journal(&RunId::from(id), from).expect("readable").into_iter().map(|batch| batch.body).collect()
}
