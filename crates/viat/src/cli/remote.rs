//! `VIAT_URL` and `VIAT_TOKEN`: a server elsewhere runs the command; here is its terminal, and what it reads.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::apply::FOLDERS;
use super::error::CliError;
use super::output::Output;
use super::review::user;
use crate::api::{CommandBody, Kind, Want};

/// The variable that says where the server is.
const URL: &str = "VIAT_URL";
/// The variable that has the token.
const TOKEN: &str = "VIAT_TOKEN";
/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The server gives a sign of life more often than this.
const SILENT_FOR: Duration = Duration::from_secs(60);
/// The longest line that is read of it, in bytes.
const MAX_LINE: usize = 256 << 20;

/// A server elsewhere.
pub struct Remote {
    base: String,
    token: Option<String>,
}

impl Remote {
    /// The server that the environment names, if it names one.
    pub fn from_environment() -> Result<Option<Remote>, CliError> {
        let Some(url) = std::env::var_os(URL).filter(|url| !url.is_empty()) else { return Ok(None) };
        let url = url.to_string_lossy().trim_end_matches('/').to_owned();
        let good =
            url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
        if !good {
            return Err(CliError::usage(format!("{URL} is {url:?}, which is no address of a server")).help("write it as in https://viat.example.org"));
        }
        let token = std::env::var(TOKEN).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        Ok(Some(Remote { base: url, token }))
    }

    /// Has the server do what was typed; prints what it prints, and exits as it does.
    pub fn run(self, output: &Output) -> Result<ExitCode, CliError> {
        let words = std::env::args_os().skip(1).map(|word| word.into_string());
        let words: Vec<String> = words.collect::<Result<_, _>>().map_err(|word| CliError::usage(format!("{} is not UTF-8 text", word.display())))?;
        let args = without_home(&words);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CliError::failed(format!("no event loop for the request: {error}")))?;
        let code = runtime.block_on(Session::begin(self, args, output)?.run(output))?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(4)))
    }
}

/// The home is the server's: whichever was named here means nothing there.
fn without_home(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                kept.push(word.clone());
                kept.extend(words.by_ref().cloned());
            }
            "--home" => drop(words.next()),
            other if other.starts_with("--home=") => {}
            other => kept.push(other.to_owned()),
        }
    }
    kept
}

struct Session {
    client: Client,
    remote: Remote,
    args: Vec<String>,
    /// The command's id, once the server has said it.
    id: String,
}

impl Session {
    fn begin(remote: Remote, args: Vec<String>, _: &Output) -> Result<Session, CliError> {
        // Somebody may have chosen one already; then that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().connect_timeout(CONNECT_WITHIN).read_timeout(SILENT_FOR).redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(|error| CliError::failed(format!("no request can be made: {}", chain(&error))))?;
        Ok(Session { client, remote, args, id: String::new() })
    }

    async fn run(mut self, output: &Output) -> Result<i64, CliError> {
        let terminal = [("coloured", output.coloured), ("stdout", output.stdout_terminal)];
        let terminal = terminal.into_iter().filter(|(_, is)| *is).map(|(name, _)| name.to_owned()).collect();
        let body = CommandBody { args: self.args.clone(), user: user(), terminal };
        let mut answer = self.send(self.client.post(self.path("")).json(&body)).await?;
        let cannot = |error: std::io::Error| CliError::failed(format!("signals cannot be handled: {error}"));
        let (mut int, mut term) = (signal(SignalKind::interrupt()).map_err(cannot)?, signal(SignalKind::terminate()).map_err(cannot)?);
        let (mut held, mut told) = (Vec::new(), false);
        loop {
            let part = tokio::select! {
                part = answer.chunk() => part.map_err(|error| self.unreachable(&error))?,
                _ = int.recv() => { told = self.interrupt(told).await?; continue }
                _ = term.recv() => { told = self.interrupt(told).await?; continue }
            };
            let Some(part) = part else { return Err(CliError::failed(format!("the server at {} broke off before the command had ended", self.remote.base))) };
            held.extend_from_slice(&part);
            if held.len() > MAX_LINE {
                return Err(CliError::failed(format!("what the server at {} says is no answer to a command", self.remote.base)));
            }
            while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = held.drain(..=end).collect();
                if let Some(code) = self.frame(&line).await? {
                    return Ok(code);
                }
            }
        }
    }

    /// Does what a line of the answer says; gives the exit code, if that is it.
    async fn frame(&mut self, line: &[u8]) -> Result<Option<i64>, CliError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let no_answer = |_| CliError::failed(format!("what the server at {} says is no answer to a command", self.remote.base));
        let frame: Value = serde_json::from_slice(line).map_err(no_answer)?;
        if let Some(text) = frame["stdout"].as_str() {
            // Whoever reads it has enough.
            let _ = std::io::stdout().lock().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
        } else if let Some(text) = frame["stderr"].as_str() {
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        } else if let Some(id) = frame["command"].as_str() {
            id.clone_into(&mut self.id);
        } else if let Some(number) = frame["number"].as_u64() {
            let want: Want = serde_json::from_value(frame["want"].clone()).map_err(no_answer)?;
            self.give(number, &want).await?;
        }
        Ok(frame["exit"].as_i64())
    }

    async fn give(&self, number: u64, want: &Want) -> Result<(), CliError> {
        let place = self.client.put(self.path(&format!("/{}/wants/{number}", self.id)));
        let request = match given(want, &self.args) {
            Ok(bytes) => place.header("content-type", "application/octet-stream").body(bytes),
            Err(why) => place.query(&[("error", why)]),
        };
        self.send(request).await.map(drop)
    }

    /// The first time the command is told to end, and shown until it has; the second time nobody waits for it.
    async fn interrupt(&self, told: bool) -> Result<bool, CliError> {
        if told || self.id.is_empty() {
            return Err(CliError::interrupted("interrupted; the server goes on ending the command"));
        }
        self.send(self.client.delete(self.path(&format!("/{}", self.id)))).await.map(|_| true)
    }

    fn path(&self, rest: &str) -> String {
        format!("{}/api/v1/commands{rest}", self.remote.base)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, CliError> {
        let request = match &self.remote.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let problem: Value = answer.json().await.unwrap_or_default();
        Err(refusal(status, &problem, &self.remote))
    }

    fn unreachable(&self, error: &reqwest::Error) -> CliError {
        CliError::failed(format!("the server at {} does not answer: {}", self.remote.base, chain(error)))
            .help(format!("{URL} says where it is; unset it to work on a home here"))
    }
}

