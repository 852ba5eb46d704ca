//! Who is alive: one file per owner, locked by the operating system for as long as its process lives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::OwnerId;

/// An unlocked draft that is older than this was left by a crash; a younger one may be about to be locked.
const DRAFT_AGE: Duration = Duration::from_secs(60);

/// The directory of lock files.
pub(super) struct Owners {
    dir: PathBuf,
}

impl Owners {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn path(&self, owner: &OwnerId) -> PathBuf {
        self.dir.join(format!("{owner}.lock"))
    }

    /// Begins a life. The file gets its name only once it is locked, so whoever sees it sees it locked.
    pub fn lease(&self) -> io::Result<(OwnerId, LockFile)> {
        let owner = OwnerId::fresh();
        let draft = self.dir.join(format!("{owner}.draft"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let path = self.path(&owner);
        fs::rename(&draft, &path)?;
        Ok((owner, LockFile { path, _file: file }))
    }

    /// Whether some process holds the owner's lock. Probing takes a shared lock, so that probers do not see each other.
    pub fn is_alive(&self, owner: &OwnerId) -> io::Result<bool> {
        // An id is a file name here; one that could lead elsewhere was never given out by `lease`.
        if owner.as_str().is_empty() || owner.as_str().contains(['/', '\0']) {
            return Ok(false);
        }
        is_held(&self.path(owner))
    }

    /// Removes the lock files of the dead for which `keep` says no, and old drafts.
    pub fn sweep(&self, keep: impl Fn(&OwnerId) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let (Some(stem), Some(extension)) = (path.file_stem().and_then(|s| s.to_str()), path.extension()) else { continue };
            let stale = match extension.to_str() {
                // A dead owner's id is never used again, so nobody can come to life between the probe and the removal.
                Some("lock") => !is_held(&path)? && !keep(&OwnerId::from(stem)),
                Some("draft") => is_old(&path) && !is_held(&path)?,
                // Where its process listened, while it lived.
                Some("sock") => !is_held(&path.with_extension("lock"))?,
                _ => false,
            };
            if stale {
                remove(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// A locked file; dropping it ends the life and removes the file.
pub(super) struct LockFile {
    path: PathBuf,
    _file: File,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Best effort: a file that stays is unlocked with this process and swept by another.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether some process holds the file's lock; a file that is not there is held by nobody.
fn is_held(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn is_old(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > DRAFT_AGE)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
