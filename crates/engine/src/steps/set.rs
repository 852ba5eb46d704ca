//! `set`: a value by itself.

use crate::ir::Template;
use crate::journal::Event;
use crate::path::Path;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, value: &Template) -> Result<(), String> {
    let output = turn.fill(value, frame)?;
    turn.emit(Event::Completed { path: path.clone(), output });
    Ok(())
}
