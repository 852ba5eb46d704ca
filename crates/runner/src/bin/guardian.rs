//! The guardian as a program of its own, so that this crate's tests need no `viat` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    viat_runner::script::guardian_main()
}
