//! The server under test: started, and killed at a moment that was chosen before.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::lab::Lab;
use crate::shell::Done;

/// A server that runs, or did.
pub struct Server {
    child: Child,
    /// Where it listens; `None`: it ended before it said so.
    pub port: Option<u16>,
}

impl Server {
    /// Starts it and waits until it says where it listens, or ends. It is killed so long after it was started, or after it
    /// listens.
    pub fn start(lab: &Lab, kill: Option<Kill>) -> Done<Server> {
        let mut command = lab.command(&["server", "--port", "0"]);
        if let Some(clock) = &lab.clock {
            clock.on(&mut command);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or("the server has no stderr")?;
        let pid = Pid::from_child(&child);
        if let Some(Kill::AfterStart(wait)) = kill {
            kill_later(pid, wait);
        }
        let mut log = OpenOptions::new().create(true).append(true).open(lab.log())?;
        let mut lines = BufReader::new(stderr).lines();
        let mut port = None;
        while port.is_none() {
            let Some(Ok(line)) = lines.next() else { break };
            writeln!(log, "{line}")?;
            port = port_of(&line);
        }
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The log is for people; a line less of it changes nothing.
                let _ = writeln!(log, "{line}");
            }
        });
        if let (Some(Kill::AfterReady(wait)), Some(_)) = (kill, port) {
            kill_later(pid, wait);
        }
        Ok(Server { child, port })
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Done<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> Done<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Asks it to end, and waits for that.
    pub fn end(&mut self) -> Done<ExitStatus> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.wait()
    }
}

/// When the server is killed.
#[derive(Clone, Copy, Debug)]
pub enum Kill {
    /// So long after it was started: it may not have come to listen yet.
    AfterStart(Duration),
    /// So long after it listens.
    AfterReady(Duration),
}

/// The process is our child and is not waited for before it is dead, so its id is nobody else's.
fn kill_later(pid: Pid, wait: Duration) {
    thread::spawn(move || {
        thread::sleep(wait);
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    });
}

/// The port that a line of the server names, if it does.
fn port_of(line: &str) -> Option<u16> {
    line.contains("http://").then(|| line.rsplit(':').next()?.trim().parse().ok()).flatten()
}
