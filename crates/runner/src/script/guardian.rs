//! The guardian: the small process between engine and worker that can prove the worker's whole tree dead.
//!
//! It knows of a script's language only where its descriptors go. Its three standard streams are all it gets: stdin is the worker's end of
//! the protocol socket (passed on), stdout the control socket, stderr the worker's log pipe (passed on).
//! It is a subreaper, so whatever the worker starts is its descendant for good, daemons included; when
//! waiting for a child says "no children", nothing of the tree is left: that is the proof of death.
//!
//! Control, engine to guardian: `c<attempt id>` passes the cooperative signal on, `k` kills the tree, and the
//! end of the stream (the engine died) kills it too. Guardian to engine: `s<pid> <parent>` started, `f<reason>` could not
//! start, `e<how>` the worker ended, `l<sentence>` the tree is over a limit and is being killed, `d` the whole tree is
//! dead (and so is the guardian, at once).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{WaitOptions, WaitStatus, getpid, set_child_subreaper, setsid, wait};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use serde::{Deserialize, Serialize};

use super::config::Language;
use super::limits::Limits;
use super::strict::{self, Cell, Celled};
use super::{cgroup, native, process};

/// The argument that makes the binary a guardian.
pub const ARGUMENT: &str = "__guardian";
/// The argument after that which makes it a worker of a language that is built in.
pub(crate) const WORKER: &str = "--worker";
/// High, so that a script that opens a file after closing everything does not get a number of ours.
const HIGH_FD: i32 = 100;
/// Low: Node closes, in what it starts, only the first few descriptors that it inherits.
const LOW_FD: i32 = 3;
/// How often a tree is looked at that has limits which nothing else holds.
const WATCH_EVERY: Duration = Duration::from_millis(50);
/// Every how many looks its files are looked at, too.
const FILES_EVERY: u32 = 5;

/// What a guardian is told when it is started.
#[derive(Serialize, Deserialize)]
pub(crate) struct Charge {
    /// The tree's cgroup; a path need not be text.
    pub(crate) cgroup: Option<OsString>,
    /// Its folder.
    pub(crate) scratch: OsString,
    /// The worker's language, by name.
    pub(crate) language: String,
    /// What the tree may use.
    pub(crate) limits: Limits,
    /// The cell that the worker lives in, if it is not trusted.
    pub(crate) cell: Option<Cell>,
}

/// The guardian's whole life; the binary's `main` calls it when its first argument is `__guardian`.
///
/// The arguments after that are what it is charged with, as JSON, and the worker's command line, to which the numbers of
/// the protocol descriptor and the cancel descriptor are appended. A worker that is built in has them as stdin and stdout.
pub fn guardian_main() -> ExitCode {
    let mut args = std::env::args_os().skip_while(|arg| arg != ARGUMENT).skip(1);
    let Some(charge) = args.next() else { return ExitCode::from(64) };
    match charge.to_str() {
        Some(strict::MAKER) => return strict::maker_main(args),
        Some(strict::KEEPER) => return strict::keeper_main(args),
        Some(strict::PROBE) => return strict::probe_main(args),
        Some(strict::PROBED) => return strict::probed_main(),
        _ => {}
    }
    let Some(program) = args.next() else { return ExitCode::from(64) };
    if charge == WORKER {
        return native::worker_main(&program);
    }
    let Some(charge) = charge.to_str().and_then(|text| serde_json::from_str::<Charge>(text).ok()) else { return ExitCode::from(64) };
    let place = Place { cgroup: charge.cgroup.clone().map(PathBuf::from), scratch: PathBuf::from(charge.scratch.clone()) };
    let done = guard(&place, &charge, &program, args.collect());
    // only reached when no worker was started
    place.clear();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(71),
    }
}

/// What the tree occupies besides processes.
#[derive(Clone)]
struct Place {
    cgroup: Option<PathBuf>,
    scratch: PathBuf,
}

