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

/// The id of the span of an attempt in the run's trace.
pub fn attempt_span(run: &str, path: &Path, attempt: u32) -> [u8; 8] {
    span(digest(&["attempt span", run, path.as_str(), &attempt.to_string()]))
}

/// The id of the span of a part of a run in its trace; part 0 is the trace's root.
pub fn part_span(run: &str, part: u32) -> [u8; 8] {
    span(digest(&["run span", run, &part.to_string()]))
}

/// The id of a run's trace: the run's own id where that is a UUID, so that one can be found by the other.
pub fn trace(run: &str) -> [u8; 16] {
    let digits: Vec<u8> = run.bytes().filter(|byte| *byte != b'-').map(|byte| char::from(byte).to_digit(16).map_or(u8::MAX, |digit| digit as u8)).collect();
    let mut id = [0; 16];
    if digits.len() == 32 && digits.iter().all(|digit| *digit < 16) && digits.iter().any(|digit| *digit > 0) {
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
    } else {
        id.copy_from_slice(&digest(&["trace", run]).as_bytes()[..16]);
    }
    id
}

/// The W3C trace context of an attempt, for what it calls: version 00, sampled.
pub fn traceparent(run: &str, path: &Path, attempt: u32) -> String {
    format!("00-{}-{}-01", hex(&trace(run)), hex(&attempt_span(run, path, attempt)))
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn span(hash: blake3::Hash) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&hash.as_bytes()[..8]);
    id
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
