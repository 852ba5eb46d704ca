//! What a script is made of and how its workers are kept: the settings of the pools.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::interpreter::Interpreter;

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// `def main(**args)` in Python 3.9 or newer.
    Python,
}

/// One version of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCode {
    /// The script's name; tracebacks call the file `<name>.py`.
    pub name: String,
    /// Its version; together with name and hash it names the pool.
    pub version: u64,
    /// The language it is written in.
    pub language: Language,
    /// Its text.
    pub source: Arc<str>,
    /// The content hash of the text.
    pub hash: String,
}

/// How many workers a script version may have, and how long an attempt may wait for one.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Workers kept alive, once the pool has been used, even when idle.
    pub min: usize,
    /// Workers at most.
    pub max: usize,
    /// Attempts that may wait for a worker in use; more are refused with `queue_full`.
    pub queue: usize,
    /// How long an attempt waits for a worker in use before `queue_wait_timeout`.
    pub queue_wait: Duration,
    /// Attempts after which a worker is replaced.
    pub recycle_after: u64,
    /// How long a worker above `min` stays idle before it is ended.
    pub idle_after: Duration,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            min: 0,
            max: processors().clamp(4, 16),
            queue: 10_000,
            queue_wait: Duration::from_secs(600),
            recycle_after: 10_000,
            idle_after: Duration::from_secs(300),
        }
    }
}

/// Everything the pools need to know of the machine and of the engine's settings.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// The Python to start.
    pub interpreter: Interpreter,
    /// The command that becomes a guardian; the guardian's own arguments follow.
    pub guardian: Vec<OsString>,
    /// Names of the engine's environment variables that scripts may see (`VIAT_SCRIPT_ENV`).
    pub env_allow: Vec<String>,
    /// Where workers get their working directories.
    pub scratch: PathBuf,
    /// The settings of every pool.
    pub pool: PoolConfig,
    /// Time between the cooperative signal of an attempt's timeout and the kill.
    pub timeout_grace: Duration,
    /// Time a worker may take to start and load its script.
    pub spawn_limit: Duration,
    /// Bytes of an attempt's log that are kept.
    pub log_limit: usize,
    /// Bytes a return value may take as JSON.
    pub value_limit: usize,
    /// Workers at most over all pools; at the cap an idle worker of another pool makes room.
    pub max_workers: usize,
    /// Put each tree into a cgroup of its own where the machine allows it.
    pub use_cgroups: bool,
}

impl RunnerConfig {
    /// Defaults that suit a laptop; the guardian is the running binary itself.
    pub fn new(interpreter: Interpreter, scratch: impl Into<PathBuf>) -> RunnerConfig {
        RunnerConfig {
            interpreter,
            // not the path of the binary: it may be replaced while the engine runs
            guardian: vec!["/proc/self/exe".into(), super::guardian::ARGUMENT.into()],
            env_allow: Vec::new(),
            scratch: scratch.into(),
            pool: PoolConfig::default(),
            timeout_grace: Duration::from_millis(500),
            spawn_limit: Duration::from_secs(60),
            log_limit: 1 << 20,
            value_limit: 64 << 20,
            max_workers: (processors() * 4).max(16),
            use_cgroups: true,
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The clean environment of a script: a few harmless names, what the operator granted, nothing else.
pub(crate) fn environment(allow: &[String]) -> Vec<(OsString, OsString)> {
    const PLAIN: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
    std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| PLAIN.contains(&name) || name.starts_with("LC_") || allow.iter().any(|each| each == name)))
        .collect()
}
