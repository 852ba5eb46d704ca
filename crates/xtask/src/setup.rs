//! `cargo xtask setup`: what the tests need besides Rust.

use std::path::PathBuf;

use crate::output;
use crate::shell::{self, Done, command};

/// Where the virtual environment of the tests is.
fn folder() -> PathBuf {
    crate::root().join("target/venv")
}

/// The Python of the tests, if it is there and has what they need.
pub fn python() -> Option<PathBuf> {
    (has("pytest") && has("httpx")).then(|| folder().join("bin/python"))
}

/// Whether the virtual environment is there and has this module.
fn has(module: &str) -> bool {
    let import = format!("import {module}");
    shell::succeeds(&mut command(folder().join("bin/python"), &["-c", import.as_str()]))
}

/// What builds environments of scripts in Python, where it is not installed for everybody.
pub fn uv() -> Option<PathBuf> {
    Some(folder().join("bin/uv")).filter(|own| own.is_file() && !shell::succeeds(&mut command("uv", &["--version"])))
}

/// Installs python3 and node where they are missing and that can be done, and makes the virtual environment; what is there
/// already stays.
pub fn run() -> Done {
    need(&["python3", "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))"], "python3, 3.9 or newer, with venv", "python3 python3-venv")?;
    need(&["node", "-e", "process.exit(Number(process.versions.node.split('.')[0]) >= 18 ? 0 : 1)"], "node, 18 or newer", "nodejs npm")?;
    let venv = folder();
    if !has("pytest") {
        let made = shell::run(command("python3", &["-m", "venv", "--clear"]).arg(&venv));
        made.map_err(|error| format!("{error}\nthe module venv is needed (Debian: apt-get install python3-venv)"))?;
        install("pytest")?;
    }
    // what the Python client is made of
    if !has("httpx") {
        install("httpx")?;
    }
    // the one that makes requests from the API's description
    if !has("schemathesis") {
        install("schemathesis")?;
    }
    // what builds the environments of scripts in Python; the tests find it there too
    if uv().is_none() && !shell::succeeds(&mut command("uv", &["--version"])) {
        install("uv")?;
    }
    output::note("target/venv is ready");
    Ok(())
}

/// Makes sure of a program in which scripts run: `check` succeeds where it is there and new enough.
fn need(check: &[&str], what: &str, packages: &str) -> Done {
    let is_there = || shell::succeeds(&mut command(check[0], &check[1..]));
    if is_there() {
        return Ok(());
    }
    if rustix::process::geteuid().is_root() && shell::succeeds(&mut command("apt-get", &["--version"])) {
        shell::run(&mut command("apt-get", &["update", "-q"]))?;
        let names: Vec<&str> = packages.split(' ').collect();
        shell::run(command("apt-get", &["install", "-q", "-y", "--no-install-recommends"]).args(names).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    if is_there() { Ok(()) } else { Err(format!("{what}, is needed: scripts run in it (Debian: apt-get install {packages})").into()) }
}

fn install(package: &str) -> Done {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
    let installed = shell::run(&mut command(folder().join("bin/python"), &pip));
    installed.map_err(|error| format!("{error}\n{package} could not be installed: without a network, put it into target/venv by hand").into())
}
