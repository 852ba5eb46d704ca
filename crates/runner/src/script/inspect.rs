//! Reads a script when it is created, without running it: the signature of `main`, or why it is refused.

use std::io::Write;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::interpreter::Interpreter;
use super::python;

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
        Err(error) => {
            let message = format!("the script cannot be read: {}: {error}", interpreter.path.display());
            Err(ScriptDiagnostic { line: 0, column: 0, message, snippet: String::new() })
        }
    }
}

fn ask(interpreter: &Interpreter, source: &str) -> std::io::Result<Said> {
    let mut child = Command::new(&interpreter.path)
        .args(["-I", "-S", "-X", "utf8", "-W", "ignore", "-c", python::INSPECTOR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // it reads everything before it writes anything, so this cannot lock up
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(source.as_bytes());
    }
    let done = child.wait_with_output()?;
    serde_json::from_slice(&done.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&done.stderr);
        std::io::Error::other(said.lines().last().unwrap_or("it said nothing").to_string())
    })
}
