//! `cargo xtask setup`: what the tests need besides Rust.

use std::path::PathBuf;

use crate::output;
use crate::shell::{self, Done, command};

/// Where the virtual environment of the tests is.
fn folder() -> PathBuf {
    crate::root().join("target/venv")
}

/// The Python of the tests, if it is there and has pytest.
pub fn python() -> Option<PathBuf> {
    let python = folder().join("bin/python");
    shell::succeeds(&mut command(&python, &["-c", "import pytest"])).then_some(python)
}

/// Checks python3 and node, and makes the virtual environment; what is there already stays.
pub fn run() -> Done {
    if !shell::succeeds(&mut command("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 9))"])) {
        return Err("python3, 3.9 or newer, is needed: the scripts of workflows run in it (Debian: apt-get install python3 python3-venv)".into());
    }
    if !shell::succeeds(&mut command("node", &["-e", "process.exit(+process.versions.node.split('.')[0] < 18)"])) {
        return Err("node, 18 or newer, is needed: scripts in JavaScript run in it (Debian: apt-get install nodejs npm)".into());
    }
    let venv = folder();
    if python().is_none() {
        let made = shell::run(command("python3", &["-m", "venv", "--clear"]).arg(&venv));
        made.map_err(|error| format!("{error}\nthe module venv is needed (Debian: apt-get install python3-venv)"))?;
        install("pytest")?;
    }
    // what builds the environments of scripts in Python; the tests find it there too
    if !shell::succeeds(&mut command("uv", &["--version"])) && !venv.join("bin/uv").is_file() {
        install("uv")?;
    }
    output::note("target/venv is ready");
    Ok(())
}

fn install(package: &str) -> Done {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
    let installed = shell::run(&mut command(folder().join("bin/python"), &pip));
    installed.map_err(|error| format!("{error}\n{package} could not be installed: without a network, put it into target/venv by hand").into())
}
