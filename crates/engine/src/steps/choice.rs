//! `if`: the first arm whose condition is true.

use serde_json::Value;

use crate::ir::Choice;
use crate::journal::Event;
use crate::path::Path;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, choice: &Choice) -> Result<(), String> {
    let mut taken = None;
    for (number, arm) in choice.arms.iter().enumerate() {
        if turn.condition(&arm.when, frame)? {
            taken = Some(number);
            break;
        }
    }
    turn.emit(Event::ChoiceMade { path: path.clone(), arm: taken });
    if taken.is_none() && choice.otherwise.is_none() {
        turn.emit(Event::Completed { path: path.clone(), output: Value::Null });
    }
    Ok(())
}
