//! Starting other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::output;

/// What goes wrong in here is said and ends the task.
pub type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A command in the workspace's folder, without stdin.
pub fn command(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// Cargo, the one that runs us.
pub fn cargo(args: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

/// Says what is run and runs it; anything but success is an error.
pub fn run(command: &mut Command) -> Done {
    let shown = shown(command);
    output::note(&format!("\n$ {shown}"));
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}").into()) }
}

/// Whether the command runs and succeeds; what it prints is not shown.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
