//! `cargo xtask test`: everything that must pass, in the order in which failures are cheapest to find.

use crate::chaos;
use crate::output;
use crate::setup;
use crate::shell::{self, Done, cargo, command};

/// Runs it all and stops at the first failure.
pub fn run() -> Done {
    shell::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    shell::run(&mut cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    if shell::succeeds(&mut cargo(&["nextest", "--version"])) {
        // A machine that others use too may starve a test of time: it is tried once more, and the summary calls it flaky.
        shell::run(&mut cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--retries", "1"]))?;
        // nextest leaves out the examples in documentation.
        shell::run(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]))?;
    } else {
        shell::run(&mut cargo(&["test", "--workspace", "--no-fail-fast"]))?;
    }
    shell::run(&mut cargo(&["build", "--release", "--package", "viat"]))?;
    chaos::run(&chaos::ChaosArgs::short(release_folder()?.join("viat")))?;
    black_box()?;
    output::note("\neverything passed");
    Ok(())
}

/// The tests that know only the binary and what it prints.
fn black_box() -> Done {
    let folder = crate::root().join("tests/blackbox");
    if !folder.is_dir() {
        output::note("\nno tests/blackbox here: left out");
        return Ok(());
    }
    if setup::python().is_none() {
        setup::run()?;
    }
    let python = setup::python().ok_or("target/venv lacks pytest or httpx: cargo xtask setup")?;
    let viat = release_folder()?.join("viat");
    let tests = |more: &[&str]| shell::run(command(&python, &["-m", "pytest", "-q", "tests/blackbox"]).args(more).env("VIAT_BIN", &viat));
    tests(&[]).or_else(|first| {
        output::note(&format!("\n{first}; those that failed are tried once more"));
        tests(&["--last-failed", "--last-failed-no-failures", "none"])
    })
}

/// Beside the folder that we were built into, whatever cargo was told to build into.
pub fn release_folder() -> Done<std::path::PathBuf> {
    let program = std::env::current_exe()?;
    let profile = program.parent().ok_or("the program has no folder")?;
    Ok(profile.with_file_name("release"))
}
