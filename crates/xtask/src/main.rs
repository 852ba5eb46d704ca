//! `cargo xtask`: setup, test, tidy, bench, chaos, and long runs on demand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{bench, chaos, long, output, setup, test, tidy};

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
    /// Kills a server again and again under real runs, and checks that nothing is lost, repeated or forgotten.
    Chaos(chaos::ChaosArgs),
    /// Seeds known bugs into the engine; the simulator's stories must find each.
    Mutants,
    /// Plays many seeded stories against the engine.
    Stories {
        /// How many; the default test run plays 10,000.
        #[arg(default_value_t = 1_000_000)]
        count: u64,
    },
    /// Throws many arbitrary and mutated documents at the dialect.
    Fuzz {
        /// How many of each sort; the default test run takes 400.
        #[arg(default_value_t = 400_000)]
        count: u64,
    },
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
        Task::Chaos(args) => return chaos::main(&args),
        Task::Mutants => long::mutants(),
        Task::Stories { count } => long::stories(count),
        Task::Fuzz { count } => long::fuzz(count),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
