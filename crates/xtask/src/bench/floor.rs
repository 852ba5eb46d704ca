//! What cannot be avoided: a sync of the disk, and a round trip over a pipe to a Python process that does nothing.
//!
//! A round trip costs some 3 us where both ends share a core, and ten times that where one must wake another core. Left
//! to the scheduler the median is one or the other by luck, so both are measured, with the ends pinned. What a step crosses is
//! neither: its worker has slept for as long as a sync takes. So a third pipe, with nothing pinned, follows a sync each time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const ECHO: &str = "import os\nwhile True:\n    data = os.read(0, 65536)\n    if not data: break\n    os.write(1, data)";
const MESSAGE: &[u8] = b"{\"value\":12345}\n";

/// Appends 512 bytes to a file in `dir` and syncs them, again and again.
pub fn fsyncs(dir: &Path, count: usize) -> io::Result<Vec<Duration>> {
    let path = dir.join("fsync.probe");
    let mut file = File::create(&path)?;
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        file.write_all(&[0x5a; 512])?;
        file.sync_data()?;
        samples.push(start.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(samples)
}

/// A Python process that sends back what it is sent.
pub struct Pipe {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    /// Where this end is while it measures, if that is fixed; then the other end is fixed too.
    ours: Option<CpuSet>,
}

impl Pipe {
    /// One with both ends on one core, and one with its ends on two; the second is `None` if there is only one core.
    pub fn both(python: &Path) -> io::Result<(Pipe, Option<Pipe>)> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).map(only);
        let first = cores.next().ok_or_else(|| io::Error::other("no core to run on"))?;
        let apart = cores.next().map(|second| Pipe::open(python, Some((first, second)))).transpose()?;
        Ok((Pipe::open(python, Some((first, first)))?, apart))
    }

    /// One whose ends are where the kernel puts them.
    pub fn loose(python: &Path) -> io::Result<Pipe> {
        Pipe::open(python, None)
    }

    fn open(python: &Path, cores: Option<(CpuSet, CpuSet)>) -> io::Result<Pipe> {
        let mut command = Command::new(python);
        command.args(["-I", "-S", "-c", ECHO]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A child begins on the cores of the thread that starts it.
        let mut child = pinned(cores.as_ref().map(|(_, theirs)| theirs), || command.spawn())?;
        let to = child.stdin.take();
        let from = child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        let mut pipe = Pipe { child, to, from, ours: cores.map(|(ours, _)| ours) };
        pipe.round_trips(50)?;
        Ok(pipe)
    }

    /// One round trip after each of `count` syncs in `dir`, as a step has them; only the trips count.
    pub fn trips_after_syncs(&mut self, dir: &Path, count: usize) -> io::Result<Vec<Duration>> {
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            fsyncs(dir, 1)?;
            samples.append(&mut self.round_trips(1)?);
        }
        Ok(samples)
    }

    /// Sends and receives, again and again.
    pub fn round_trips(&mut self, count: usize) -> io::Result<Vec<Duration>> {
        let to = self.to.as_mut().ok_or_else(|| io::Error::other("no stdin"))?;
        let mut answer = [0; MESSAGE.len()];
        let mut samples = Vec::with_capacity(count);
        let from = &mut self.from;
        pinned(self.ours.as_ref(), || {
            for _ in 0..count {
                let start = Instant::now();
                to.write_all(MESSAGE)?;
                from.read_exact(&mut answer)?;
                samples.push(start.elapsed());
            }
            Ok(samples)
        })
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

/// Does something on these cores, if any are given, and goes back to where the thread may run otherwise.
fn pinned<T>(to: Option<&CpuSet>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(to) = to else { return work() };
    let before = sched_getaffinity(None)?;
    sched_setaffinity(None, to)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    done
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}
