//! Attempts' logs: one file an attempt that printed anything, beside the database and not synced: a log is no fact.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the logs of a home lie.
#[derive(Clone, Debug)]
pub struct Logs {
    folder: PathBuf,
}

impl Logs {
    /// The logs in this folder, which need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Logs {
        Logs { folder: folder.into() }
    }

    /// Keeps an attempt's log.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self, run: &str, path: &str, attempt: u32, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(run, path, attempt);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, bytes)
    }

    /// An attempt's log; empty if it printed nothing.
    ///
    /// # Errors
    /// The file is there and could not be read.
    pub fn read(&self, run: &str, path: &str, attempt: u32) -> io::Result<Vec<u8>> {
        match fs::read(self.file(run, path, attempt)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            answer => answer,
        }
    }

    fn file(&self, run: &str, path: &str, attempt: u32) -> PathBuf {
        // A path of many levels is longer than a file name may be; its hash is not.
        let name = if path.len() > 200 { blake3::hash(path.as_bytes()).to_hex().to_string() } else { path.to_owned() };
        Path::new(&self.folder).join(run).join(format!("{name}.{attempt}.log"))
    }
}
