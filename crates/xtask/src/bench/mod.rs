//! `cargo xtask bench`: what a durable step costs, beside what this disk and a pipe to Python cost in the same run.

mod cold;
mod floor;
mod lab;
mod load;
mod machine;
mod record;
mod report;
mod samples;
mod store;

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::output;
use crate::shell::{self, Done};
use lab::Lab;
use report::Report;

/// What the bench takes.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Where homes are made: a folder on the disk that is to be measured. Default: the target folder.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// A fifth of the work: for a first look, not for comparing.
    #[arg(long)]
    quick: bool,
    /// Write the result into docs/benchmarks.md.
    #[arg(long)]
    record: bool,
}

/// How much is measured.
struct Effort {
    /// Runs, one after the other, and runs of each concurrent load.
    sequential_runs: usize,
    concurrent_runs: usize,
    /// Script entries of each of these runs.
    steps: usize,
    pure_runs: usize,
    store_rounds: usize,
    cold_starts: usize,
}

const FULL: Effort = Effort { sequential_runs: 10, concurrent_runs: 100, steps: 200, pure_runs: 30, store_rounds: 5, cold_starts: 20 };
const QUICK: Effort = Effort { sequential_runs: 5, concurrent_runs: 50, steps: 100, pure_runs: 6, store_rounds: 2, cold_starts: 8 };

/// Measures, prints, and records if asked to. Slow is no error.
pub fn run(args: &BenchArgs) -> Done {
    let folder = std::env::current_exe()?.parent().map(PathBuf::from).ok_or("the program has no folder")?;
    if cfg!(debug_assertions) {
        return run_optimised(&folder);
    }
    shell::run(&mut shell::cargo(&["build", "--quiet", "--release", "--package", "viat"]))?;
    let dir = args.dir.clone().unwrap_or_else(|| folder.clone());
    let scratch = tempfile::Builder::new().prefix("viat-bench-").tempdir_in(&dir)?;
    let report = measure(if args.quick { &QUICK } else { &FULL }, scratch.path(), &folder.join("viat"))?;
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
    } else {
        output::line(&report.table());
    }
    if args.record {
        record::write(&report)?;
    }
    Ok(())
}

/// What is not optimised is not worth measuring: the same again, by the release build.
fn run_optimised(folder: &std::path::Path) -> Done {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--release", "--package", "viat", "--package", "xtask"]))?;
    let program = folder.with_file_name("release").join("xtask");
    let status = Command::new(program).args(std::env::args_os().skip(1)).status()?;
    if status.success() { Ok(()) } else { Err(format!("the release build's bench: {status}").into()) }
}

fn measure(effort: &Effort, dir: &std::path::Path, viat: &std::path::Path) -> Done<Report> {
    let mut machine = machine::look(dir);
    let stalled = machine::Stalled::begin();
    output::note("one run at a time, beside the disk and the pipe ...");
    let lab = Lab::open(&dir.join("steps"))?;
    let workflow = lab.scripts(effort.steps)?;
    let sequential = load::sequential(&lab, &workflow, effort.sequential_runs, dir)?;
    output::note("16 and 50 runs at once ...");
    let mut concurrent = Vec::new();
    for at_once in [16, 50] {
        concurrent.push(load::at_once(&lab, &workflow, at_once, effort.concurrent_runs)?);
    }
    let steps = ((effort.sequential_runs + 1 + 2 * effort.concurrent_runs) * effort.steps) as u64;
    let bytes_per_step = lab.close()? as f64 / steps as f64;
    output::note("set entries ...");
    let lab = Lab::open(&dir.join("pure"))?;
    let pure = load::pure(&lab, effort.pure_runs)?;
    lab.close()?;
    output::note("the store's writer beside bare SQLite ...");
    let store = store::turns(dir, effort.store_rounds)?;
    output::note("cold starts ...");
    let cold = cold::starts(viat, dir, effort.cold_starts)?;
    machine.cpu_stalled = stalled.share();
    Ok(Report { machine, sequential, concurrent, pure, bytes_per_step, store, cold })
}
