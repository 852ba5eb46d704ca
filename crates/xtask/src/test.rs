//! todo.
use crate::shell::Done;
/// x
pub fn run() -> Done { Ok(()) }
