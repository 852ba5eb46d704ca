//! Finds the Python to start: the interpreter itself, never a version manager's shim.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program to start.
    pub path: PathBuf,
}

impl Interpreter {
    /// Exactly this program, unchecked: a wrong one shows as `pool_spawn_failed`.
    pub fn at(path: impl Into<PathBuf>) -> Interpreter {
        Interpreter { path: path.into() }
    }

    /// The interpreter behind `given`, or behind the `python3` on PATH.
    ///
    /// That may be a shim, which costs 0.1 s and more a start, so what it says of `sys.executable` is kept in
    /// `cache_dir`, for as long as the file, its modification time and `PYENV_VERSION` stay the same.
    pub fn resolve(cache_dir: &Path, given: Option<&Path>) -> io::Result<Interpreter> {
        let found = match given {
            Some(path) => path.to_path_buf(),
            None => on_path("python3").ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no python3 on PATH"))?,
        };
        let key = key(&found)?;
        let cache = cache_dir.join("interpreter");
        if let Ok(text) = fs::read_to_string(&cache)
            && let Some((of, path)) = text.trim_end().split_once('\n')
            && of == key
            && Path::new(path).exists()
        {
            return Ok(Interpreter::at(path));
        }
        let path = ask(&found)?;
        // the cache only saves time: not being able to write it is no failure
        let _ = fs::create_dir_all(cache_dir).and_then(|()| {
            let draft = cache_dir.join(format!("interpreter.{}", std::process::id()));
            fs::write(&draft, format!("{key}\n{}\n", path.display()))?;
            fs::rename(draft, cache)
        });
        Ok(Interpreter::at(path))
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

fn key(path: &Path) -> io::Result<String> {
    let changed = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let chosen = env::var("PYENV_VERSION").unwrap_or_default().replace('\n', " ");
    // pyenv's global choice lies in a file of its own; a project's `.python-version` does not choose for an engine
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    let global = root.and_then(|root| fs::read_to_string(root.join("version")).ok()).unwrap_or_default().replace('\n', " ");
    Ok(format!("{} {changed} {chosen} {global}", path.display()))
}

fn ask(path: &Path) -> io::Result<PathBuf> {
    let done = Command::new(path).args(["-I", "-c", "import sys; print(sys.executable)"]).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stdout).trim().to_string();
    if !done.status.success() || said.is_empty() {
        let why = String::from_utf8_lossy(&done.stderr).trim().to_string();
        return Err(io::Error::other(format!("{} is no usable Python: {why}", path.display())));
    }
    Ok(PathBuf::from(said))
}
