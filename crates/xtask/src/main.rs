//! `cargo xtask`: setup, test, tidy, bench.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{bench, output, setup, test, tidy};

/// What the project does to itself.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs what the tests need besides Rust: a virtual environment with pytest in target/venv.
    Setup,
    /// Builds and runs everything that must pass: format, lints, tests, black-box tests.
    Test,
    /// Checks the house rules that the compiler does not know (see STYLE.md).
    Tidy,
    /// Measures durable steps beside what the disk and a pipe cost, in one run.
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    // A worker's guardian is the running binary itself; the bench runs workers.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == viat_runner::script::GUARDIAN_ARGUMENT) {
        return viat_runner::script::guardian_main();
    }
    let done = match Cli::parse().task {
        Task::Setup => setup::run(),
        Task::Test => test::run(),
        Task::Tidy => tidy::run(),
        Task::Bench(args) => bench::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
