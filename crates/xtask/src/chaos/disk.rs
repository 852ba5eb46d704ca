//! A small disk under the home, filled to the last byte and freed again while the server works on it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use viat_simulator::stories::dice::Dice;

use super::Cannot;
use crate::shell::Done;

/// Far more than the runs need.
const SIZE: &str = "size=256m";

/// A mounted tmpfs.
pub struct Disk {
    place: PathBuf,
}

impl Disk {
    /// Mounts one.
    ///
    /// # Errors
    /// [`Cannot`]: that is not permitted here.
    pub fn mount(place: &Path) -> Done<Disk> {
        std::fs::create_dir_all(place)?;
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "none"]).arg(place).output();
        match mounted {
            Ok(done) if done.status.success() => Ok(Disk { place: place.to_path_buf() }),
            Ok(done) => Err(Cannot(format!("--disk-full mounts a tmpfs, which needs root: {}", String::from_utf8_lossy(&done.stderr).trim())).into()),
            Err(error) => Err(Cannot(format!("--disk-full mounts a tmpfs: mount: {error}")).into()),
        }
    }

    /// Takes it away.
    pub fn unmount(&self) -> Done {
        let done = Command::new("umount").arg("-l").arg(&self.place).status()?;
        if done.success() { Ok(()) } else { Err(format!("umount {}: {done}", self.place.display()).into()) }
    }

    /// Begins to fill and free it, until that is ended.
    pub fn trouble(&self, seed: u64) -> Trouble {
        let (over, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ballast, ends, count) = (self.place.join("ballast"), Arc::clone(&over), Arc::clone(&times));
        let thread = thread::spawn(move || {
            let mut dice = Dice::named(seed, "disk", 0);
            while !ends.load(Ordering::Relaxed) {
                rest(&ends, dice.between(200, 2_500));
                fill(&ballast);
                count.fetch_add(1, Ordering::Relaxed);
                rest(&ends, dice.between(50, 1_500));
                // It is there: it was just made.
                let _ = std::fs::remove_file(&ballast);
            }
        });
        Trouble { over, times, thread: Some(thread) }
    }
}

/// Waits, but not for long once it is over.
fn rest(over: &AtomicBool, ms: u64) {
    for _ in 0..ms / 25 {
        if !over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(25));
        }
    }
}

/// Writes until nothing fits any more, in ever smaller pieces.
fn fill(ballast: &Path) {
    let Ok(mut file) = File::create(ballast) else { return };
    let mut size = 1 << 20;
    while size >= 1 << 10 {
        if file.write_all(&vec![0; size]).is_err() {
            size /= 4;
        }
    }
}

/// A disk that is being filled and freed.
pub struct Trouble {
    over: Arc<AtomicBool>,
    times: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Trouble {
    /// Leaves it free; says how often it was full.
    pub fn end(mut self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A filler that panicked has filled nothing since.
            let _ = thread.join();
        }
        self.times.load(Ordering::Relaxed)
    }
}
