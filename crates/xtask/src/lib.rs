//! What the project does to itself: sets itself up, tests (for long, on demand), checks its own rules, measures itself,
//! kills itself.

pub mod bench;
pub mod chaos;
pub mod long;
pub mod output;
pub mod setup;
pub mod shell;
pub mod test;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
