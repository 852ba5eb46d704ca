//! Tries whether a cell can be had on this machine, and looks at one from inside.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use super::{Cell, PROBE, PROBED, guard, hand_over, rules, user_for};
use crate::script::config::{Language, RunnerConfig};

/// What holds a strict script on this machine, as a process in a cell found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// The user that it was.
    pub user: u32,
    /// Whether that is another one than the engine's.
    pub other_user: bool,
    /// Landlock's version; `None` if the kernel has none.
    pub landlock: Option<u32>,
    /// Whether a filter on system calls was in force.
    pub seccomp: bool,
    /// Whether no program could give it rights.
    pub no_new_privs: bool,
    /// Processes that it saw besides itself and its keeper.
    pub foreign_processes: usize,
    /// Network devices that it saw besides its own loopback.
    pub networks: usize,
}

/// Makes a cell, looks at it from inside and takes it down.
///
/// # Errors
/// What cannot be had here, as a sentence.
pub fn probe(config: &RunnerConfig) -> Result<InForce, String> {
    let marker = fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|error| error.to_string())?.trim().to_owned();
    let home = std::path::absolute(config.scratch.parent().unwrap_or(&config.scratch)).map_err(|error| error.to_string())?;
    let scratch = std::path::absolute(config.scratch.join(&marker)).map_err(|error| error.to_string())?;
    let user = user_for(&marker);
    fs::create_dir_all(&scratch).and_then(|()| hand_over(&scratch, user)).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let cell = Cell { read: Vec::new(), home: home.into(), scratch: scratch.clone().into(), user, engine_network: false, doors: None };
    let found = ask(config, &cell);
    let _ = fs::remove_dir_all(&scratch);
    found.map_err(|error| error.to_string())?
}

fn ask(config: &RunnerConfig, cell: &Cell) -> io::Result<Result<InForce, String>> {
    let (program, args) = config.guardian.split_first().ok_or_else(|| io::Error::other("no guardian is configured"))?;
    let done = Command::new(program).args(args).arg(PROBE).arg(serde_json::to_string(cell)?).env_clear().stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    match said.trim().split_at_checked(1) {
        Some(("{", _)) => {
            let mut found: InForce = serde_json::from_str(said.trim())?;
            found.other_user = found.user != rustix::process::geteuid().as_raw();
            Ok(Ok(found))
        }
        _ if said.trim().is_empty() => Ok(Err(format!("the guardian ends with {}", done.status))),
        _ => Ok(Err(said.trim().to_owned())),
    }
}

/// The probe's guardian: has one cell made in which [`probed_main`] looks around, and passes on what that says.
pub(crate) fn probe_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(cell) = args.next().and_then(|text| serde_json::from_str::<Cell>(text.to_str()?).ok()) else { return ExitCode::from(64) };
    match look(&cell) {
        Ok(said) | Err(said) => {
            let _ = rustix::io::write(rustix::stdio::stdout(), said.as_bytes());
            ExitCode::SUCCESS
        }
    }
}

fn look(cell: &Cell) -> Result<String, String> {
    let problem = |error: io::Error| error.to_string();
    let (mut read, write) = io::pipe().map_err(problem)?;
    let log = fs::File::options().write(true).open("/dev/null").map_err(problem)?;
    let (go, wait) = io::pipe().map_err(problem)?;
    let program = OsString::from("/proc/self/exe");
    let what = guard::Wanted { language: Language::Shell, program: &program, args: vec![crate::script::GUARDIAN_ARGUMENT.into(), PROBED.into()] };
    // a built-in worker's second descriptor is its stdout
    let celled = guard::enter(cell, what, &go.into(), &write.into(), &log.into())?;
    drop(wait);
    let mut said = String::new();
    io::Read::read_to_string(&mut read, &mut said).map_err(problem)?;
    drop(celled);
    Ok(said)
}

/// What is run in the probe's cell.
pub(crate) fn probed_main() -> ExitCode {
    // its end is the word that the guardian has seen this process
    let _ = io::Read::read(&mut io::stdin(), &mut [0]);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next().map(str::to_owned));
    let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let found = InForce {
        user: rustix::process::geteuid().as_raw(),
        other_user: false,
        landlock: rules::landlock_version(),
        seccomp: field("Seccomp:").as_deref() == Some("2"),
        no_new_privs: field("NoNewPrivs:").as_deref() == Some("1"),
        foreign_processes: crate::script::process::all().into_iter().filter(|pid| *pid != 1 && *pid != std::process::id()).count(),
        networks: devices.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo").count(),
    };
    let said = serde_json::to_string(&found).unwrap_or_default();
    let _ = rustix::io::write(rustix::stdio::stdout(), said.as_bytes());
    ExitCode::SUCCESS
}
