//! The wall clock of the server under test, which is stepped while it runs; nothing else sees it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Cannot;
use crate::shell::{self, Done};

/// Where distributions put the library, below which its folder is named after the machine.
const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// A clock that is told how far it is off.
pub struct Clock {
    library: PathBuf,
    setting: PathBuf,
}

impl Clock {
    /// A clock that is right, for now.
    ///
    /// # Errors
    /// [`Cannot`]: there is no libfaketime, or the binary does not run under it.
    pub fn new(base: &Path, binary: &Path) -> Done<Clock> {
        let library = FOLDERS.iter().find_map(|folder| find(Path::new(folder), 3));
        let library = library.ok_or_else(|| Cannot("--clock needs libfaketime (Debian: apt-get install faketime)".to_owned()))?;
        let clock = Clock { library, setting: base.join("clock") };
        clock.set(0)?;
        let mut probe = Command::new(binary);
        clock.on(probe.arg("--version"));
        if !shell::succeeds(&mut probe) {
            return Err(Cannot(format!("--clock: {} does not run under libfaketime", binary.display())).into());
        }
        Ok(clock)
    }

    /// Lets a command run by this clock.
    pub fn on(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", &self.setting);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Steps it to so many seconds from what is right.
    pub fn set(&self, offset_s: i64) -> Done {
        let draft = self.setting.with_extension("new");
        std::fs::write(&draft, format!("{offset_s:+}\n"))?;
        Ok(std::fs::rename(draft, &self.setting)?)
    }
}

fn find(folder: &Path, deep: u32) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let here = entries.iter().find(|path| path.file_name().is_some_and(|name| name == "libfaketime.so.1"));
    here.cloned().or_else(|| entries.iter().filter(|path| deep > 0 && path.is_dir() && !path.is_symlink()).find_map(|path| find(path, deep - 1)))
}
