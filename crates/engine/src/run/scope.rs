//! What names stand for at one point of a run.

use serde_json::Value;

use crate::expression::Scope;
use crate::run::{Frame, Role, Run};

/// Looks names up in a frame, then in the frames around it.
pub(crate) struct FrameScope<'a> {
    pub(super) run: &'a Run,
    pub(super) frame: Option<&'a Frame>,
}

impl Scope for FrameScope<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == "run" {
            return Some(&self.run.run_value);
        }
        let mut frame = self.frame;
        while let Some(current) = frame {
            if let Some(value) = current.vars.get(name) {
                return Some(value.as_ref());
            }
            if current.role == Role::Callee {
                // A called workflow sees nothing of its caller but its inputs.
                return None;
            }
            frame = current.parent.as_ref().and_then(|path| self.run.frames.get(path));
        }
        (name == "inputs").then_some(&self.run.inputs_value)
    }
}
