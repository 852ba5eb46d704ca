//! Long runs on demand: seeded bugs that the simulator must find, more stories, more fuzzing.

use crate::shell::{self, Done, cargo};

/// Seeds each known bug into the engine and checks that the stories find it.
pub fn mutants() -> Done {
    shell::run(&mut cargo(&["test", "--package", "viat-simulator", "--features", "mutants", "--test", "mutants", "--", "--nocapture"]))
}

/// Plays this many seeded stories.
pub fn stories(count: u64) -> Done {
    let mut command = cargo(&["test", "--release", "--package", "viat-simulator", "--test", "stories", "--", "--nocapture"]);
    shell::run(command.env("VIAT_STORIES", count.to_string()))
}

/// Throws this many documents of each sort at the dialect; some 400,000 take ten minutes on one core.
pub fn fuzz(count: u64) -> Done {
    let mut command = cargo(&["test", "--package", "viat-dialect", "--test", "robustness"]);
    shell::run(command.env("VIAT_FUZZ_CASES", count.to_string()))
}
