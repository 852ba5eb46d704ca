//! The `viat` binary: command line, and the guardian that every worker process lives under.

mod api;
mod ask;
mod audit;
mod cli;
mod links;
mod observe;
mod schedules;
mod signature;
mod socket;
mod start;
mod tokens;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The guardian is this very binary, started anew for each worker: it must come up fast and needs nothing else.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == viat_runner::script::GUARDIAN_ARGUMENT) {
        return viat_runner::script::guardian_main();
    }
    cli::run()
}
