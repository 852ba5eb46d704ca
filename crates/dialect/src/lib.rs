//! Text to definition: reads workflow documents, complains as a compiler does, and lowers them to the engine's IR.
//!
//! The crate is pure: no clock, no randomness, no I/O, no unordered maps. The same text always means the same.

pub mod catalogue;
pub mod cel;
pub mod diagnostic;
pub mod duration;
pub mod inputs;
pub mod json;
pub mod native;
pub mod render;
pub mod signature;
pub mod suggest;
pub mod yaml;

pub use catalogue::{Catalogue, Names};
pub use cel::Languages;
pub use diagnostic::{Diagnostic, Label, Severity, Span};
pub use duration::{Duration, DurationError};
pub use inputs::{Given, InputProblem, check_form, check_inputs};
pub use native::{Compiled, compile, compile_named};
pub use render::{Style, render};
