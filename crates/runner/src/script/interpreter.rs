//! Finds the Python to start: the interpreter itself, never a version manager's shim.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::python;

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program to start.
    pub path: PathBuf,
    /// The worker's modules, compiled by this interpreter: that is half of a worker's start.
    pub(crate) bundle: Option<Arc<[u8]>>,
}

impl Interpreter {
    /// Exactly this program, unchecked: a wrong one shows as `pool_spawn_failed`.
    pub fn at(path: impl Into<PathBuf>) -> Interpreter {
        Interpreter { path: path.into(), bundle: None }
    }

    /// The interpreter behind `given`, or behind the `python3` on PATH.
    ///
    /// That may be a shim, which costs 0.1 s and more a start, so what it says of `sys.executable` is kept in
    /// `cache_dir`, for as long as the file, its modification time and `PYENV_VERSION` stay the same; the worker's
    /// compiled modules are kept beside it.
    pub fn resolve(cache_dir: &Path, given: Option<&Path>) -> io::Result<Interpreter> {
        let found = std::path::absolute(located(given.unwrap_or(Path::new("python3")))?)?;
        let sources = python::sources();
        let key = key(&found, &sources).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", found.display())))?;
        let cache = cache_dir.join(format!("python-{key:016x}"));
        if let Ok(said) = fs::read(&cache)
            && let Some(interpreter) = read(&said)
            && interpreter.path.exists()
        {
            return Ok(interpreter);
        }
        let said = ask(&found, &sources)?;
        let Some(interpreter) = read(&said) else {
            return Err(io::Error::other(format!("{} is no usable Python: it does not say which it is", found.display())));
        };
        remember(&cache, &said);
        Ok(interpreter)
    }
}

/// A path as it is; a bare name is looked up as a shell would.
pub(super) fn located(given: &Path) -> io::Result<PathBuf> {
    match given.to_str().filter(|name| !name.contains('/')) {
        Some(name) => on_path(name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no {name} on PATH"))),
        None => Ok(given.to_path_buf()),
    }
}

/// Keeps what a program said of itself. That only saves time: not being able to write it is no failure.
pub(super) fn remember(cache: &Path, said: &[u8]) {
    let (Some(folder), draft) = (cache.parent(), cache.with_extension(std::process::id().to_string())) else { return };
    let _ = fs::create_dir_all(folder).and_then(|()| fs::write(&draft, said)).and_then(|()| fs::rename(draft, cache));
}

/// Python 3.9, as major · 100 + minor.
const OLDEST: u32 = 309;

pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

/// Changes with the program behind a path.
pub(super) fn file_key(path: &Path) -> io::Result<u64> {
    let mut key = DefaultHasher::new();
    (path, fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default()).hash(&mut key);
    Ok(key.finish())
}

/// Changes with everything that decides which Python answers, and with what it is to compile.
fn key(path: &Path, sources: &str) -> io::Result<u64> {
    let mut key = DefaultHasher::new();
    (path, fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default(), sources).hash(&mut key);
    env::var_os("PYENV_VERSION").hash(&mut key);
    // pyenv's global choice lies in a file of its own; a folder's `.python-version` does not choose for an engine
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    root.and_then(|root| fs::read(root.join("version")).ok()).hash(&mut key);
    Ok(key.finish())
}

/// The first line is the path, the rest the compiled modules (python/viat/compiler.py).
fn read(said: &[u8]) -> Option<Interpreter> {
    let end = said.iter().position(|byte| *byte == b'\n')?;
    let path = PathBuf::from(OsStr::from_bytes(&said[..end]));
    path.is_absolute().then(|| Interpreter { path, bundle: Some(Arc::from(&said[end + 1..])) })
}

/// Says in so many words that a Python is too old, where it did not even understand what it was asked.
fn refuse_old(path: &Path) -> io::Result<()> {
    let done = Command::new(path).current_dir("/").args(["-c", "import sys; print(sys.version_info[0] * 100 + sys.version_info[1])"]).output();
    let done = done.map_err(|error| io::Error::new(error.kind(), format!("{} cannot be started: {error}", path.display())))?;
    let version: u32 = String::from_utf8_lossy(&done.stdout).trim().parse().unwrap_or(0);
    if version < OLDEST {
        let (major, minor) = (version / 100, version % 100);
        return Err(io::Error::other(format!("{} is Python {major}.{minor}; 3.9 or newer is needed", path.display())));
    }
    Ok(())
}

fn ask(path: &Path, sources: &str) -> io::Result<Vec<u8>> {
    let mut child = Command::new(path)
        .current_dir("/")
        .args(["-I", "-S", "-c", python::COMPILER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{} cannot be started: {error}", path.display())))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(sources.as_bytes());
    }
    let done = child.wait_with_output()?;
    if !done.status.success() {
        refuse_old(path)?;
        let why = String::from_utf8_lossy(&done.stderr).trim().to_string();
        return Err(io::Error::other(format!("{} is no usable Python: {why}", path.display())));
    }
    Ok(done.stdout)
}
