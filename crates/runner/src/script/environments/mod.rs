//! Dependency environments: what a script needs installed, built once per lock, never on the way of an attempt.
//!
//! ```text
//! environments/
//!   requests/KEY.json   what was asked for, and how far it is: building, ready or failed
//!   requests/KEY.lock   the exact versions that were found for it; a rebuild takes the same ones
//!   requests/KEY.log    what the tools said
//!   requests/KEY.busy   held locked by the process that builds: the lock of a dead builder is free
//!   building-KEY        what is being built; nobody looks at it
//!   HASH                a whole environment, named by its lock and the interpreter that it is for
//! ```
//!
//! A folder gets its final name only when everything in it is on the disk, so there is no half environment. A request
//! that is `building` while nobody holds its lock is one whose builder died: whoever finds it has it built again.

mod build;
mod javascript;
mod python;
mod request;
mod tools;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use request::Request;
pub use tools::Tools;

use super::config::Language;
use super::fault::{Fault, FaultKind};

/// How far an environment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It was asked for and is not there yet.
    Building,
    /// It can be used.
    Ready {
        /// Its folder's name.
        environment: String,
    },
    /// It could not be built.
    Failed {
        /// What the tool said, in a few lines.
        reason: String,
    },
}

impl State {
    /// The state's name.
    pub fn name(&self) -> &'static str {
        match self {
            State::Building => "building",
            State::Ready { .. } => "ready",
            State::Failed { .. } => "failed",
        }
    }
}

/// What was asked for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked for.
    pub request: Request,
    /// How far it is.
    #[serde(flatten)]
    pub state: State,
}

/// The environments of a home.
#[derive(Debug, Clone)]
pub struct Environments {
    root: PathBuf,
}

impl Environments {
    /// Those in a folder, which need not be there yet.
    pub fn at(root: impl Into<PathBuf>) -> Environments {
        let root = root.into();
        Environments { root: std::path::absolute(&root).unwrap_or(root) }
    }

    /// Asks for an environment: it is to be built unless it is ready. Who asks sees to it that somebody builds.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn ask(&self, request: &Request) -> io::Result<State> {
        let key = request.key();
        if let Some(entry) = self.entry(&key)?
            && (entry.state == State::Building || self.is_whole(&entry))
        {
            return Ok(entry.state);
        }
        self.write(&key, &Entry { request: request.clone(), state: State::Building })?;
        Ok(State::Building)
    }

    /// Has an environment built anew; with `upgrade` from the newest versions that fit, otherwise from those of its lock.
    ///
    /// What uses it meanwhile goes on with what it has loaded.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn ask_again(&self, request: &Request, upgrade: bool) -> io::Result<()> {
        if upgrade {
            remove_if_there(&self.file(&request.key(), "lock"))?;
        }
        self.write(&request.key(), &Entry { request: request.clone(), state: State::Building })
    }

    /// What is known of a key; `None` if it was never asked for here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn entry(&self, key: &str) -> io::Result<Option<Entry>> {
        match fs::read(self.file(key, "json")) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Everything that was asked for, by key.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn entries(&self) -> io::Result<Vec<(String, Entry)>> {
        let listed = match fs::read_dir(self.root.join("requests")) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for file in listed {
            let name = file?.file_name().to_string_lossy().into_owned();
            if let Some(key) = name.strip_suffix(".json")
                && let Some(entry) = self.entry(key)?
            {
                found.push((key.to_owned(), entry));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// The requests whose builder died.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn abandoned(&self) -> io::Result<Vec<String>> {
        let building = self.entries()?.into_iter().filter(|(_, entry)| entry.state == State::Building);
        Ok(building.map(|(key, _)| key).filter(|key| !self.is_busy(key)).collect())
    }

    /// The lock and what the tools said, for people; empty where there is none.
    pub fn lock_and_log(&self, key: &str) -> (String, String) {
        let read = |ending: &str| fs::read(self.file(key, ending)).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        (read("lock"), read("log"))
    }

    /// The folder of a whole environment.
    pub fn folder(&self, environment: &str) -> PathBuf {
        self.root.join(environment)
    }

    /// The environment of a script, if it can be used.
    ///
    /// # Errors
    /// `environment_not_ready`, with what to do.
    pub fn ready(&self, key: &str, script: &str) -> Result<PathBuf, Fault> {
        let not_ready = |what: String| Fault::new(FaultKind::EnvironmentNotReady, format!("the environment of script {script} {what}"));
        let build = format!("viat env build {script}");
        let entry = self.entry(key).map_err(|error| not_ready(format!("cannot be looked at: {error}")))?;
        let Some(entry) = entry else { return Err(not_ready(format!("was never built here; build it: {build}"))) };
        match &entry.state {
            State::Building => Err(not_ready(format!("is still being built; wait for it: {build}"))),
            State::Failed { reason } => Err(not_ready(format!("could not be built: {reason}\nthe whole story: viat env show {script}; try again: {build}"))),
            State::Ready { environment } if self.is_whole(&entry) => Ok(self.folder(environment)),
            State::Ready { .. } => Err(not_ready(format!("is damaged, or its interpreter is gone; build it again: {build}"))),
        }
    }

    fn is_whole(&self, entry: &Entry) -> bool {
        match &entry.state {
            State::Ready { environment } => is_whole(entry.request.language(), &self.folder(environment)),
            State::Building | State::Failed { .. } => false,
        }
    }

    fn is_busy(&self, key: &str) -> bool {
        let opened = File::options().write(true).open(self.file(key, "busy"));
        opened.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    fn file(&self, key: &str, ending: &str) -> PathBuf {
        self.root.join("requests").join(format!("{key}.{ending}"))
    }

    fn write(&self, key: &str, entry: &Entry) -> io::Result<()> {
        write_durably(&self.file(key, "json"), serde_json::to_string_pretty(entry)?.as_bytes())
    }
}

/// Its description is written last, and its interpreter may have been taken from the machine since.
fn is_whole(language: Language, folder: &Path) -> bool {
    let needed = if language == Language::JavaScript { "node_modules" } else { "bin/python" };
    folder.join(build::DESCRIPTION).is_file() && folder.join(needed).exists()
}

/// Puts a file in place at once and for good.
fn write_durably(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = file.parent().ok_or_else(|| io::Error::other("a file has a folder"))?;
    fs::create_dir_all(folder)?;
    let draft = file.with_extension(format!("{}.draft", std::process::id()));
    let mut open = File::create(&draft)?;
    open.write_all(content)?;
    open.sync_all()?;
    fs::rename(&draft, file)?;
    File::open(folder)?.sync_all()
}

fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
