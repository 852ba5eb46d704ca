//! What viat remembers: the [`Store`] contract, its backends, and the examiner that every backend passes.
//!
//! There is one write, [`Store::commit`]: an atomic [`Unit`], durable before its callback is called.

pub mod bench;
pub mod big;
pub mod conformance;
mod contract;
mod error;
mod identity;
mod memory;
mod records;
mod sqlite;
mod unit;

pub use contract::{Done, Lease, Store};
pub use error::StoreError;
pub use identity::{AssetName, Hash, OwnerId, RunId, fresh_id};
pub use memory::MemoryStore;
pub use records::{Asset, AssetInfo, At, KeyFilter, OpenRuns, ReviewFilter, ReviewRow, RunFilter, RunRow, Summary};
pub use sqlite::{Options, SqliteStore};
pub use unit::{EncodedBatch, Op, Outcome, Precondition, Receipt, Unit};
