//! viat-runner.
