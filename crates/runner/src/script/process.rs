//! Reads /proc and sends signals to exactly the process that was looked at.

use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What `/proc/<pid>/stat` says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) zombie: bool,
    /// In clock ticks since boot: with the pid it names a process for good.
    pub(crate) started: u64,
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // the name in brackets may hold anything, brackets and blanks included
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Every process id there is right now.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// All living processes whose line of parents leads to `root`, `root` left out.
pub(crate) fn descendants(root: u32) -> Vec<Stat> {
    let everyone: Vec<Stat> = all().into_iter().filter_map(stat).collect();
    let mut family = vec![root];
    let mut found: Vec<Stat> = Vec::new();
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        for each in everyone.iter().filter(|each| each.parent == parent) {
            family.push(each.pid);
            found.push(*each);
        }
        at += 1;
    }
    found.retain(|each| !each.zombie);
    found
}

/// Kills the process that `seen` describes, never another one that got its number since.
pub(crate) fn kill(seen: &Stat) -> io::Result<()> {
    let Some(pid) = i32::try_from(seen.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let gone = |errno| if errno == rustix::io::Errno::SRCH { Ok(()) } else { Err(io::Error::from(errno)) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(errno) => return gone(errno),
    };
    match stat(seen.pid) {
        Some(now) if now.started == seen.started => pidfd_send_signal(handle, Signal::KILL).or_else(gone),
        _ => Ok(()),
    }
}
