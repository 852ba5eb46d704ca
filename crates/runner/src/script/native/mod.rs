//! Workers of the languages that are built in: the engine's own binary, speaking the protocol of all workers.

mod channel;
mod http;
mod shell;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use super::config::Language;
use super::worker::WORK;
use channel::Channel;
pub(crate) use shell::interpreter;

/// The number of a worker's descriptors starts here, out of the way of what a script opens by number.
const FIRST_FD: i32 = 100;

/// A worker's whole life. Stdin is its protocol socket, stdout the pipe that says go and cancel, stderr the log.
pub(crate) fn worker_main(language: &OsStr) -> ExitCode {
    let served = language.to_str().and_then(Language::of).map(serve);
    match served {
        Some(Ok(())) => ExitCode::SUCCESS,
        // the engine is gone, or speaks another protocol: there is nobody to tell
        Some(Err(_)) => ExitCode::from(70),
        None => ExitCode::from(64),
    }
}

fn serve(language: Language) -> io::Result<()> {
    let protocol = fcntl_dupfd_cloexec(stdin(), FIRST_FD)?;
    let cancel = fcntl_dupfd_cloexec(stdout(), FIRST_FD)?;
    let log = fcntl_dupfd_cloexec(stderr(), FIRST_FD)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    let mut cancel = File::from(cancel);
    let mut go = [0];
    cancel.read_exact(&mut go)?;
    let folder = std::env::current_dir()?;
    std::env::set_current_dir(folder.join(WORK))?;
    let mut channel = Channel::new(protocol);
    let (_, init) = channel.receive()?;
    let parts = parts(&init);
    let start = Start { name: text(&parts, 0), source: text(&parts, 1), limit: text(&parts, 2).parse().unwrap_or(usize::MAX), more: text(&parts, 3), folder };
    match language {
        Language::Http => http::serve(start, channel, cancel),
        _ => shell::serve(&start, channel, cancel, File::from(log)),
    }
}

/// What the first frame says.
struct Start {
    name: String,
    source: String,
    limit: usize,
    /// What only this language's workers are told.
    more: String,
    /// The worker's folder; the attempt's working directory lies in it.
    folder: std::path::PathBuf,
}

fn parts(body: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut found) = (body, Vec::new());
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = (u32::from_le_bytes(*size) as usize).min(after.len());
        found.push(&after[..size]);
        rest = &after[size..];
    }
    found
}

fn text(parts: &[&[u8]], at: usize) -> String {
    parts.get(at).map(|part| String::from_utf8_lossy(part).into_owned()).unwrap_or_default()
}
