//! The guardian's part of a cell: it has the cell made, maps the ids, and hands the worker's descriptors over.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use rustix::process::{WaitOptions, wait};

use super::message::{hand, hear, pair, say};
use super::{Cell, MAKER, proxy};
use crate::script::config::Language;
use crate::script::limits::below;

/// A worker in its cell, as the guardian sees it.
pub(crate) struct Celled {
    /// The worker's process id.
    pub(crate) worker: u32,
    /// The keeper's.
    pub(crate) keeper: u32,
    control: OwnedFd,
}

impl Celled {
    /// What the keeper said of the worker's end, once the keeper is dead.
    pub(crate) fn last_word(&self) -> Option<String> {
        let mut last = None;
        while let Ok(Some((text, _))) = hear(&self.control) {
            last = text.strip_prefix('e').map(str::to_owned).or(last);
        }
        last
    }
}

/// What is run in a cell.
pub(crate) struct Wanted<'a> {
    pub(crate) language: Language,
    pub(crate) program: &'a OsString,
    pub(crate) args: Vec<OsString>,
}

/// Has the cell made and the worker started in it.
///
/// # Errors
/// What the machine does not do, or what is wrong with the program, as a sentence.
pub(crate) fn enter(cell: &Cell, what: Wanted<'_>, protocol: &OwnedFd, cancel: &OwnedFd, log: &OwnedFd) -> Result<Celled, String> {
    let no_cell = |error: io::Error| format!("the strict profile cannot be had: {error}");
    let (control, theirs) = pair().map_err(no_cell)?;
    let mut maker = start_maker(cell, what, theirs, log).map_err(no_cell)?;
    let keeper = converse(cell, &control, maker.id(), protocol, cancel);
    // it ends by itself, or has been told that nobody listens by now
    let keeper = match keeper {
        Ok(keeper) => keeper,
        Err(reason) => {
            drop(control);
            while !matches!(wait(WaitOptions::empty()), Err(rustix::io::Errno::CHILD)) {}
            return Err(reason);
        }
    };
    let _ = maker.wait();
    match below(keeper, 1).first() {
        Some(worker) => Ok(Celled { worker: *worker, keeper, control }),
        None => match hear(&control) {
            Ok(Some((text, _))) if text.starts_with('e') => Err(format!("the interpreter {}", &text[1..])),
            _ => Err("the worker's cell is gone".to_owned()),
        },
    }
}

fn start_maker(cell: &Cell, what: Wanted<'_>, control: OwnedFd, log: &OwnedFd) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg(crate::script::GUARDIAN_ARGUMENT)
        .arg(MAKER)
        .arg(serde_json::to_string(cell)?)
        .arg(what.language.name())
        .arg(what.program)
        .args(what.args)
        .stdin(Stdio::from(control))
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log.try_clone()?))
        .spawn()
}

/// Hears the cell's processes until the worker is started; gives the keeper's process id.
fn converse(cell: &Cell, control: &OwnedFd, maker: u32, protocol: &OwnedFd, cancel: &OwnedFd) -> Result<u32, String> {
    let no_cell = |reason: String| format!("the strict profile cannot be had: {reason}");
    let mut keeper = None;
    loop {
        let said = hear(control).map_err(|error| no_cell(error.to_string()))?;
        let Some((text, fds)) = said else { return Err(no_cell("the cell's processes ended and said nothing".to_owned())) };
        let answered = match text.split_at_checked(1) {
            Some(("u", _)) => map(cell, maker).and_then(|()| say(control, "m")),
            Some(("d", pid)) => {
                keeper = pid.parse().ok();
                Ok(())
            }
            Some(("n", _)) => match cell.doors.clone() {
                Some(doors) => proxy::serve(doors, fds.into_iter().map(Into::into).collect()),
                None => Ok(()),
            },
            Some(("r", _)) => hand(control, "p", &[protocol.as_fd(), cancel.as_fd()]),
            Some(("s", _)) => return keeper.ok_or_else(|| no_cell("the cell has no keeper".to_owned())),
            Some(("x", reason)) => return Err(reason.to_owned()),
            Some(("f", reason)) => return Err(no_cell(reason.to_owned())),
            _ => return Err(no_cell(format!("the cell says {text:?}"))),
        };
        answered.map_err(|error| no_cell(error.to_string()))?;
    }
}

/// Only root maps others than itself; whoever is not root has done it already.
fn map(cell: &Cell, maker: u32) -> io::Result<()> {
    let Some(user) = cell.user else { return Ok(()) };
    let both = format!("0 0 1\n{user} {user} 1");
    for file in ["uid_map", "gid_map"] {
        let done = fs::write(format!("/proc/{maker}/{file}"), &both);
        done.map_err(|error| io::Error::new(error.kind(), format!("user {user}, whom the cell is to have, cannot be mapped: {error}")))?;
    }
    Ok(())
}
