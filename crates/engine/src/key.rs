//! Values derived from where in a run something is, so that they are the same whenever they are derived again.

use crate::path::Path;

/// The default idempotency key of an entry: the same across attempts, restarts and resumes.
pub fn idempotency(run: &str, path: &Path, generation: u32) -> String {
    let hash = digest(&["idempotency", run, path.as_str(), &generation.to_string()]);
    hash.to_hex().as_str()[..32].to_owned()
}

/// The id of a review: of the entry at `path`, asked for the `visit`th time.
pub fn review(run: &str, path: &Path, visit: u32) -> String {
    let hash = digest(&["review", run, path.as_str(), &visit.to_string()]);
    hash.to_hex().as_str()[..16].to_owned()
}

/// A number in [0, 1) for the jitter after an attempt.
pub(crate) fn draw(run: &str, path: &Path, attempt: u32) -> f64 {
    let hash = digest(&["jitter", run, path.as_str(), &attempt.to_string()]);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    // 53 bits: what a double holds exactly.
    (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
}

fn digest(parts: &[&str]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize()
}
