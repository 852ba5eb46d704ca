//! One cgroup (version 2) per process tree, where the machine lets us make one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the names of our cgroups start with.
pub(crate) const PREFIX: &str = "viat-";
/// A cgroup without a process is younger than this while its worker is being started.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// The folder in which cgroups for trees can be made: our own cgroup in a v2 hierarchy that has `cgroup.kill`.
pub(crate) fn parent() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/');
    mounts.lines().filter_map(mount_point).map(|root| root.join(own)).find(|folder| usable(folder))
}

fn mount_point(line: &str) -> Option<PathBuf> {
    let mut fields = line.split(' ').skip(1);
    let (folder, kind) = (fields.next()?, fields.next()?);
    (kind == "cgroup2").then(|| PathBuf::from(folder))
}

/// Tried, not guessed: rights, read-only mounts and old kernels all look alike from outside.
fn usable(folder: &Path) -> bool {
    let probe = folder.join(format!("{PREFIX}probe-{}", std::process::id()));
    if fs::create_dir(&probe).is_err() {
        return false;
    }
    let works = probe.join("cgroup.kill").exists() && fs::OpenOptions::new().write(true).open(probe.join("cgroup.procs")).is_ok();
    fs::remove_dir(&probe).is_ok() && works
}

/// What the cgroups made in this one can limit.
pub(crate) fn holds(folder: &Path) -> Vec<&'static str> {
    let given = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    [("memory", "memory"), ("pids", "processes")]
        .into_iter()
        .filter(|(name, _)| given.split_ascii_whitespace().any(|each| each == *name))
        .map(|(_, what)| what)
        .collect()
}

pub(crate) fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// Kills everything in the cgroup and below; what forks meanwhile is killed too.
pub(crate) fn kill(folder: &Path) -> io::Result<()> {
    write(&folder.join("cgroup.kill"), "1")
}

/// The living processes in the cgroup; none if it is gone.
pub(crate) fn members(folder: &Path) -> Vec<u32> {
    fs::read_to_string(folder.join("cgroup.procs")).map(|text| text.lines().filter_map(|line| line.parse().ok()).collect()).unwrap_or_default()
}

/// Whether nothing lives in the cgroup or in one a script made below it.
pub(crate) fn is_empty(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.events")).map_or(true, |text| text.lines().any(|line| line == "populated 0"))
}

/// Removes the cgroup and those below it; the last process's leaving may take the kernel a moment.
pub(crate) fn remove(folder: &Path) {
    for _ in 0..50 {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            remove(&entry.path());
        }
        if fs::remove_dir(folder).is_ok() || !is_empty(folder) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Removes empty cgroups that an engine left which died while it started a worker.
pub(crate) fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let old = entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_BEHIND));
        if old && is_empty(&entry.path()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
