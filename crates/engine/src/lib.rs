//! What a workflow means and what happens next: a pure fold over recorded facts.
//!
//! No clock, no randomness, no I/O, no threads. The shell (crate `runner`) feeds inputs and does what is outstanding.

pub mod expression;
pub mod failure;
pub mod ir;
pub mod journal;
pub mod path;
pub mod policies;
