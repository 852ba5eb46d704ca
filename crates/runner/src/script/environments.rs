//! Dependency environments: not built by this version, so what needs one says so.

use std::path::{Path, PathBuf};

use super::fault::{Fault, FaultKind};

pub(crate) fn folder(_root: &Path, _key: &str) -> Option<PathBuf> {
    None
}

pub(crate) fn ready(_root: &Path, _key: &str, script: &str) -> Result<PathBuf, Fault> {
    Err(Fault::new(FaultKind::EnvironmentNotReady, format!("the environment of script {script} is not built")))
}
