//! The keeper: process 1 of a cell. It makes what the cell sees, starts the worker without privileges, and takes the cell down when that ends.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Gid, Uid, WaitOptions, wait};
use rustix::stdio::{dup2_stdin, stderr, stdin};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_thread_gid, set_thread_groups, set_thread_uid};

use super::message::{hear, say};
use super::rules::Rules;
use super::{Cell, tree};
use crate::script::config::Language;
use crate::script::guardian::{describe, start};

/// The keeper's whole life. Stdin is the socket to the guardian; the arguments are the cell, the worker's language and its command line.
pub(crate) fn keeper_main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Ok(control) = fcntl_dupfd_cloexec(stdin(), 3) else { return ExitCode::from(71) };
    let cell = args.next().and_then(|text| serde_json::from_str::<Cell>(text.to_str()?).ok());
    let language = args.next().and_then(|name| Language::of(name.to_str()?));
    let (Some(cell), Some(language), Some(program)) = (cell, language, args.next()) else { return ExitCode::from(64) };
    let worker = Worker { language, program, args: args.collect() };
    match begin(&cell, worker, &control) {
        Ok(pid) => keep(pid, control),
        Err(reason) => {
            let _ = say(&control, &reason);
            ExitCode::from(71)
        }
    }
}

/// What is started in the cell.
struct Worker {
    language: Language,
    program: OsString,
    args: Vec<OsString>,
}

/// Waits for the worker's end, or the guardian's. When this process ends the kernel kills what is left in the cell.
fn keep(pid: u32, control: OwnedFd) -> ExitCode {
    let control = Arc::new(control);
    let ear = Arc::clone(&control);
    let listening = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
        // the guardian says nothing more: this is its end
        let _ = hear(&*ear);
        std::process::exit(0);
    });
    if listening.is_ok() && say(&*control, "s").is_ok() {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((ended, status))) if ended.as_raw_nonzero().get().cast_unsigned() == pid => {
                    let _ = say(&*control, &format!("e{}", describe(status)));
                    break;
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }
    ExitCode::SUCCESS
}

/// Makes the cell and starts the worker in it; gives its process id, as the cell counts, or what the guardian is to be told.
fn begin(cell: &Cell, worker: Worker, control: &OwnedFd) -> Result<u32, String> {
    let ready = tree::build(cell).and_then(|()| Rules::of(cell));
    let started = ready.and_then(|rules| Ok((rules, descriptors(control)?))).map_err(|reason| format!("f{reason}"));
    let (rules, ends) = started?;
    let started = start_confined(cell.user, worker, rules, ends);
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    clear_ambient_capability_set().and_then(|()| set_capabilities(None, none)).map_err(|error| format!("frights cannot be given up: {error}"))?;
    started
}

/// The worker's end of the protocol socket, and of the pipe that says go and cancel.
fn descriptors(control: &OwnedFd) -> Result<(OwnedFd, OwnedFd), String> {
    say(control, "r").map_err(|error| error.to_string())?;
    let ends = match hear(control) {
        Ok(Some((answer, fds))) if answer == "p" => {
            let mut fds = fds.into_iter();
            fds.next().zip(fds.next()).ok_or("the guardian hands nothing over")?
        }
        _ => return Err("the guardian is gone".to_owned()),
    };
    let null = File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?;
    dup2_stdin(&null).map_err(|error| error.to_string())?;
    Ok(ends)
}

/// Starts the worker from a thread of its own: its rights, and what is forbidden to it, are the worker's, and not the keeper's.
fn start_confined(user: Option<u32>, worker: Worker, rules: Rules, (protocol, cancel): (OwnedFd, OwnedFd)) -> Result<u32, String> {
    let log = fcntl_dupfd_cloexec(stderr(), 3).map_err(|error| format!("f{error}"))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            give_up(user).map_err(|error| format!("frights cannot be given up: {error}"))?;
            rules.apply().map_err(|reason| format!("f{reason}"))?;
            start(worker.language, &worker.program, worker.args, protocol, cancel, log)
                .map_err(|error| format!("x{}: {error}", worker.program.to_string_lossy()))
        });
        thread.join().map_err(|_| "fa thread ended".to_owned())?
    })
}

/// Takes all rights from the calling thread, and makes it another user where there is one.
fn give_up(user: Option<u32>) -> io::Result<()> {
    if let Some(id) = user {
        set_thread_groups(&[])?;
        set_thread_gid(Gid::from_raw(id))?;
        set_thread_uid(Uid::from_raw(id))?;
    }
    let none = CapabilitySets { effective: CapabilitySet::empty(), permitted: CapabilitySet::empty(), inheritable: CapabilitySet::empty() };
    clear_ambient_capability_set()?;
    set_capabilities(None, none)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}
