//! Finds the Node to start, and remembers what it said of itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::interpreter::{file_key, located, on_path, remember};

/// The oldest Node that is taken.
const OLDEST: u32 = 18;
const ASK: &str =
    "process.stdout.write(JSON.stringify({path: process.execPath, version: process.versions.node, strips: !!require('module').stripTypeScriptTypes}))";

/// A Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The program to start.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
    /// Whether it can take the types out of TypeScript by itself.
    pub strips: bool,
}

impl Node {
    /// The Node behind `given`, or behind the `node` on PATH; `Ok(None)` if nothing was given and there is none.
    ///
    /// What it says of itself is kept in `cache_dir` for as long as the file stays the same.
    ///
    /// # Errors
    /// It does not start, or is too old.
    pub fn resolve(cache_dir: &Path, given: Option<&Path>) -> io::Result<Option<Node>> {
        let found = match given {
            Some(path) => located(path)?,
            None => match on_path("node").or_else(|| on_path("nodejs")) {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let found = std::path::absolute(found)?;
        let key = file_key(&found).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", found.display())))?;
        let cache = cache_dir.join(format!("node-{key:016x}"));
        if let Some(node) = fs::read(&cache).ok().and_then(|said| serde_json::from_slice::<Node>(&said).ok()).filter(|node| node.path.exists()) {
            return node.checked().map(Some);
        }
        let said = ask(&found)?;
        let node: Node =
            serde_json::from_slice(&said).map_err(|_| io::Error::other(format!("{} is no usable Node: it does not say which it is", found.display())))?;
        remember(&cache, &said);
        node.checked().map(Some)
    }

    fn checked(self) -> io::Result<Node> {
        let major: u32 = self.version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if major < OLDEST {
            return Err(io::Error::other(format!("{} is Node {}; {OLDEST} or newer is needed", self.path.display(), self.version)));
        }
        Ok(self)
    }
}

/// The Node of an engine: looked for when the first script needs it, for most homes never do.
#[derive(Clone, Debug, Default)]
pub struct NodeFinder {
    cache_dir: PathBuf,
    given: Option<PathBuf>,
    found: Arc<OnceLock<Result<Node, String>>>,
}

impl NodeFinder {
    /// Looks as [`Node::resolve`] does, when it has to.
    pub fn new(cache_dir: impl Into<PathBuf>, given: Option<PathBuf>) -> NodeFinder {
        NodeFinder { cache_dir: cache_dir.into(), given, found: Arc::default() }
    }

    /// The Node, or why there is none.
    pub fn find(&self) -> Result<&Node, &str> {
        let look = || match Node::resolve(&self.cache_dir, self.given.as_deref()) {
            Ok(Some(node)) => Ok(node),
            Ok(None) => Err("there is no node (viat doctor)".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.found.get_or_init(look).as_ref().map_err(String::as_str)
    }
}

fn ask(path: &Path) -> io::Result<Vec<u8>> {
    let cannot = |error: io::Error| io::Error::new(error.kind(), format!("{} cannot be started: {error}", path.display()));
    let done = Command::new(path).current_dir("/").args(["-e", ASK]).stdin(Stdio::null()).output().map_err(cannot)?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr).trim().to_string();
        return Err(io::Error::other(format!("{} is no usable Node: {why}", path.display())));
    }
    Ok(done.stdout)
}
