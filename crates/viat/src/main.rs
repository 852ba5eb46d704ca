//! The viat binary.
fn main() {}
