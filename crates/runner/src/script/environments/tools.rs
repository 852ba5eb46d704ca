//! The tools that build environments: where they are, and running one with its words kept.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::build::Site;
use crate::resources;
use crate::script::interpreter::on_path;

/// What one tool may take before it is ended.
const LIMIT: Duration = Duration::from_secs(1800);
/// What is kept of a tool's words as the reason of a failure, in characters.
const REASON: usize = 2_000;

/// The tools of a machine; what is not there is missed only by who needs it.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Installs packages of Python.
    pub uv: Option<PathBuf>,
    /// Installs packages of JavaScript.
    pub npm: Option<PathBuf>,
    /// The Python of the home.
    pub python: Option<PathBuf>,
    /// The Node of the home.
    pub node: Option<PathBuf>,
    /// Take packages as they come and build none: building one runs what its author wrote.
    pub build_nothing: bool,
}

impl Tools {
    /// Looks for a tool: the one that was named, on PATH, in the folders given, beside the interpreter.
    pub fn find(name: &str, named: Option<PathBuf>, folders: &[PathBuf], beside: Option<&Path>) -> Option<PathBuf> {
        let in_folder = |folder: &Path| Some(folder.join(name)).filter(|file| file.is_file());
        named
            .or_else(|| on_path(name))
            .or_else(|| folders.iter().find_map(|folder| in_folder(folder)))
            .or_else(|| beside.and_then(Path::parent).and_then(in_folder))
    }
}

/// The interpreter that an environment is for.
pub(super) struct Chosen {
    pub(super) path: PathBuf,
    /// All of it that decides which packages fit.
    pub(super) identity: String,
}

/// Why a build ended.
pub(super) enum Trouble {
    /// Reading or writing failed.
    Io(io::Error),
    /// A tool said so, or is missing.
    Said(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

/// Runs a tool to its end and gives what it wrote to stdout; the rest is added to the build's log.
pub(super) fn run(site: &Site<'_>, name: &str, command: &mut Command) -> Result<String, Trouble> {
    let before = fs::metadata(&site.log).map_or(0, |log| log.len());
    let log = File::options().append(true).create(true).open(&site.log)?;
    // packages run code of their own while they are built
    for hidden in [resources::GIVEN, resources::NAMED] {
        command.env_remove(hidden);
    }
    // a group of its own: what it starts is ended with it
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0).spawn();
    let mut child = started.map_err(|error| Trouble::Said(format!("{name} cannot be started: {error}")))?;
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.map(|mut stdout| stdout.read_to_string(&mut text)).transpose().map(|_| text)
    });
    let ended = wait(&mut child)?;
    let said = reader.join().map_err(|_| io::Error::other("a thread ended"))??;
    match ended {
        Some(status) if status.success() => Ok(said),
        Some(_) => Err(Trouble::Said(reason(&fs::read(&site.log)?[usize::try_from(before).unwrap_or(0)..], &said, name))),
        None => Err(Trouble::Said(format!("{name} did not end within {} min", LIMIT.as_secs() / 60))),
    }
}

fn wait(child: &mut Child) -> io::Result<Option<std::process::ExitStatus>> {
    let end = Instant::now() + LIMIT;
    let mut pause = Duration::from_millis(2);
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(None)
}

/// The end of what the tool said.
fn reason(log: &[u8], stdout: &str, name: &str) -> String {
    let log = String::from_utf8_lossy(log);
    let said = if log.trim().is_empty() { stdout.trim() } else { log.trim() };
    let from = said.char_indices().rev().nth(REASON - 1).map_or(0, |(at, _)| at);
    if said.is_empty() { format!("{name} failed and said nothing") } else { format!("{name}: {}", &said[from..]) }
}
