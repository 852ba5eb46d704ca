//! How the command line finds who drives the runs of its home: a locked file says that there is a server, a socket leads to
//! it; every command that runs something in the foreground has a socket of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use viat_store::OwnerId;

use crate::cli::error::CliError;

const LOCK: &str = "server.lock";
const SOCKET: &str = "server.sock";

/// Who listens on a socket of a home.
#[derive(Clone, Debug)]
pub enum Place {
    /// Its server.
    Server,
    /// A command that has runs in the foreground.
    Owner(OwnerId),
}

impl Place {
    fn file(&self) -> String {
        match self {
            Place::Server => SOCKET.to_owned(),
            Place::Owner(owner) => format!("owners/{owner}.sock"),
        }
    }
}

/// Makes this process the server of the home, for as long as the file is held.
pub fn lock(home: &Path) -> Result<File, CliError> {
    let path = home.join(LOCK);
    let cannot = |error: io::Error| CliError::failed(format!("{} cannot be locked: {error}", path.display()));
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(cannot)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut who = String::new();
        let _ = file.read_to_string(&mut who);
        return Err(CliError::failed(format!("a server already runs on {} ({})", home.display(), who.trim())).help("use that one, or end it first"));
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "process {}", std::process::id()));
    written.map_err(cannot)?;
    Ok(file)
}

/// The socket's path, short enough for the kernel however deep the home lies; it leads there while the folder is held.
pub fn path(home: &Path, place: &Place) -> io::Result<(File, PathBuf)> {
    let folder = File::open(home)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), place.file()));
    Ok((folder, path))
}

/// Removes the socket.
pub fn remove(home: &Path, place: &Place) {
    // One that is not there needs no removing.
    let _ = std::fs::remove_file(home.join(place.file()));
}