impl Place {
    fn clear(&self) {
        if let Some(folder) = &self.cgroup {
            cgroup::remove(folder);
        }
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Returns only if no worker could be started; else the process ends when the tree is dead.
fn guard(place: &Place, charge: &Charge, program: &OsString, args: Vec<OsString>) -> io::Result<()> {
    let language = Language::of(&charge.language).ok_or_else(|| io::Error::other("no such language"))?;
    let _ = setsid(); // Ctrl-C at the terminal is the engine's to handle
    set_child_subreaper(Some(getpid()))?;
    let protocol = fcntl_dupfd_cloexec(stdin(), 3)?;
    let control = UnixStream::from(fcntl_dupfd_cloexec(stdout(), 3)?);
    let log = fcntl_dupfd_cloexec(stderr(), 3)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;

    let (cancel_read, mut cancel) = io::pipe()?;
    let started = match &charge.cell {
        Some(cell) => Started::in_cell(cell, strict::Wanted { language, program, args }, &protocol, &cancel_read.into(), &log),
        None => {
            let started = start(language, program, args, protocol, cancel_read.into(), log).map(Started::alone);
            started.map_err(|error| format!("{}: {error}", program.to_string_lossy()))
        }
    };
    let started = match started {
        Ok(started) => started,
        Err(reason) => return say(&control, &format!("f{reason}")),
    };
    let (worker, root) = (started.worker, started.root());
    // before the go: the worker runs nothing of the script until it is in its cgroup
    let folder = place.cgroup.as_deref().filter(|folder| cgroup::write(&folder.join("cgroup.procs"), &worker.to_string()).is_ok());
    let watched = charge.limits.confine(folder);
    let limited = charge.limits.apply(worker, language).and_then(|()| if charge.cell.is_some() { charge.limits.apply_in_cell(worker) } else { Ok(()) });

    let control = Arc::new(control);
    let (reports, to_clear) = (Arc::clone(&control), place.clone());
    let reaper = std::thread::Builder::new().stack_size(128 << 10).spawn(move || reap(&started, &reports, &to_clear));
    if let Err(error) = limited.and_then(|()| start_watch(watched, root, &control, place)) {
        // a worker without its limits must not run
        let _ = say(&control, &format!("fthe limits of the script could not be set: {error}"));
        kill_all(folder);
    }
    let _ = cancel.write_all(b"g");
    let _ = say(&control, &format!("s{worker} {root}")); // an engine that is gone shows when it is listened to
    if reaper.is_ok() {
        listen(&control, cancel);
    }
    kill_all(folder)
}

/// A worker that runs.
struct Started {
    worker: u32,
    celled: Option<Celled>,
}

impl Started {
    fn alone(worker: u32) -> Started {
        Started { worker, celled: None }
    }

    /// The descriptors are the worker's alone afterwards.
    fn in_cell(cell: &Cell, what: strict::Wanted<'_>, protocol: &OwnedFd, cancel: &OwnedFd, log: &OwnedFd) -> Result<Started, String> {
        let celled = strict::enter(cell, what, protocol, cancel, log)?;
        Ok(Started { worker: celled.worker, celled: Some(celled) })
    }

    /// Whose children the worker and its orphans are.
    fn root(&self) -> u32 {
        self.celled.as_ref().map_or_else(std::process::id, |celled| celled.keeper)
    }

    /// The child of the guardian whose end is the worker's.
    fn child(&self) -> u32 {
        self.celled.as_ref().map_or(self.worker, |celled| celled.keeper)
    }

    fn how_ended(&self, status: WaitStatus) -> String {
        self.celled.as_ref().and_then(Celled::last_word).unwrap_or_else(|| describe(status))
    }
}

fn start_watch(limits: Limits, root: u32, control: &Arc<UnixStream>, place: &Place) -> io::Result<()> {
    if limits == Limits::default() {
        return Ok(());
    }
    let (control, place) = (Arc::clone(control), place.clone());
    std::thread::Builder::new().stack_size(256 << 10).spawn(move || watch(&limits, root, &control, &place)).map(drop)
}

/// Looks at the tree from time to time, and kills it when it is over a limit.
fn watch(limits: &Limits, root: u32, control: &UnixStream, place: &Place) {
    for turn in 1u32.. {
        std::thread::sleep(WATCH_EVERY);
        let files = || if turn.is_multiple_of(FILES_EVERY) { limits.overfilled(&place.scratch) } else { None };
        if let Some(sentence) = limits.exceeded(root).or_else(files) {
            let _ = say(control, &format!("l{sentence}"));
            kill_all(place.cgroup.as_deref());
        }
    }
}

/// Starts the worker itself; gives its process id.
pub(crate) fn start(language: Language, program: &OsString, args: Vec<OsString>, protocol: OwnedFd, cancel: OwnedFd, log: OwnedFd) -> io::Result<u32> {
    let mut command = Command::new(program);
    command.args(args).process_group(0); // a script that signals its group must not hit the guardian
    if language.is_native() {
        return Ok(command.stdin(protocol).stdout(cancel).stderr(log).spawn()?.id());
    }
    let first_fd = if language == Language::JavaScript { LOW_FD } else { HIGH_FD };
    let (protocol, cancel) = (fcntl_dupfd_cloexec(&protocol, first_fd)?, fcntl_dupfd_cloexec(&cancel, first_fd)?);
    // only the worker is ever started: nothing else can inherit these
    fcntl_setfd(&protocol, FdFlags::empty())?;
    fcntl_setfd(&cancel, FdFlags::empty())?;
    let child =
        command.arg(protocol.as_raw_fd().to_string()).arg(cancel.as_raw_fd().to_string()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
    Ok(child.id())
}

fn say(mut control: &UnixStream, line: &str) -> io::Result<()> {
    control.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())
}

/// Waits for every child; ends the process when there are none, which is when the tree is dead.
fn reap(started: &Started, control: &UnixStream, place: &Place) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().cast_unsigned() == started.child() => {
                let _ = say(control, &format!("e{}", started.how_ended(status)));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let _ = say(control, "d");
    place.clear();
    std::process::exit(0);
}

pub(crate) fn describe(status: WaitStatus) -> String {
    if let Some(signal) = status.terminating_signal() {
        return format!("was killed by signal {signal}{}", signal_name(signal));
    }
    format!("exited with code {}", status.exit_status().unwrap_or(-1))
}

pub(crate) fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        14 => " (SIGALRM)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        25 => " (SIGXFSZ)",
        31 => " (SIGSYS)",
        _ => "",
    }
}

/// Obeys the engine until it says kill or is gone.
fn listen(control: &UnixStream, mut cancel: PipeWriter) {
    for line in BufReader::new(control).split(b'\n') {
        match line.as_deref() {
            Ok([b'c', attempt @ ..]) => {
                let _ = cancel.write_all(&[attempt, b"\n"].concat());
            }
            _ => return,
        }
    }
}

/// Kills until the reaper ends this process.
fn kill_all(folder: Option<&Path>) -> ! {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(folder) = folder {
            let _ = cgroup::kill(folder);
        }
        for each in process::descendants(std::process::id()) {
            let _ = process::kill(&each);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
