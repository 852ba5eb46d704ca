//! Having environments built: in the background by a process of its own, or here, while somebody waits.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use viat_runner::script::Profile;
use viat_runner::script::environments::{Request, State};

use super::error::CliError;
use super::output::Output;
use crate::wiring::Home;

/// The word that makes the binary a builder; the key follows.
pub const BUILDER: &str = "work";

/// Asks for an environment, and has it built in the background unless it is ready or somebody is at it.
///
/// # Errors
/// The home's folder cannot be written.
pub fn begin(request: &Request, home: &Home) -> Result<State, CliError> {
    let environments = home.environments();
    let state = environments.ask(request).map_err(unwritable)?;
    if state == State::Building {
        spawn(&request.key(), home).map_err(|error| CliError::failed(format!("the environment's builder cannot be started: {error}")))?;
    }
    Ok(state)
}

/// Builds an environment while somebody waits for it; `for_what` is said meanwhile.
///
/// # Errors
/// The home's folder cannot be written.
pub fn build(request: &Request, for_what: &str, home: &Home, output: &Output) -> Result<State, CliError> {
    let environments = home.environments();
    let state = environments.ask(request).map_err(unwritable)?;
    if state != State::Building {
        return Ok(state);
    }
    output.note(&format!("building the environment of {for_what}: {}", shown(request)));
    environments.build(&request.key(), &home.tools()).map_err(unwritable)
}

/// What a request asks for, for people.
pub fn shown(request: &Request) -> String {
    let python = request.requires_python().map(|wanted| format!("python {wanted}"));
    python.into_iter().chain(request.dependencies().iter().cloned()).collect::<Vec<_>>().join(", ")
}

/// The error of an environment that could not be built.
pub fn failed(what: &str, reason: &str, name: &str) -> CliError {
    CliError::usage(format!("{what} could not be built: {reason}")).help(format!("mend its dependencies, or try again: viat env build {name}"))
}

/// Has the environments built whose builder died. What cannot be seen to now shows when it is needed.
pub fn take_up(home: &Home) {
    for key in home.environments().abandoned().unwrap_or_default() {
        let _ = spawn(&key, home);
    }
}

fn unwritable(error: std::io::Error) -> CliError {
    CliError::failed(format!("the home's environments cannot be written: {error}"))
}

/// The builder outlives this process, and a signal at the terminal is not for it.
fn spawn(key: &str, home: &Home) -> std::io::Result<()> {
    let folder = std::path::absolute(&home.folder)?;
    let mut builder = Command::new("/proc/self/exe")
        .args(["env", BUILDER, key, "--home"])
        .arg(folder)
        .env("VIAT_PROFILE", home.profile().unwrap_or(Profile::Strict).name())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    // a server lives longer than its builders, and must not keep them as zombies
    std::thread::spawn(move || builder.wait());
    Ok(())
}
