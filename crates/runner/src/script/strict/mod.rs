//! The isolation profiles: what a script's processes can reach besides what they are given.
//!
//! # A cell
//!
//! Under [`Profile::Strict`] a worker lives in a cell. Two processes, both this binary, stand between the guardian and it:
//!
//! ```text
//! guardian ── maker (new namespaces, then gone) ── keeper (process 1 of the cell) ── worker
//! ```
//!
//! The maker enters new user, mount, process, network, IPC and host-name namespaces, and opens the doors to the declared hosts,
//! which are listening sockets that it hands to the guardian. The keeper makes the file system that the cell sees, and starts the
//! worker without any privilege, under Landlock where the kernel has it, and under a system call filter. When the keeper ends the
//! kernel kills all that lives in the cell. All three speak to the guardian through one socket, a message each:
//!
//! maker: `u` in the namespaces (answer `m`: ids are mapped), `n` the doors as descriptors, `d<pid>` the keeper is started;
//! keeper: `r` ready for the worker's descriptors (answer `p`), `s` the worker is started, `e<how>` it ended; either: `f<reason>`, and keeper: `x<reason>` where it is
//! the worker's program that cannot be started.

mod doors;
mod guard;
mod keeper;
mod loopback;
mod maker;
mod message;
mod probe;
mod proxy;
mod rules;
mod tree;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::{Language, RunnerConfig, ScriptCode};
use super::fault::Fault;
use super::launch::Launch;

use doors::Doors;
pub(crate) use guard::{Celled, Wanted, enter};
pub(crate) use keeper::keeper_main;
pub(crate) use maker::maker_main;
pub(crate) use probe::{probe_main, probed_main};

pub use probe::{InForce, probe};

/// How far a script's processes are kept from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The scripts are the operator's own: they run as the engine's user, with limits and a clean environment.
    #[default]
    Trusted,
    /// The scripts are somebody's: they run in a cell.
    Strict,
}

impl Profile {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Trusted => "trusted",
            Profile::Strict => "strict",
        }
    }

    /// The profile of that name.
    pub fn of(name: &str) -> Option<Profile> {
        [Profile::Trusted, Profile::Strict].into_iter().find(|profile| profile.name() == name)
    }

    /// What holds where nobody chose: a home that takes scripts from whoever has a token does not trust them.
    pub fn default_for(serves_tokens: bool) -> Profile {
        if serves_tokens { Profile::Strict } else { Profile::Trusted }
    }
}

/// The arguments that make the binary one of a cell's processes.
pub(crate) const MAKER: &str = "--maker";
pub(crate) const KEEPER: &str = "--keeper";
pub(crate) const PROBE: &str = "--probe";
pub(crate) const PROBED: &str = "--probed";

/// The first of the users that cells have where the engine is root: those that systemd gives services for as long as they run.
const FIRST_USER: u32 = 61184;
const USERS: u32 = 4336;

/// What a cell is like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Folders that can be read and run from, besides the system's.
    pub(crate) read: Vec<OsString>,
    /// The home: nothing of it is seen, whatever it lies in, but what is named here.
    pub(crate) home: OsString,
    /// The worker's folder, the one place where files can be written.
    pub(crate) scratch: OsString,
    /// The user that the worker is, if not the engine's.
    pub(crate) user: Option<u32>,
    /// Whether it has the engine's network: only what is built in has, and checks hosts itself.
    pub(crate) engine_network: bool,
    /// The hosts that it can reach from a network of its own.
    pub(crate) doors: Option<Doors>,
}

impl Cell {
    /// The cell for a worker with this folder.
    pub(crate) fn of(config: &RunnerConfig, code: &ScriptCode, launch: &Launch, scratch: &Path, marker: &str) -> Cell {
        let home = config.scratch.parent().unwrap_or(&config.scratch);
        let mut read = Vec::new();
        if !code.language.is_native() {
            read.extend(installation(&launch.program));
        }
        if let Some(folder) = &launch.environment {
            read.push(folder.clone());
        }
        Cell {
            read: read.into_iter().map(Into::into).collect(),
            home: home.into(),
            scratch: scratch.into(),
            user: user_for(marker),
            engine_network: code.language == Language::Http,
            doors: if code.language == Language::Http { None } else { Doors::of(config.hosts_for(code)) },
        }
    }

    /// The environment of what runs in it, on top of the clean one.
    pub(crate) fn environment(&self, work: &str) -> Vec<(OsString, OsString)> {
        let work = self.scratch().join(work).into_os_string();
        let doors = self.doors.iter().flat_map(|_| Doors::environment()).map(|(name, value)| (name.into(), value.into()));
        ["HOME", "TMPDIR"].into_iter().map(|name| (name.into(), work.clone())).chain(doors).collect()
    }

    fn scratch(&self) -> &Path {
        Path::new(&self.scratch)
    }
}

/// The user of a cell, by the tree's random marker; `None` if the engine cannot be another one than it is.
pub(crate) fn user_for(marker: &str) -> Option<u32> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let digits: String = marker.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    Some(FIRST_USER + u32::from_str_radix(&digits, 16).unwrap_or(0) % USERS)
}

/// Gives a folder of the worker's to the user that the worker is.
pub(crate) fn hand_over(folder: &Path, user: Option<u32>) -> std::io::Result<()> {
    match user {
        Some(id) => std::os::unix::fs::chown(folder, Some(id), Some(id)),
        None => Ok(()),
    }
}

/// Why a script is not run under the profile: what it asks for is not its own to ask for.
pub(crate) fn refusal(config: &RunnerConfig, code: &ScriptCode) -> Option<Fault> {
    let kept: Vec<&str> = code.settings.env.iter().map(String::as_str).filter(|name| !config.env_allow.iter().any(|allowed| allowed == name)).collect();
    (!kept.is_empty()).then(|| {
        let message = format!(
            "script {} asks for the engine's variables {} (env): under the strict profile the operator names in VIAT_SCRIPT_ENV what scripts see",
            code.name,
            kept.join(", ")
        );
        Fault::no_worker(message)
    })
}

/// Where a program and what belongs to it lie, and where what it is a link to does.
fn installation(program: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).ok();
    // a virtual environment names the Python that it was made from
    let config = program.parent().and_then(Path::parent).and_then(|folder| std::fs::read_to_string(folder.join("pyvenv.cfg")).ok());
    let base = config.and_then(|text| {
        let home = text.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='))?;
        std::fs::canonicalize(Path::new(home.trim()).join(program.file_name()?)).ok()
    });
    let mut found: Vec<PathBuf> = [Some(program.to_path_buf()), real, base].into_iter().flatten().filter_map(|path| belonging(&path)).collect();
    found.sort();
    found.dedup();
    found
}

/// The folder above a program's `bin` if that is an installation, else the folder that it lies in: `~/bin` is no reason to show a home.
fn belonging(program: &Path) -> Option<PathBuf> {
    const SIGNS: [&str; 4] = ["pyvenv.cfg", "lib/node_modules", "include/node", "lib/python3"];
    let folder = program.parent()?;
    let above = folder.parent()?;
    let has_python =
        std::fs::read_dir(above.join("lib")).is_ok_and(|found| found.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("python3")));
    let is_installation = above.components().count() > 1 && (has_python || SIGNS.iter().any(|sign| above.join(sign).exists()));
    Some(if is_installation { above } else { folder }.to_path_buf())
}
