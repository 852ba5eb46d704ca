//! The maker: enters the namespaces of a cell, starts the keeper in them, and is gone.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{getegid, geteuid};
use rustix::stdio::{dup2_stdin, stdin};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, capabilities, configure_capability_in_ambient_set, set_capabilities};

use super::message::{hand, hear, say};
use super::{Cell, KEEPER, loopback};

/// The maker's whole life. Stdin is the socket to the guardian; the arguments are the cell and the worker's command line.
pub(crate) fn maker_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Ok(control) = fcntl_dupfd_cloexec(stdin(), 3) else { return ExitCode::from(71) };
    let Some(text) = args.next() else { return ExitCode::from(64) };
    let Some(cell) = text.to_str().and_then(|text| serde_json::from_str::<Cell>(text).ok()) else { return ExitCode::from(64) };
    match make(&cell, text, args.collect(), &control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = say(&control, &format!("f{reason}"));
            ExitCode::from(71)
        }
    }
}

fn make(cell: &Cell, text: OsString, command: Vec<OsString>, control: &OwnedFd) -> Result<(), String> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(cell).map_err(|error| format!("namespaces cannot be made here (user, mount, pid, network, ipc, uts): {error}"))?;
    if cell.user.is_none() {
        map_self(user, group).map_err(|error| format!("the user of the cell cannot be mapped: {error}"))?;
    }
    say(control, "u").map_err(|error| error.to_string())?;
    match hear(control) {
        Ok(Some((answer, _))) if answer == "m" => {}
        _ => return Err("the guardian is gone".to_owned()),
    }
    if let Some(doors) = &cell.doors {
        let listeners = loopback::open(doors).map_err(|error| format!("the network of the cell cannot be made: {error}"))?;
        let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
        hand(control, "n", &fds).map_err(|error| error.to_string())?;
    }
    keep_right_to_mount().map_err(|error| format!("no rights in the new user namespace: {error}"))?;
    let keeper = spawn(text, command, control).map_err(|error| format!("the keeper of the cell cannot be started: {error}"))?;
    say(control, &format!("d{keeper}")).map_err(|error| error.to_string())
}

/// `unshare` is deprecated in favour of an unsafe function because of flags that share descriptors no longer; none of these does.
#[allow(deprecated)]
fn unshare(cell: &Cell) -> rustix::io::Result<()> {
    let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !cell.engine_network {
        flags |= UnshareFlags::NEWNET;
    }
    rustix::thread::unshare(flags)
}

/// Whoever is not root may map itself and nobody else.
fn map_self(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Starting a program takes the rights of the namespace away from whoever is not root in it; the keeper needs this one.
fn keep_right_to_mount() -> rustix::io::Result<()> {
    let now = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::SYS_ADMIN, ..now })?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

fn spawn(text: OsString, command: Vec<OsString>, control: &OwnedFd) -> io::Result<u32> {
    dup2_stdin(control)?;
    let keeper = Command::new("/proc/self/exe").arg(crate::script::GUARDIAN_ARGUMENT).arg(KEEPER).arg(text).args(command).stdin(Stdio::inherit()).spawn()?;
    Ok(keeper.id())
}
