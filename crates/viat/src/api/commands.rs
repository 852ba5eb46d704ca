//! `/api/v1/commands`: the command line from elsewhere. The server runs the command that was typed, in a process of its own and for
//! the caller; what it prints comes back as it is printed, and what it reads, files and stdin, it asks its caller for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::channel::{Channel, Sender};
use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, oneshot};

use super::Engine;
use super::access::Caller;
use super::child::Running;
use super::problem::Problem;
use super::runs::read;
use super::take::{Asked, Place};
use crate::cli::output::TERMINAL;
use crate::cli::{given, remotely};

/// The most commands that run at once for callers elsewhere.
const MOST: usize = 64;
/// How long a caller may take to give what its command asks for.
const GIVEN_WITHIN: Duration = Duration::from_secs(25);
/// How often a sign of life is sent.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// Frames that wait for a slow reader.
const AHEAD: usize = 64;

/// A command as it was typed.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandBody {
    /// Its words, without the program's name.
    pub args: Vec<String>,
    /// The name of whoever typed it, where a command asks for one.
    #[serde(default)]
    pub user: Option<String>,
    /// What is known of their terminal: `coloured`, `stdout`.
    #[serde(default)]
    pub terminal: Vec<String>,
}

/// What a command wants to read.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Want {
    /// What it is.
    pub kind: Kind,
    /// Its path, as it was typed.
    #[serde(default)]
    pub path: String,
    /// At most so many bytes, and one more that says that there are more.
    pub limit: u64,
}

/// What can be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The bytes of a file.
    File,
    /// The names in a folder: a JSON array, or `null` if it is not there.
    Folder,
    /// What is on stdin.
    Stdin,
}

/// Why something cannot be given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenQuery {
    /// In words; the body is empty then.
    error: Option<String>,
}

type Answer = Result<Bytes, String>;

struct Entry {
    /// The caller's token; nobody else gives it anything or ends it.
    token: Option<String>,
    frames: mpsc::Sender<String>,
    open: BTreeMap<u64, oneshot::Sender<Answer>>,
    asked: u64,
    process: Option<Pid>,
}

/// The commands that run for callers elsewhere.
#[derive(Clone, Default)]
pub struct Commands(Arc<Mutex<BTreeMap<String, Entry>>>);

/// A place among them; given up on drop.
struct Seat {
    commands: Commands,
    id: String,
}

impl Commands {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, token: Option<String>, frames: mpsc::Sender<String>) -> Result<Seat, Problem> {
        let mut all = self.lock();
        if all.len() >= MOST {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{MOST} commands run already, the most that may; try again in a moment")));
        }
        let id = viat_store::fresh_id();
        all.insert(id.clone(), Entry { token, frames, open: BTreeMap::new(), asked: 0, process: None });
        Ok(Seat { commands: self.clone(), id })
    }

    /// Does something with a command of this caller.
    fn with<T>(&self, id: &str, caller: &Caller, work: impl FnOnce(&mut Entry) -> T) -> Result<T, Problem> {
        let mut all = self.lock();
        let entry = all.get_mut(id).filter(|entry| entry.token == caller.actor.token);
        entry.map(work).ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("no command {id} runs")))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.commands.lock().remove(&self.id);
    }
}

/// Runs a command and streams what it prints: lines of JSON, the last one with its exit code.
pub async fn start(State(engine): State<Engine>, caller: Caller, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: CommandBody = read(&headers, &body)?;
    let scopes = remotely(&body.args)?;
    if !caller.may(scopes) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "this command needs a token with another scope").help("`viat token list` shows what each permits"));
    }
    let (frames, outgoing) = mpsc::channel(AHEAD);
    let seat = engine.commands.enter(caller.actor.token.clone(), frames.clone())?;
    let mut running = Running::start(&engine, &caller, &body.args, |command| {
        command.stdin(Stdio::null()).env(given::COMMAND, &seat.id).env(TERMINAL, body.terminal.join(",")).env("NO_COLOR", "");
        match &body.user {
            Some(user) => command.env("USER", user),
            None => command.env_remove("USER").env_remove("LOGNAME"),
        };
    })
    .map_err(|error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the command cannot be run: {error}")))?;
    let process = running.child().and_then(|child| child.id()).and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    engine.commands.with(&seat.id, &caller, |entry| entry.process = process)?;
    let (sender, body) = Channel::<Bytes, Infallible>::new(AHEAD);
    tokio::spawn(drive(seat, running, frames, outgoing, sender));
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(body)).into_response())
}

