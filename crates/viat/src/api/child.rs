//! Work that has a process of its own: this very binary, told by the server what to do. It ends when nobody waits for it any more.

use std::process::Stdio;
use std::time::Duration;

use axum::http::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::Engine;
use super::access::Caller;
use super::problem::Problem;
use crate::audit::{ACTOR_VARIABLE, NO_TOKEN, TOKEN_VARIABLE};
use crate::wiring::PROFILE;

/// How long a command that nobody waits for may take to end by itself.
const END_WITHIN: Duration = Duration::from_secs(20);
/// The most that is kept of what a command prints, in bytes.
const MOST: u64 = 256 << 20;

/// What a command printed, and its exit code.
pub struct Ended {
    /// Its result.
    pub out: Vec<u8>,
    /// What it said beside it.
    pub err: Vec<u8>,
    /// Its exit code.
    pub code: i32,
}

/// A command that is told to end when this goes.
pub struct Running(Option<Child>);

impl Running {
    /// Starts a command on the home, for this caller.
    pub fn start(engine: &Engine, caller: &Caller, args: &[String], change: impl FnOnce(&mut Command)) -> std::io::Result<Running> {
        let folder = std::path::absolute(&engine.home)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("--home").arg(folder).args(args);
        command.env_remove("VIAT_URL").env_remove("VIAT_TOKEN").env(ACTOR_VARIABLE, &caller.actor.name).env(PROFILE, engine.profile.name());
        command.env(TOKEN_VARIABLE, caller.actor.token.as_deref().unwrap_or(NO_TOKEN));
        // A signal at the server's terminal is not for it: the server itself says when it has to end.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        Ok(Running(Some(command.spawn()?)))
    }

    /// The process.
    pub fn child(&mut self) -> Option<&mut Child> {
        self.0.as_mut()
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        if let Some(pid) = pid_of(&child) {
            let _ = kill_process(pid, Signal::INT);
        }
        let waits = async move {
            if tokio::time::timeout(END_WITHIN, child.wait()).await.is_err() {
                // Its guardians end what it ran.
                let _ = child.kill().await;
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(waits);
        }
    }
}

/// Runs a command to its end, with this on its stdin.
pub async fn run(engine: &Engine, caller: &Caller, args: &[String], stdin: Vec<u8>) -> Result<Ended, Problem> {
    let broken = |error: std::io::Error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the command cannot be run: {error}"));
    let mut running = Running::start(engine, caller, args, |_| {}).map_err(broken)?;
    let Some(child) = running.child() else { return Err(broken(std::io::Error::other("it is gone"))) };
    let (mut to, from, said) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut to) = to.take() {
            // Who does not read its stdin to the end has no use for it.
            let _ = to.write_all(&stdin).await;
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let read_out = async {
        match from {
            Some(from) => from.take(MOST).read_to_end(&mut out).await.map(drop),
            None => Ok(()),
        }
    };
    let read_err = async {
        match said {
            Some(said) => said.take(MOST).read_to_end(&mut err).await.map(drop),
            None => Ok(()),
        }
    };
    let ((), got_out, got_err) = tokio::join!(feed, read_out, read_err);
    got_out.and(got_err).map_err(broken)?;
    let status = child.wait().await.map_err(broken)?;
    Ok(Ended { out, err, code: status.code().unwrap_or(4) })
}

/// The result of a command that was run with `--json`: what it printed, or why it could not.
pub async fn result(engine: &Engine, caller: &Caller, args: &[String], stdin: Vec<u8>) -> Result<Value, Problem> {
    let ended = run(engine, caller, args, stdin).await?;
    if let Ok(value) = serde_json::from_slice(&ended.out) {
        return Ok(value);
    }
    let said = String::from_utf8_lossy(&ended.err);
    let error = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok().filter(|value| value["error"].is_object()));
    let text = |key: &str| error.as_ref().and_then(|error| error["error"][key].as_str()).map(str::to_owned);
    let status = match (ended.code, error.as_ref().is_some_and(|error| error["error"]["missing"] == true)) {
        (2, _) => StatusCode::UNPROCESSABLE_ENTITY,
        (3, true) => StatusCode::NOT_FOUND,
        (3, false) => StatusCode::CONFLICT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let problem = Problem::new(status, text("message").unwrap_or_else(|| "the command ended without a word".to_owned()));
    Err(match text("help") {
        Some(help) => problem.help(help),
        None => problem,
    })
}
