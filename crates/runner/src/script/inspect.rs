//! Reads a script when it is created, without running it: the signature of `main`, or why it is refused.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::{Deserialize, Serialize};

use super::interpreter::{Interpreter, on_path};
use super::node::Node;
use super::{javascript, python};

/// What is known of a script's `main`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptInfo {
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// False if `main` is decorated, assigned or imported, so that only running it could tell.
    pub signature_known: bool,
    /// `async def main`.
    pub is_async: bool,
    /// Its docstring.
    pub doc: Option<String>,
    /// Its return annotation, as written.
    pub returns: Option<String>,
}

/// One parameter of `main`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its annotation, as written.
    pub annotation: Option<String>,
    /// What its annotation says of a value, as far as the text alone tells: what `viat-dialect` reads as a shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<serde_json::Value>,
    /// Its default, as written.
    pub default: Option<String>,
    /// How it takes arguments.
    pub kind: ParameterKind,
}

/// How a parameter takes arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// By keyword, as all arguments are passed.
    Keyword,
    /// By position only: an attempt can never fill it.
    PositionalOnly,
    /// `**rest`: takes every argument without a parameter of its own.
    Rest,
}

/// Why a script is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptDiagnostic {
    /// The line, from 1; 0 if the script itself was not looked at.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// The line's text.
    pub snippet: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Script(ScriptInfo),
    Problem(ScriptDiagnostic),
}

/// Reads a Python script without running it; blocks for one start of the interpreter.
pub fn inspect(interpreter: &Interpreter, source: &str) -> Result<ScriptInfo, ScriptDiagnostic> {
    match ask(interpreter, source) {
        Ok(Said::Script(info)) => Ok(info),
        Ok(Said::Problem(problem)) => Err(problem),
        Err(error) => Err(unread(format!("the script cannot be read: {}: {error}", interpreter.path.display()))),
    }
}

/// What is known of a script in JavaScript.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Inspected {
    /// Its signature.
    pub info: ScriptInfo,
    /// The text without types, if there were any to be taken away.
    pub code: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Read {
    Script(Inspected),
    Problem(ScriptDiagnostic),
}

/// Reads a script in JavaScript or TypeScript without running it. `stripper` is the folder of the module that takes types
/// away where Node itself cannot.
///
/// # Errors
/// Where and why the script is refused.
pub fn inspect_javascript(node: &Node, source: &str, typescript: bool, stripper: Option<&Path>) -> Result<Inspected, ScriptDiagnostic> {
    let asked = serde_json::json!({"source": source, "typescript": typescript, "stripper": stripper}).to_string();
    let mut command = Command::new(&node.path);
    command.args(["--no-warnings", "--expose-internals", "--experimental-vm-modules", "-e", javascript::INSPECTOR]);
    match run::<Read>(&mut command, &asked) {
        Ok(Read::Script(found)) => Ok(found),
        Ok(Read::Problem(problem)) => Err(problem),
        Err(error) => Err(unread(format!("the script cannot be read: {}: {error}", node.path.display()))),
    }
}

/// Has a shell read a script without running it.
///
/// # Errors
/// Where and why the script is refused.
pub fn inspect_shell(source: &str) -> Result<ScriptInfo, ScriptDiagnostic> {
    let shell = super::native::interpreter(source);
    if on_path(&shell).is_none() {
        let message = format!("the script asks for {shell}, which is not on PATH: install it (Debian: apt-get install {shell}), or begin with #!/bin/sh");
        return Err(unread(message));
    }
    let unknown = ScriptInfo { parameters: Vec::new(), signature_known: false, is_async: false, doc: None, returns: None };
    let said = feed(Command::new(&shell).arg("-n"), source).map_err(|error| unread(format!("the script cannot be read: {shell}: {error}")))?;
    if said.status.success() {
        return Ok(unknown);
    }
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    let first = text.lines().next().unwrap_or("it says nothing").to_owned();
    // `sh: 3: Syntax error: …`, `bash: line 3: syntax error …`
    let number = first.split(':').map(|part| part.trim().trim_start_matches("line ")).find_map(|part| part.parse::<u32>().ok());
    let line = number.unwrap_or(1).max(1);
    let snippet = source.lines().nth(line as usize - 1).unwrap_or_default().to_owned();
    Err(ScriptDiagnostic { line, column: 1, message: first, snippet })
}

fn unread(message: String) -> ScriptDiagnostic {
    ScriptDiagnostic { line: 0, column: 0, message, snippet: String::new() }
}

fn ask(interpreter: &Interpreter, source: &str) -> std::io::Result<Said> {
    run(Command::new(&interpreter.path).args(["-I", "-S", "-X", "utf8", "-W", "ignore", "-c", python::INSPECTOR]), source)
}

fn run<T: for<'de> Deserialize<'de>>(command: &mut Command, text: &str) -> std::io::Result<T> {
    let done = feed(command, text)?;
    serde_json::from_slice(&done.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&done.stderr);
        std::io::Error::other(said.lines().last().unwrap_or("it said nothing").to_string())
    })
}

fn feed(command: &mut Command, text: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // each of them reads everything before it writes anything, so this cannot lock up
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait_with_output()
}
