//! The only place in here that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// A line of the result.
pub fn line(text: &str) {
    println!("{text}");
}

/// A line on what is being done, on stderr.
pub fn note(text: &str) {
    eprintln!("{text}");
}
