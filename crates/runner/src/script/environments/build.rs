//! Building an environment: find a lock for the request, install it beside, make it durable, give it its name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::tools::{Tools, Trouble};
use super::{Entry, Environments, Language, Request, State, is_whole, javascript, python, write_durably};

/// The file that makes an environment a whole one.
pub(super) const DESCRIPTION: &str = "environment.json";

/// A builder's place: the request, and where its files go.
pub(super) struct Site<'a> {
    pub(super) request: &'a Request,
    /// What is being built.
    pub(super) draft: PathBuf,
    /// What the tools said so far.
    pub(super) log: PathBuf,
    pub(super) tools: &'a Tools,
}

impl Environments {
    /// Builds what was asked for under a key, unless that is done; blocks, for minutes maybe, also while another
    /// process builds it.
    ///
    /// # Errors
    /// The folder cannot be written, or nothing was asked for under this key. What goes wrong in the building itself is the state
    /// [`State::Failed`].
    pub fn build(&self, key: &str, tools: &Tools) -> io::Result<State> {
        fs::create_dir_all(self.root.join("requests"))?;
        let busy = File::options().create(true).truncate(false).write(true).open(self.file(key, "busy"))?;
        busy.lock()?; // let go of when this process ends, however it does
        let Some(entry) = self.entry(key)? else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no environment {key} was asked for")));
        };
        if entry.state != State::Building {
            return Ok(entry.state);
        }
        let site = Site { request: &entry.request, draft: self.root.join(format!("building-{key}")), log: self.file(key, "log"), tools };
        let state = match self.make(key, &site) {
            Ok(environment) => State::Ready { environment },
            Err(Trouble::Io(error)) => State::Failed { reason: error.to_string() },
            Err(Trouble::Said(reason)) => State::Failed { reason },
        };
        let _ = fs::remove_dir_all(&site.draft);
        self.write(key, &Entry { request: entry.request.clone(), state: state.clone() })?;
        Ok(state)
    }

    /// The name of the environment, which is whole when this returns.
    fn make(&self, key: &str, site: &Site<'_>) -> Result<String, Trouble> {
        // a builder that died may have left it
        if site.draft.exists() {
            fs::remove_dir_all(&site.draft)?;
        }
        fs::create_dir_all(&site.draft)?;
        fs::write(&site.log, "")?;
        let interpreter = match site.request.language() {
            Language::JavaScript => javascript::interpreter(site)?,
            _ => python::interpreter(site)?,
        };
        let lock = self.locked(key, site, &interpreter.path)?;
        let hash = blake3::hash(format!("{}\n{}\n{lock}", site.request.language().name(), interpreter.identity).as_bytes());
        let name = hash.to_hex()[..32].to_owned();
        let home = self.folder(&name);
        if is_whole(site.request.language(), &home) {
            return Ok(name);
        }
        match site.request.language() {
            Language::JavaScript => javascript::install(site, &lock)?,
            _ => python::install(site, &interpreter.path, &lock)?,
        }
        let described = serde_json::json!({"request": site.request, "interpreter": interpreter.identity, "lock": lock});
        fs::write(site.draft.join(DESCRIPTION), described.to_string())?;
        publish(&site.draft, &home, &self.root)?;
        Ok(name)
    }

    /// The exact versions: those found before, or now.
    fn locked(&self, key: &str, site: &Site<'_>, interpreter: &Path) -> Result<String, Trouble> {
        let file = self.file(key, "lock");
        if let Ok(lock) = fs::read_to_string(&file) {
            return Ok(lock);
        }
        let lock = match site.request.language() {
            Language::JavaScript => javascript::lock(site)?,
            _ => python::lock(site, interpreter)?,
        };
        write_durably(&file, lock.as_bytes())?;
        Ok(lock)
    }
}

/// Everything in the draft reaches the disk before the draft gets its name.
fn publish(draft: &Path, home: &Path, root: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(draft)?)?;
    if home.exists() {
        // damaged: it was looked at
        fs::remove_dir_all(home)?;
    }
    match fs::rename(draft, home) {
        // another request with the same lock was quicker
        Err(error) if !home.exists() => Err(error),
        _ => File::open(root)?.sync_all(),
    }
}
