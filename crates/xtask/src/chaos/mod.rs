//! `cargo xtask chaos`: real runs on a real server that is killed again and again, checked against what truly happened.
//!
//! Scripts write what they do into a file outside of the engine; people (played from a seed) start, decide, cancel, settle
//! and resume over the API. Afterwards the records, ledgers, transitions and journals are held against that file.

mod check;
mod clock;
mod disk;
mod effects;
mod facts;
mod http;
mod lab;
mod people;
mod report;
mod rules;
mod server;
mod storm;
mod story;
mod truth;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::output;
use crate::shell::{self, Done, cargo};
use lab::Lab;

/// The exit code where a fault cannot be made on this machine.
const CANNOT: u8 = 2;

/// What is done to the server, and how much of it.
#[derive(Args, Clone, Debug)]
pub struct ChaosArgs {
    /// How many runs: half of them of the flagship example, half of a wide workflow.
    #[arg(long, default_value_t = 200)]
    pub runs: usize,
    /// How often the server is killed, at random moments.
    #[arg(long, default_value_t = 50)]
    pub kills: usize,
    /// Chooses everything that is random here, except what the machine's timing adds.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The home is a small tmpfs, which is filled and freed again meanwhile; needs root.
    #[arg(long)]
    pub disk_full: bool,
    /// The server's wall clock is stepped by an hour either way meanwhile; needs libfaketime.
    #[arg(long)]
    pub clock: bool,
    /// The viat to test; without it, a release build of this workspace.
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Keep the home and the effects also if everything held.
    #[arg(long)]
    pub keep: bool,
}

impl ChaosArgs {
    /// The form that is short enough for the tests.
    pub fn short(binary: PathBuf) -> ChaosArgs {
        ChaosArgs { runs: 20, kills: 5, seed: None, disk_full: false, clock: false, binary: Some(binary), keep: false }
    }
}

/// Why nothing could be tested.
#[derive(Debug)]
pub struct Cannot(pub String);

impl std::fmt::Display for Cannot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Cannot {}

/// Runs it: 0 if everything held, 1 on a violation, 2 if it cannot be done here.
pub fn main(args: &ChaosArgs) -> ExitCode {
    let Err(error) = run(args) else { return ExitCode::SUCCESS };
    output::note(&format!("error: {error}"));
    if error.is::<Cannot>() { ExitCode::from(CANNOT) } else { ExitCode::FAILURE }
}

/// Runs it; a violation is an error, and leaves everything where it is.
///
/// # Errors
/// A violation; [`Cannot`]; or what went wrong with the test itself.
pub fn run(args: &ChaosArgs) -> Done {
    if args.runs == 0 {
        return Err(Cannot("--runs must be at least 1".to_owned()).into());
    }
    let seed = args.seed.map_or_else(fresh_seed, Ok)?;
    output::note(&format!("chaos: seed {seed}"));
    let lab = Lab::open(args, binary(args)?)?;
    let mut people = people::People::new(story::stories(seed, args.runs), &lab, seed)?;
    let storm = storm::rage(args, seed, &lab, &mut people)?;
    let facts = facts::collect(&lab)?;
    let violations = check::all(&lab, &people, &facts, storm.problems.clone())?;
    report::print(seed, args, &storm, &people, &facts, &violations);
    if violations.is_empty() && !args.keep {
        return lab.remove();
    }
    output::note(&format!("chaos: everything is kept in {}", lab.keep()?.display()));
    if violations.is_empty() { Ok(()) } else { Err(format!("{} violations (seed {seed})", violations.len()).into()) }
}

fn fresh_seed() -> Done<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64 % 1_000_000_000)
}

fn binary(args: &ChaosArgs) -> Done<PathBuf> {
    if let Some(binary) = &args.binary {
        return Ok(binary.canonicalize().map_err(|error| Cannot(format!("{}: {error}", binary.display())))?);
    }
    shell::run(&mut cargo(&["build", "--release", "--package", "viat"]))?;
    Ok(crate::test::release_folder()?.join("viat"))
}
