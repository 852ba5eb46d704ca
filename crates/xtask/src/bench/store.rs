//! The store's group-commit writer beside a bare SQLite loop, in turns, because a disk's pace changes by the second.

use std::path::Path;

use serde::Serialize;
use viat_store::StoreError;
use viat_store::bench::{ceiling, durable_appends};

use crate::shell::Done;

/// Durable appends per second, the best of several rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Appends {
    /// Runs at once.
    pub runs: usize,
    /// Through the store.
    pub store: f64,
    /// Bare SQLite.
    pub ceiling: f64,
}

/// Measures both at 1, 16 and 64 runs at once.
pub fn turns(dir: &Path, rounds: usize) -> Done<Vec<Appends>> {
    let mut found: Vec<Appends> = [1, 16, 64].into_iter().map(|runs| Appends { runs, store: 0.0, ceiling: 0.0 }).collect();
    for _ in 0..rounds {
        for each in &mut found {
            let count = if each.runs == 1 { 2_000 } else { 10_000 };
            each.store = each.store.max(in_a_fresh_folder(dir, |folder| durable_appends(folder, each.runs, count))?);
            each.ceiling = each.ceiling.max(in_a_fresh_folder(dir, |folder| ceiling(folder, each.runs, count))?);
        }
    }
    Ok(found)
}

fn in_a_fresh_folder(dir: &Path, measure: impl Fn(&Path) -> Result<viat_store::bench::Figures, StoreError>) -> Done<f64> {
    let folder = tempfile::tempdir_in(dir)?;
    Ok(measure(folder.path())?.per_second)
}
