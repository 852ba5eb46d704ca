//! What one attempt may use of the machine, and how that is held: resource limits, the tree's cgroup, and a watch.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde::{Deserialize, Serialize};

use super::cgroup;
use super::config::Language;

/// What an interpreter has mapped without using it: so much more than its limit may be mapped.
const UNUSED: u64 = 768 << 20;

/// What an attempt may use; what is not said is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Memory of the whole process tree, in bytes.
    pub memory: Option<u64>,
    /// Seconds of processor time, for each process.
    pub cpu_s: Option<u64>,
    /// Open files, for each process.
    pub files: Option<u64>,
    /// Processes of the whole tree, the worker included.
    pub processes: Option<u64>,
    /// Bytes of the value as JSON.
    pub output: Option<u64>,
    /// Bytes of the files in the worker's folder together, and of each file that is written.
    pub disk: Option<u64>,
}

impl Limits {
    /// What a script gets that is not trusted and that nobody gave anything else.
    pub fn for_strangers() -> Limits {
        let memory = (machine_memory() / 2).clamp(512 << 20, 4 << 30);
        Limits { memory: Some(memory), processes: Some(256), disk: Some(1 << 30), ..Limits::default() }
    }

    /// Of each limit the lower one.
    pub fn within(&self, other: &Limits) -> Limits {
        let lower = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        Limits {
            memory: lower(self.memory, other.memory),
            cpu_s: lower(self.cpu_s, other.cpu_s),
            files: lower(self.files, other.files),
            processes: lower(self.processes, other.processes),
            output: lower(self.output, other.output),
            disk: lower(self.disk, other.disk),
        }
    }

    /// These, and where they say nothing the others.
    pub fn or(&self, other: &Limits) -> Limits {
        Limits {
            memory: self.memory.or(other.memory),
            cpu_s: self.cpu_s.or(other.cpu_s),
            files: self.files.or(other.files),
            processes: self.processes.or(other.processes),
            output: self.output.or(other.output),
            disk: self.disk.or(other.disk),
        }
    }

    /// What is set on the worker itself before it runs, and inherited by what it starts.
    pub(crate) fn apply(&self, pid: u32, language: Language) -> io::Result<()> {
        if let Some(files) = self.files {
            set(pid, Resource::Nofile, files, Some(files))?;
        }
        if let Some(disk) = self.disk {
            set(pid, Resource::Fsize, disk, Some(disk))?;
        }
        if let Some(memory) = self.memory {
            // Node maps a lot and uses little of it; there the watch and its own limit hold.
            let most = if language == Language::JavaScript { memory.saturating_add(UNUSED) } else { memory };
            set(pid, Resource::Data, most, Some(most))?;
        }
        Ok(())
    }

    /// What the kernel counts for each cell of its own: a bound on processes and their threads together, so that no burst of them
    /// comes far before the watch sees it.
    pub(crate) fn apply_in_cell(&self, pid: u32) -> io::Result<()> {
        match self.processes {
            Some(processes) => set(pid, Resource::Nproc, processes.saturating_mul(4).saturating_add(64), None),
            None => Ok(()),
        }
    }

    /// Sets the processor time of one attempt on a worker that has used some already.
    pub(crate) fn allow_cpu(&self, pid: u32) {
        let Some(seconds) = self.cpu_s else { return };
        // a worker that is gone shows when it is listened to
        let _ = set(pid, Resource::Cpu, cpu_seconds(pid).saturating_add(seconds), None);
    }

    /// Writes what the tree's cgroup can hold; tells what is left for the watch.
    pub(crate) fn confine(&self, folder: Option<&Path>) -> Limits {
        let held = |file: &str, value: u64| folder.is_some_and(|folder| cgroup::write(&folder.join(file), &value.to_string()).is_ok());
        let memory = self.memory.filter(|memory| !held("memory.max", *memory));
        if self.memory.is_some() && memory.is_none() {
            // otherwise the kernel ends one process, and the attempt goes on without it
            let _ = held("memory.oom.group", 1);
        }
        let processes = self.processes.filter(|processes| !held("pids.max", *processes));
        Limits { memory, processes, disk: self.disk, ..Limits::default() }
    }

    /// What the files of the tree are over, as a sentence.
    pub(crate) fn overfilled(&self, scratch: &Path) -> Option<String> {
        let most = self.disk?;
        let used = disk_usage(scratch, most);
        (used > most).then(|| format!("the attempt's files took {} MiB; its limit is {} MiB (limits.disk)", used >> 20, most >> 20))
    }

    /// What of the tree below a process is over a limit, as a sentence.
    pub(crate) fn exceeded(&self, root: u32) -> Option<String> {
        if self.memory.is_none() && self.processes.is_none() {
            return None;
        }
        let tree = below(root, self.processes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)));
        if let Some(most) = self.processes.filter(|most| tree.len() as u64 > *most) {
            return Some(format!("the attempt had more than {most} processes, its limit (limits.processes)"));
        }
        let most = self.memory?;
        let used: u64 = tree.iter().map(|pid| resident(*pid)).sum();
        (used > most).then(|| format!("the attempt used {} MiB of memory; its limit is {} MiB (limits.memory)", used >> 20, most >> 20))
    }
}

/// Never raises what is set already: only root may, and nobody should.
fn set(pid: u32, resource: Resource, soft: u64, hard: Option<u64>) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let now = getrlimit(resource);
    let hard = match (hard, now.maximum) {
        (Some(wanted), Some(now)) => Some(wanted.min(now)),
        (wanted, now) => wanted.or(now),
    };
    let soft = hard.map_or(soft, |hard| soft.min(hard));
    match prlimit(pid, resource, Rlimit { current: Some(soft), maximum: hard }) {
        // whoever is gone uses nothing, and its end is told
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The memory of the machine, in bytes.
fn machine_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(2 << 30, |kib| kib << 10)
}

/// What the files below a folder take on the disk; it is looked no further once they take more than is asked about.
fn disk_usage(folder: &Path, enough: u64) -> u64 {
    let (mut folders, mut used) = (vec![folder.to_path_buf()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            used += found.blocks() * 512;
            if found.is_dir() {
                folders.push(entry.path());
            }
            if used > enough {
                return used;
            }
        }
    }
    used
}

/// The processor time that a process has used.
fn cpu_seconds(pid: u32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0 };
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields.split_ascii_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks.div_ceil(rustix::param::clock_ticks_per_second().max(1))
}

/// The processes below one, found by their parents: costs what the tree costs, not what the machine does.
pub(crate) fn below(root: u32, enough: usize) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() && found.len() - 1 <= enough {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", found[at])) else {
            at += 1;
            continue;
        };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    found.remove(0);
    found
}

/// The memory of a process that is its own, in bytes; 0 if it is gone.
pub(crate) fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let number = |at: usize| text.split(' ').nth(at).and_then(|field| field.trim().parse::<u64>().ok()).unwrap_or(0);
    // what is shared (a fork's untouched pages are not, to the kernel) would be counted for each
    number(1).saturating_sub(number(2)) * rustix::param::page_size() as u64
}
