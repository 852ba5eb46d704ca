//! What cannot be avoided: a sync of the disk, and a round trip over a pipe to a Python process that does nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

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
}

impl Pipe {
    /// Starts it and waits until it answers.
    pub fn open(python: &Path) -> io::Result<Pipe> {
        let mut child = Command::new(python).args(["-I", "-S", "-c", ECHO]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take();
        let from = child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        let mut pipe = Pipe { child, to, from };
        pipe.round_trips(50)?;
        Ok(pipe)
    }

    /// Sends and receives, again and again.
    pub fn round_trips(&mut self, count: usize) -> io::Result<Vec<Duration>> {
        let to = self.to.as_mut().ok_or_else(|| io::Error::other("no stdin"))?;
        let mut answer = [0; MESSAGE.len()];
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            to.write_all(MESSAGE)?;
            self.from.read_exact(&mut answer)?;
            samples.push(start.elapsed());
        }
        Ok(samples)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}
