//! The machine that figures belong to.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

/// What a reader needs to know to compare.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The day, UTC.
    pub date: String,
    /// The processor's name.
    pub processor: String,
    /// How many of them.
    pub cores: usize,
    /// The kernel's version, without what its builder added.
    pub kernel: String,
    /// The file system under the homes.
    pub file_system: String,
    /// The share of the bench's time in which some process of the machine waited for a core; `None` if the kernel does not say.
    pub cpu_stalled: Option<f64>,
}

/// What the kernel counts of processes that wait for a core. The bench itself adds to it; other work adds more.
pub struct Stalled {
    since: Instant,
    before: Option<u64>,
}

impl Stalled {
    /// Begins to count.
    pub fn begin() -> Stalled {
        Stalled { since: Instant::now(), before: stalled_us() }
    }

    /// The share of the time since.
    pub fn share(&self) -> Option<f64> {
        let us = stalled_us()?.saturating_sub(self.before?);
        Some(us as f64 / self.since.elapsed().as_micros() as f64)
    }
}

fn stalled_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    text.lines().find(|line| line.starts_with("some"))?.rsplit_once("total=")?.1.trim().parse().ok()
}

/// Looks at the machine.
pub fn look(dir: &Path) -> Machine {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map(|(_, name)| name.trim().to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        date: jiff::Timestamp::now().to_string().chars().take(10).collect(),
        processor: processor.unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: format!("Linux {}", kernel.trim().split('-').next().unwrap_or_default()),
        file_system: file_system(dir).unwrap_or_else(|| "unknown".to_owned()),
        cpu_stalled: None,
    }
}

/// The type of the longest mount point above `dir`.
fn file_system(dir: &Path) -> Option<String> {
    let dir = fs::canonicalize(dir).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        dir.starts_with(point).then(|| (point.len(), kind.to_owned()))
    });
    above.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}
