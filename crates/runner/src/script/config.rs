//! What a script is made of and how its workers are kept: the settings of the pools.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::environments::Environments;
use super::http::Hosts;
use super::interpreter::Interpreter;
use super::limits::Limits;
use super::node::NodeFinder;
use super::settings::{Isolation, Settings};
use super::strict::Profile;

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// `def main(**args)` in Python 3.9 or newer.
    Python,
    /// `export default async function main(args, viat)` in JavaScript, or in TypeScript whose types are taken away.
    JavaScript,
    /// A shell script: a process for each attempt.
    Shell,
    /// A request template: see [`super::http`].
    Http,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 4] = [Language::Python, Language::JavaScript, Language::Shell, Language::Http];

    /// The word for it on the command line and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::JavaScript => "javascript",
            Language::Shell => "shell",
            Language::Http => "http",
        }
    }

    /// The language of that name.
    pub fn of(name: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.name() == name)
    }

    /// Whether its workers are the engine's own binary.
    pub(crate) fn is_native(self) -> bool {
        matches!(self, Language::Shell | Language::Http)
    }
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
    /// What is run: its text, or what was made of it when it was created (types taken away, a template read).
    pub source: Arc<str>,
    /// The content hash of the text.
    pub hash: String,
    /// What it says of itself in its `script` block.
    pub settings: Settings,
    /// The key of the environment that it needs.
    pub environment: Option<String>,
}

impl ScriptCode {
    /// A script that says nothing of itself.
    pub fn new(name: impl Into<String>, version: u64, language: Language, source: impl Into<Arc<str>>, hash: impl Into<String>) -> ScriptCode {
        ScriptCode { name: name.into(), version, language, source: source.into(), hash: hash.into(), settings: Settings::default(), environment: None }
    }

    /// Whether a worker serves one attempt only: Node cannot fork, so there a fresh process is a fresh worker.
    pub(crate) fn is_used_once(&self) -> bool {
        self.settings.isolation == Isolation::Fresh && self.language == Language::JavaScript
    }
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
    /// Bytes that a worker may grow by, after its first 32 attempts, before it is replaced.
    pub recycle_growth: u64,
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
            recycle_growth: 512 << 20,
            idle_after: Duration::from_secs(300),
        }
    }
}

/// Everything the pools need to know of the machine and of the engine's settings.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// The Python to start; where there is none, scripts in Python fail as `pool_spawn_failed`.
    pub interpreter: Option<Interpreter>,
    /// The Node to start, likewise.
    pub node: NodeFinder,
    /// Where built environments lie.
    pub environments: Environments,
    /// Which hosts requests of `http` scripts may go to.
    pub hosts: Hosts,
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
    /// How far scripts are kept from the machine.
    pub profile: Profile,
    /// What the operator gives any script at most; a script may have less.
    pub most: Limits,
    /// Put each tree into a cgroup of its own where the machine allows it.
    pub use_cgroups: bool,
}

impl RunnerConfig {
    /// Defaults that suit a laptop; the guardian is the running binary itself.
    pub fn new(interpreter: impl Into<Option<Interpreter>>, scratch: impl Into<PathBuf>) -> RunnerConfig {
        let scratch = scratch.into();
        RunnerConfig {
            interpreter: interpreter.into(),
            node: NodeFinder::default(),
            environments: Environments::at(scratch.with_file_name("environments")),
            hosts: Hosts::default(),
            // not the path of the binary: it may be replaced while the engine runs
            guardian: vec!["/proc/self/exe".into(), super::guardian::ARGUMENT.into()],
            env_allow: Vec::new(),
            scratch,
            pool: PoolConfig::default(),
            timeout_grace: Duration::from_millis(500),
            spawn_limit: Duration::from_secs(60),
            log_limit: 1 << 20,
            value_limit: 64 << 20,
            max_workers: (processors() * 4).max(16),
            profile: Profile::default(),
            most: Limits::default(),
            use_cgroups: true,
        }
    }
}

impl RunnerConfig {
    /// The hosts that a script may speak to: what the operator allows, and of that what the script says it wants.
    pub(crate) fn hosts_for(&self, code: &ScriptCode) -> Hosts {
        let declared = code.settings.network.clone();
        match self.profile {
            Profile::Trusted => Hosts { declared, ..self.hosts.clone() },
            Profile::Strict => Hosts { declared: Some(declared.unwrap_or_default()), private_by_name: true, ..self.hosts.clone() },
        }
    }

    /// What an attempt of this script may use.
    pub fn limits_of(&self, code: &ScriptCode) -> Limits {
        self.limited(&code.settings.limits)
    }

    /// What a script that says this of itself may use: of each limit the lower one, its own or the operator's, who need not name all.
    pub fn limited(&self, own: &Limits) -> Limits {
        match self.profile {
            Profile::Trusted => own.within(&self.most),
            Profile::Strict => own.within(&self.most.or(&Limits::for_strangers())),
        }
    }

    /// Bytes that a script's value may take.
    pub(crate) fn value_limit_of(&self, code: &ScriptCode) -> usize {
        let own = self.limits_of(code).output.and_then(|bytes| usize::try_from(bytes).ok());
        own.map_or(self.value_limit, |own| own.min(self.value_limit))
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The clean environment of a script: a few harmless names, what the operator granted, nothing else.
pub(crate) fn environment(allow: &[String], own: &[String]) -> Vec<(OsString, OsString)> {
    const PLAIN: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
    // what opens secrets is for the engine alone, whatever the operator lets through
    let granted = |name: &str| !name.starts_with("VIAT_SECRET_") && allow.iter().chain(own).any(|each| each == name);
    std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| PLAIN.contains(&name) || name.starts_with("LC_") || granted(name))).collect()
}
