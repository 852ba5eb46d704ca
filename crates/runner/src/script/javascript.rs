//! The JavaScript sources that live in the binary.

/// The text a worker is started with.
pub(crate) const WORKER: &str = include_str!("../../../../javascript/viat/worker.js");
/// Reads a script without running it.
pub(crate) const INSPECTOR: &str = include_str!("../../../../javascript/viat/inspector.js");
