//! Behaviour as text: a workflow, a story of what the world does, and the trace that must come of it.
//!
//! The engine is the real one; the world is fake and its clock is virtual. Every case is run once for its trace, and
//! once more for every batch of its journal, with the engine dying right after that batch (see [`crash`]).

pub mod case;
pub mod crash;
pub mod liveness;
mod lookout;
pub mod setup;
pub mod sound;
pub mod stories;
pub mod story;
pub mod trace;
pub mod world;
