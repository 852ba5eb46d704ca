//! What one evaluation may cost: counted in steps and bytes, never in time, so that every machine decides the same.

use serde_json::Value;

/// Steps of one evaluation.
pub const MOST_STEPS: u64 = 1_000_000;
/// Bytes of the values that one evaluation builds, intermediate ones included.
pub const MOST_BUILT_BYTES: u64 = 16 << 20;

/// What is left.
#[derive(Debug)]
pub struct Budget {
    steps: u64,
    bytes: u64,
}

impl Budget {
    /// Nothing spent.
    pub fn new() -> Budget {
        Budget { steps: MOST_STEPS, bytes: MOST_BUILT_BYTES }
    }

    /// Spends steps.
    pub fn step(&mut self, count: u64) -> Result<(), String> {
        match self.steps.checked_sub(count) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                // Not even an absorbed error may go on from here.
                self.steps = 0;
                Err(format!("the expression takes more than {MOST_STEPS} steps; do this in a script"))
            }
        }
    }

    /// Whether steps or bytes have run out: such an error is never absorbed.
    pub fn is_spent(&self) -> bool {
        self.steps == 0 || self.bytes == 0
    }

    /// Spends bytes on something to be built, and steps in proportion.
    pub fn build(&mut self, bytes: usize) -> Result<(), String> {
        self.step(bytes as u64 / 64)?;
        match self.bytes.checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => {
                self.bytes = 0;
                Err(format!("the expression builds values of more than {} MiB; do this in a script", MOST_BUILT_BYTES >> 20))
            }
        }
    }

    /// Spends what a copy of a value costs, before it is made.
    pub fn copy(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.build(32),
            Value::String(text) => self.build(32 + text.len()),
            Value::Array(items) => {
                self.build(32)?;
                items.iter().try_for_each(|item| self.copy(item))
            }
            Value::Object(map) => {
                self.build(32)?;
                map.iter().try_for_each(|(key, item)| {
                    self.build(48 + key.len())?;
                    self.copy(item)
                })
            }
        }
    }
}
