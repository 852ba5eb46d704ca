//! The worker of shell scripts: one `sh` for each attempt, its stdout read for the value, its files for what else it says.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Start;
use super::channel::{Channel, Given, checked};
use crate::script::fault::{Fault, FaultKind};
use crate::script::settings::secret_variable;
use crate::script::worker::WORK;

/// The exit code that says "transient": EX_TEMPFAIL.
const TRANSIENT: i32 = 75;
/// A variable longer than this is left to stdin: the kernel takes 128 KiB for one, name included.
const MAX_VARIABLE: usize = 100 << 10;
/// All `VIAT_ARG_*` together: the kernel takes 2 MiB for everything, the environment that is already there included.
const MAX_VARIABLES: usize = 1 << 20;
/// What a refusal or the list of deferred tasks may take.
const MAX_FILE: u64 = 4 << 20;
/// A line of progress that is longer says nothing.
const MAX_PROGRESS: usize = 16 << 10;

/// Serves attempts until the engine is gone.
pub(super) fn serve(start: &Start, mut channel: Channel, cancel: File, log: File) -> io::Result<()> {
    // its name is the author's choice: in a folder of its own it is in nobody's way
    let folder = start.folder.join("script");
    fs::create_dir_all(&folder)?;
    let script = folder.join(&start.name);
    fs::write(&script, &start.source)?;
    let files = Files {
        output: start.folder.join("output"),
        error: start.folder.join("error"),
        defer: start.folder.join("defer"),
        progress: start.folder.join("progress"),
    };
    rustix::fs::mkfifoat(rustix::fs::CWD, &files.progress, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    // open for both, so that a writer never waits for a reader and the end never comes
    let progress = File::options().read(true).write(true).open(&files.progress)?;
    rustix::io::ioctl_fionbio(&progress, true)?;
    let mut shell = Shell { start, program: interpreter(&start.source), script, files, progress, cancel, log, told: Vec::new(), cancelled: String::new() };
    channel.ready()?;
    loop {
        let given = channel.next_call()?;
        let outcome = shell.attempt(&given, &mut channel)?;
        channel.end(outcome)?;
    }
}

/// What the first line asks for, if it is a shell; else `sh`.
pub(crate) fn interpreter(source: &str) -> String {
    let line = source.lines().next().unwrap_or_default();
    let words = line.strip_prefix("#!").unwrap_or_default().split_ascii_whitespace();
    let name = words.filter(|word| !word.ends_with("/env")).find(|word| !word.starts_with('-')).map(|word| word.rsplit('/').next().unwrap_or(word));
    match name {
        Some(shell @ ("sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "busybox")) => shell.to_owned(),
        _ => "sh".to_owned(),
    }
}

/// Where a script writes what its stdout is not for.
struct Files {
    output: PathBuf,
    error: PathBuf,
    defer: PathBuf,
    progress: PathBuf,
}

struct Shell<'a> {
    start: &'a Start,
    program: String,
    script: PathBuf,
    files: Files,
    progress: File,
    cancel: File,
    log: File,
    /// Half a line of progress.
    told: Vec<u8>,
    /// Half a line from the cancel pipe.
    cancelled: String,
}

/// The last line of stdout, in bounded memory.
struct LastLine {
    line: Vec<u8>,
    /// The line before, while the current one is empty.
    ended: bool,
    limit: usize,
    too_long: bool,
}

impl LastLine {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if std::mem::take(&mut self.ended) {
                self.line.clear();
                self.too_long = false;
            }
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            self.ended = ended;
            if self.line.len() + text.len() > self.limit {
                self.too_long = true;
            } else {
                self.line.extend_from_slice(text);
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    code: String,
    #[serde(default)]
    message: String,
    status: Option<u16>,
    extra: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    workflow: String,
    #[serde(default)]
    args: Map<String, Value>,
}

impl Shell<'_> {
    /// One attempt; an error means that the engine is gone.
    fn attempt(&mut self, given: &Given, channel: &mut Channel) -> io::Result<Result<Vec<u8>, Fault>> {
        self.clear();
        self.told.clear();
        let args = match given.arguments() {
            Ok(args) => args,
            Err(fault) => return Ok(Err(fault)),
        };
        let (read, write) = io::pipe()?;
        let mut child = match self.spawn(given, &args, OwnedFd::from(write)) {
            Ok(child) => child,
            Err(error) => return Ok(Err(Fault::no_worker(format!("{} could not be started: {error}", self.program)))),
        };
        let mut last = LastLine { line: Vec::new(), ended: false, limit: self.start.limit, too_long: false };
        let stdout = File::from(OwnedFd::from(read));
        rustix::io::ioctl_fionbio(&stdout, true)?;
        let feeder = feed(child.stdin.take(), given.args.get());
        self.listen(given, &child, stdout, &mut last, channel)?;
        let status = child.wait()?;
        // what the script did not read is dropped: its end of the pipe is closed
        drop(feeder);
        let outcome = match self.outcome(status, &last) {
            Ok(value) => Ok(self.defer(channel)?.map(|()| value)),
            Err(fault) => Ok(Err(fault)),
        };
        if !given.secrets.is_empty() {
            // they may hold one, and the next attempt may be long in coming
            self.clear();
        }
        outcome
    }

    fn clear(&self) {
        for file in [&self.files.output, &self.files.error, &self.files.defer] {
            let _ = fs::remove_file(file);
        }
    }

    fn spawn(&self, given: &Given, args: &Map<String, Value>, stdout: OwnedFd) -> io::Result<Child> {
        let context = &given.context;
        let version = context.version.map(|version| version.to_string()).unwrap_or_default();
        let mut command = Command::new(&self.program);
        // a process group of its own, so that the cooperative signal reaches what the script has started
        // the attempt's own: what the one before left was removed with its folder
        command.current_dir(self.start.folder.join(WORK));
        command.arg(&self.script).process_group(0).stdin(Stdio::piped()).stdout(stdout).stderr(self.log.try_clone()?);
        command
            .env("VIAT_RUN_ID", &context.run_id)
            .env("VIAT_WORKFLOW", &context.workflow)
            .env("VIAT_VERSION", version)
            .env("VIAT_STEP", &context.step)
            .env("VIAT_PATH", &context.path)
            .env("VIAT_ATTEMPT", context.attempt.to_string())
            .env("VIAT_IDEMPOTENCY_KEY", &context.idempotency_key)
            .env("VIAT_DEADLINE", context.deadline.as_deref().unwrap_or_default())
            .env("VIAT_OUTPUT", &self.files.output)
            .env("VIAT_ERROR", &self.files.error)
            .env("VIAT_DEFER", &self.files.defer)
            .env("VIAT_PROGRESS", &self.files.progress);
        for (name, value) in &given.secrets {
            command.env(secret_variable(name), value.as_str().unwrap_or_default());
        }
        let mut room = MAX_VARIABLES;
        for (name, value) in args {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let size = name.len() + text.len() + 16;
            if text.len() <= MAX_VARIABLE && size <= room && !text.contains('\0') {
                room -= size;
                command.env(variable(name), text);
            }
        }
        command.spawn()
    }

    /// Passes the output on, and hears what comes meanwhile, until the script has ended.
    fn listen(&mut self, given: &Given, child: &Child, mut stdout: File, last: &mut LastLine, channel: &mut Channel) -> io::Result<()> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        let (mut open, mut cancel_open) = (true, true);
        loop {
            let [out, end, progress, cancel, gone] = {
                let mut watched = vec![PollFd::new(&ended, PollFlags::IN), PollFd::new(&self.progress, PollFlags::IN)];
                let fd = channel.fd();
                watched.push(PollFd::from_borrowed_fd(fd, PollFlags::RDHUP));
                if open {
                    watched.push(PollFd::new(&stdout, PollFlags::IN));
                }
                if cancel_open {
                    watched.push(PollFd::from_borrowed_fd(self.cancel.as_fd(), PollFlags::IN));
                }
                match poll(&mut watched, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                let ready = |at: usize| watched.get(at).is_some_and(|one| !one.revents().is_empty());
                [open && ready(3), ready(0), ready(1), cancel_open && ready(3 + usize::from(open)), ready(2)]
            };
            if out || end {
                open = self.pass_on(&mut stdout, last)? && open;
            }
            if progress {
                self.hear_progress(channel)?;
            }
            if cancel {
                cancel_open = self.hear_cancel(given, pid)?;
            }
            if end {
                return Ok(());
            }
            if gone {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// What the script wrote to stdout, into the log and the last line; tells whether more can come.
    fn pass_on(&mut self, stdout: &mut File, last: &mut LastLine) -> io::Result<bool> {
        let mut buffer = [0; 64 << 10];
        // a flood gets its turn among the rest; what is left when the script ends is read to the end of the pipe's buffer
        for _ in 0..32 {
            match stdout.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    last.push(&buffer[..count]);
                    self.log.write_all(&buffer[..count])?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// A line is a number from 0 to 1, a note, or both.
    fn hear_progress(&mut self, channel: &mut Channel) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = self.progress.read(&mut buffer) {
            self.told.extend_from_slice(&buffer[..count]);
            while let Some(end) = self.told.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.told.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim();
                let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
                let fraction = first.parse::<f64>().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
                let note = if fraction.is_some() { rest.trim() } else { line };
                let said = json!({"fraction": fraction, "note": (!note.is_empty()).then_some(note)});
                channel.send(b'p', said.to_string().as_bytes())?;
            }
            if self.told.len() > MAX_PROGRESS {
                self.told.clear();
            }
        }
        Ok(())
    }

    /// The cooperative signal is SIGTERM, which a script may `trap`; tells whether the guardian is still there.
    fn hear_cancel(&mut self, given: &Given, pid: Pid) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let count = self.cancel.read(&mut buffer)?;
        if count == 0 {
            // the guardian, and so the engine, is gone
            let _ = kill_process_group(pid, Signal::KILL);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.cancelled.push_str(&String::from_utf8_lossy(&buffer[..count]));
        while let Some(end) = self.cancelled.find('\n') {
            let line: String = self.cancelled.drain(..=end).collect();
            if line.trim_end() == given.id {
                let _ = kill_process_group(pid, Signal::TERM);
            }
        }
        Ok(true)
    }

    fn outcome(&self, status: ExitStatus, last: &LastLine) -> Result<Vec<u8>, Fault> {
        if let Some(signal) = status.signal() {
            let name = crate::script::guardian::signal_name(signal);
            return Err(Fault::new(FaultKind::ScriptBroken, format!("the script was killed by signal {signal}{name}")));
        }
        let code = status.code().unwrap_or(-1);
        let said = read_bounded(&self.files.error);
        match (code, said) {
            (0, _) => self.value(last),
            (TRANSIENT, said) => Err(transient(said.as_deref())),
            (_, Some(said)) if !said.trim().is_empty() => Err(refusal(&said)),
            (code, _) => Err(Fault { code: format!("exit_{code}"), ..Fault::new(FaultKind::Exception, format!("the script ended with exit code {code}")) }),
        }
    }

    fn value(&self, last: &LastLine) -> Result<Vec<u8>, Fault> {
        let wrong = |problem: String| Fault::new(FaultKind::InvalidOutput, problem);
        let limit = self.start.limit;
        match fs::metadata(&self.files.output) {
            Ok(found) if found.len() > limit as u64 => return Err(wrong(format!("$VIAT_OUTPUT has {} bytes, more than the limit of {limit}", found.len()))),
            Ok(found) if found.len() > 0 => {
                let bytes = fs::read(&self.files.output).map_err(|error| wrong(format!("$VIAT_OUTPUT cannot be read: {error}")))?;
                let value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(format!("$VIAT_OUTPUT holds no JSON: {error}")))?;
                return checked(&value, limit, "$VIAT_OUTPUT");
            }
            _ => {}
        }
        if last.too_long {
            return Err(wrong(format!("the last line of stdout is longer than the limit of {limit} bytes")));
        }
        let line = std::str::from_utf8(&last.line).map_err(|_| wrong("the last line of stdout is not UTF-8 text".to_owned()))?;
        let line = line.trim_end_matches('\r');
        let value = match serde_json::from_str::<Value>(line) {
            Ok(value) => value,
            Err(_) if line.is_empty() => Value::Null,
            // what looks like a value and is none is a mistake, not a text
            Err(error) if line.starts_with(['{', '[', '"']) => return Err(wrong(format!("the last line of stdout is no JSON: {error}"))),
            Err(_) => Value::String(line.to_owned()),
        };
        checked(&value, limit, "the last line of stdout")
    }

    /// Has the tasks recorded that the script wrote down.
    fn defer(&self, channel: &mut Channel) -> io::Result<Result<(), Fault>> {
        let Some(text) = read_bounded(&self.files.defer) else { return Ok(Ok(())) };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let task: Task = match serde_json::from_str(line) {
                Ok(task) => task,
                Err(error) => {
                    let message = format!("a line of $VIAT_DEFER is not {{\"workflow\": NAME, \"args\": {{…}}}}: {error}");
                    return Ok(Err(Fault::new(FaultKind::InvalidOutput, message)));
                }
            };
            let question = json!({"what": "defer", "workflow": task.workflow, "args": task.args});
            if let Err(refused) = channel.ask(b'd', &question)? {
                return Ok(Err(Fault::new(FaultKind::Resource, refused)));
            }
        }
        Ok(Ok(()))
    }
}

/// Writes the arguments to the script's stdin while it runs; it need not read them.
fn feed(stdin: Option<std::process::ChildStdin>, args: &str) -> Option<std::thread::JoinHandle<()>> {
    let mut stdin = stdin?;
    // most arguments fit the pipe: no thread for them
    if args.len() < 32 << 10 {
        let _ = stdin.write_all(args.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
        return None;
    }
    let args = args.to_owned();
    std::thread::Builder::new().spawn(move || drop(stdin.write_all(args.as_bytes()).and_then(|()| stdin.write_all(b"\n")))).ok()
}

/// `order id` as `VIAT_ARG_ORDER_ID`.
fn variable(name: &str) -> String {
    let plain = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_uppercase() } else { '_' };
    format!("VIAT_ARG_{}", name.chars().map(plain).collect::<String>())
}

fn read_bounded(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn refusal(said: &str) -> Fault {
    let broken = |problem: String| Fault { code: "refusal".to_owned(), ..Fault::new(FaultKind::Exception, problem) };
    match serde_json::from_str::<Refusal>(said) {
        Err(error) => broken(format!("$VIAT_ERROR is not {{\"code\": …, \"message\": …, \"status\": 400–599, \"extra\": …}}: {error}")),
        Ok(refusal) if refusal.code.is_empty() => broken("$VIAT_ERROR: code must not be empty".to_owned()),
        Ok(Refusal { status: Some(status), .. }) if !(400..=599).contains(&status) => {
            broken(format!("$VIAT_ERROR: status must be from 400 to 599, not {status}"))
        }
        Ok(Refusal { code, message, status, extra, .. }) => {
            Fault { kind: FaultKind::User, code, message, status: Some(status.unwrap_or(400)), extra, retry_after_ms: None }
        }
    }
}

/// Exit 75; the file may say more: a text, or JSON with `message` and `retry_after_ms`.
fn transient(said: Option<&str>) -> Fault {
    let mut fault = Fault::new(FaultKind::Transport, "the script ended with exit code 75: a transient failure");
    let Some(said) = said.map(str::trim).filter(|said| !said.is_empty()) else { return fault };
    match serde_json::from_str::<Map<String, Value>>(said) {
        Ok(map) => {
            if let Some(message) = map.get("message").and_then(Value::as_str) {
                fault.message = message.to_owned();
            }
            fault.retry_after_ms = map.get("retry_after_ms").and_then(Value::as_u64);
        }
        Err(_) => fault.message = said.to_owned(),
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_kept_however_it_comes() {
        for chunk in [1, 2, 5, 100] {
            let mut last = LastLine { line: Vec::new(), ended: false, limit: 10, too_long: false };
            b"one\nmuch too long a line\ntwo\n".chunks(chunk).for_each(|part| last.push(part));
            assert_eq!((last.line.as_slice(), last.too_long), (b"two".as_slice(), false));
        }
    }

    #[test]
    fn the_first_line_names_the_shell() {
        for (line, program) in
            [("#!/bin/bash -e", "bash"), ("#!/usr/bin/env -S bash", "bash"), ("#!/usr/bin/python3", "sh"), ("echo", "sh"), ("#!/bin/dash", "dash")]
        {
            assert_eq!(interpreter(&format!("{line}\necho 1")), program, "{line}");
        }
    }
}