/// Whoever goes away ends the command: what is held here goes with the stream.
async fn drive(seat: Seat, mut running: Running, frames: mpsc::Sender<String>, outgoing: mpsc::Receiver<String>, sender: Sender<Bytes, Infallible>) {
    let first = json!({"command": seat.id}).to_string();
    let works = async {
        let Some(child) = running.child() else { return };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        tokio::join!(pump(out, "stdout", &frames), pump(err, "stderr", &frames));
        let code = child.wait().await.ok().and_then(|status| status.code()).unwrap_or(4);
        // Nobody listens only if the stream is gone.
        let _ = frames.send(json!({"exit": code}).to_string()).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = works => (),
        () = forward(first, outgoing, sender) => (),
    }
}

/// Sends frames until the last one, or nobody reads them.
async fn forward(first: String, mut outgoing: mpsc::Receiver<String>, mut sender: Sender<Bytes, Infallible>) {
    let mut next = Some(first);
    loop {
        let line = match next.take() {
            Some(frame) => format!("{frame}\n"),
            None => "\n".to_owned(),
        };
        let last = line.starts_with("{\"exit\"");
        if sender.send_data(line.into()).await.is_err() || last {
            return;
        }
        next = match tokio::time::timeout(ALIVE_EVERY, outgoing.recv()).await {
            Ok(Some(frame)) => Some(frame),
            Ok(None) => return,
            Err(_) => None,
        };
    }
}

/// What is printed, as frames of whole characters.
async fn pump(from: Option<impl AsyncRead + Unpin>, name: &str, frames: &mpsc::Sender<String>) {
    let Some(mut from) = from else { return };
    let (mut held, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        let read = from.read(&mut part).await.unwrap_or(0);
        held.extend_from_slice(&part[..read]);
        let whole = if read == 0 { held.len() } else { whole_characters(&held) };
        if whole > 0 {
            let text = String::from_utf8_lossy(&held[..whole]).into_owned();
            held.drain(..whole);
            if frames.send(json!({name: text}).to_string()).await.is_err() {
                return;
            }
        }
        if read == 0 {
            return;
        }
    }
}

/// How many bytes can be shown now: a character whose end has not come yet waits for it.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Asks the caller for what the command wants to read; this request is the command's own.
pub async fn want(State(engine): State<Engine>, caller: Caller, Place(id): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let want: Want = read(&headers, &body)?;
    let (answer, answered) = oneshot::channel();
    let (number, frames) = engine.commands.with(&id, &caller, |entry| {
        entry.asked += 1;
        entry.open.insert(entry.asked, answer);
        (entry.asked, entry.frames.clone())
    })?;
    let gone = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "whoever typed the command does not answer");
    frames.send(json!({"want": want, "number": number}).to_string()).await.map_err(|_| gone())?;
    match tokio::time::timeout(GIVEN_WITHIN, answered).await {
        Ok(Ok(Ok(bytes))) => Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()),
        Ok(Ok(Err(why))) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why)),
        _ => Err(gone()),
    }
}

/// Gives a command what it asked for.
pub async fn give(
    State(engine): State<Engine>,
    caller: Caller,
    Place((id, number)): Place<(String, u64)>,
    Asked(query): Asked<GivenQuery>,
    body: Bytes,
) -> Result<Response, Problem> {
    let open = engine.commands.with(&id, &caller, |entry| entry.open.remove(&number))?;
    let open = open.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("command {id} does not wait for {number}")))?;
    // A command that has ended meanwhile needs nothing any more.
    let _ = open.send(query.error.map_or(Ok(body), Err));
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Interrupts a command, as `^C` does.
pub async fn interrupt(State(engine): State<Engine>, caller: Caller, Place(id): Place<String>) -> Result<Response, Problem> {
    if let Some(process) = engine.commands.with(&id, &caller, |entry| entry.process)? {
        // One that is gone needs no telling.
        let _ = kill_process(process, Signal::INT);
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_torn() {
        assert_eq!(whole_characters("aé".as_bytes()), 3);
        assert_eq!(whole_characters(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole_characters(b"a\xffb"), 3, "what is no text is not waited for");
        assert_eq!(whole_characters(b""), 0);
    }
}