fn refusal(status: StatusCode, problem: &Value, remote: &Remote) -> CliError {
    let text = |key: &str| problem[key].as_str().map(str::to_owned);
    let detail = text("detail").unwrap_or_else(|| format!("the server at {} answered {status}", remote.base));
    let help = match status {
        StatusCode::UNAUTHORIZED => Some(format!("put a token into {TOKEN}; `viat token create` makes one where the server runs")),
        _ => text("help"),
    };
    let error = match status.as_u16() {
        400 | 413 | 415 | 422 => CliError::usage(detail),
        401..=409 => CliError::refused(detail),
        _ => CliError::failed(detail),
    };
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

/// What the command wants to read. Nothing is given but what was named when it was typed: the server has no other business here.
fn given(want: &Want, args: &[String]) -> Result<Vec<u8>, String> {
    if !was_named(want, args) {
        return Err(format!("the server asks for {:?}, which was not named in the command", want.path));
    }
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.take(want.limit.saturating_add(1)).read_to_end(&mut bytes).map(|_| bytes)
    };
    match want.kind {
        Kind::Stdin => read(&mut std::io::stdin().lock()),
        Kind::File => std::fs::File::open(&want.path).and_then(|mut file| read(&mut file)),
        Kind::Folder => names(Path::new(&want.path)).map(|names| json!(names).to_string().into_bytes()),
    }
    .map_err(|error| error.to_string())
}

fn names(folder: &Path) -> std::io::Result<Option<BTreeSet<String>>> {
    if !folder.exists() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(folder)?;
    entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect::<std::io::Result<_>>().map(Some)
}

fn was_named(want: &Want, args: &[String]) -> bool {
    let named = |text: &str| args.iter().any(|word| word.strip_suffix(text).is_some_and(|head| head.is_empty() || head.ends_with(['=', '@'])));
    let project = args.iter().any(|word| word == "apply").then(|| args.iter().map(String::as_str).chain(["."]));
    let in_project = |path: &str| {
        let folder = if want.kind == Kind::File { Path::new(path).parent() } else { Some(Path::new(path)) };
        let mut roots = project.clone().into_iter().flatten();
        folder.is_some_and(|folder| roots.any(|root| FOLDERS.iter().any(|part| Path::new(root).join(part) == folder)))
    };
    match want.kind {
        // A secret is read from there unless it is said otherwise.
        Kind::Stdin => named("-") || args.iter().any(|word| word == "secret"),
        Kind::File => named(&want.path) || in_project(&want.path),
        Kind::Folder => in_project(&want.path),
    }
}

fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut inner = std::error::Error::source(error);
    while let Some(cause) = inner {
        text.push_str(&format!(": {cause}"));
        inner = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_what_was_named_is_given() {
        let named = |kind, path: &str, args: &str| was_named(&Want { kind, path: path.to_owned(), limit: 1 }, &words(args));
        assert!(named(Kind::File, "a/b.yaml", "workflow create w --file a/b.yaml"));
        assert!(named(Kind::File, "a/b.yaml", "workflow create w --file=a/b.yaml"));
        assert!(named(Kind::File, "in.json", "workflow test w --input @in.json"));
        assert!(named(Kind::File, "m.json", "workflow test w --mock pay=@m.json"));
        assert!(!named(Kind::File, "b.yaml", "workflow create w --file a/b.yaml"));
        assert!(!named(Kind::File, "/etc/passwd", "workflow create w --file a/b.yaml"));
        assert!(!named(Kind::File, "", "workflow create w"));
        assert!(named(Kind::Stdin, "", "run start w --input -") && !named(Kind::Stdin, "", "run start w"));
        assert!(named(Kind::Folder, "shop/scripts", "apply shop") && named(Kind::File, "shop/workflows/w.yaml", "apply shop"));
        assert!(named(Kind::Folder, "./scripts", "apply") && !named(Kind::Folder, "shop/scripts", "workflow list"));
        assert!(!named(Kind::File, "shop/scripts/../x", "apply shop") && !named(Kind::Folder, "shop", "apply shop"));
    }

    #[test]
    fn the_home_stays_here() {
        let kept = |text: &str| without_home(&words(text)).join(" ");
        assert_eq!(kept("--home h run list --json"), "run list --json");
        assert_eq!(kept("run --home=h list --workflow home"), "run list --workflow home");
        assert_eq!(kept("run show -- --home x"), "run show -- --home x");
    }
}
