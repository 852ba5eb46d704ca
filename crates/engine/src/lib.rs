//! What a workflow means and what happens next: a pure fold over recorded facts.
//!
//! No clock, no randomness, no I/O, no threads. The shell (crate `runner`) feeds inputs and does what is outstanding.

mod apply;
mod check;
pub mod decide;
pub mod expression;
pub mod facts;
pub mod failure;
pub mod ir;
pub mod journal;
pub mod key;
pub mod ledger;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
pub mod outstanding;
pub mod path;
pub mod policies;
pub mod record;
pub mod run;
mod steps;
pub mod template;
pub mod transitions;
mod turn;

pub use check::{check, inner_regions};
pub use decide::{Input, Rejection, Report, decide};
pub use ir::{Definition, Op};
pub use outstanding::{Outstanding, Running, Wanted, deadline, due_between, has_more, next_unknown, outstanding, to_stop, wanted_at};
pub use run::{Program, Run, Status};
