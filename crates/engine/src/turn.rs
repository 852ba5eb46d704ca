//! One decision in the making: events are folded into the run as they are decided, so each sees the ones before it.

use serde_json::Value;

use crate::expression::Evaluate;
use crate::ir::Template;
use crate::journal::{Event, Millis};
use crate::path::Path;
use crate::run::Run;
use crate::template;

/// The most events that one decision makes of pure entries before it yields.
pub const MAX_EVENTS: usize = 1_000;
/// The most value bytes, roughly, that one decision makes before it yields.
pub const MAX_BYTES: usize = 1 << 20;

/// The largest value that a template may make, in bytes of JSON.
pub const MAX_VALUE_BYTES: usize = 64 << 20;
/// The most that a run may take where it is kept: its journal, and each distinct big value once.
pub const MAX_RUN_BYTES: u64 = 1 << 30;

pub(crate) struct Turn<'a> {
    pub run: &'a mut Run,
    pub evaluator: &'a dyn Evaluate,
    pub now: Millis,
    pub events: Vec<Event>,
    bytes: usize,
}

impl<'a> Turn<'a> {
    pub fn new(run: &'a mut Run, evaluator: &'a dyn Evaluate, now: Millis) -> Turn<'a> {
        Turn { run, evaluator, now, events: Vec::new(), bytes: 0 }
    }

    pub fn emit(&mut self, event: Event) {
        let before = self.run.kept_bytes;
        self.run.apply(&event, self.now);
        self.bytes += usize::try_from(self.run.kept_bytes.saturating_sub(before)).unwrap_or(usize::MAX);
        self.events.push(event);
    }

    /// Whether this decision has grown to its bound.
    pub fn is_full(&self) -> bool {
        self.events.len() >= MAX_EVENTS || self.bytes >= MAX_BYTES
    }

    /// Fills a template in the scope of the frame at `frame`.
    pub fn fill(&self, template: &Template, frame: &Path) -> Result<Value, String> {
        let value = template::fill(template, &self.run.scope(frame), self.evaluator)?;
        if template::is_too_deep(&value) {
            return Err(format!("the value is nested deeper than {} levels", template::MAX_DEPTH));
        }
        let bytes = size(&value);
        if bytes > MAX_VALUE_BYTES {
            return Err(format!("the value has {bytes} bytes as JSON, the most is {MAX_VALUE_BYTES} (64 MiB)"));
        }
        self.run.room_for(bytes)?;
        Ok(value)
    }

    /// Evaluates a condition in the scope of the frame at `frame`.
    pub fn condition(&self, template: &Template, frame: &Path) -> Result<bool, String> {
        template::condition(template, &self.run.scope(frame), self.evaluator)
    }
}

impl Run {
    /// Whether a value may be added to what the run takes.
    ///
    /// # Errors
    /// A sentence for the author: how much it would be.
    pub fn check_room(&self, value: &Value) -> Result<(), String> {
        self.room_for(size(value))
    }

    fn room_for(&self, bytes: usize) -> Result<(), String> {
        let total = self.kept_bytes.saturating_add(bytes as u64);
        if total > MAX_RUN_BYTES {
            return Err(format!("the run's values would have {total} bytes together, the most is {MAX_RUN_BYTES} (1 GiB); keep large data outside of the run"));
        }
        Ok(())
    }
}

/// The bytes of a value as JSON; roughly, if it is small.
fn size(value: &Value) -> usize {
    let rough = weight(value);
    // No value takes eight times its weight: an escaped character takes six bytes, a number less than 32.
    if rough <= MAX_VALUE_BYTES / 8 {
        return rough;
    }
    let mut count = Count(0);
    // A value can always be written, and the counter takes everything.
    serde_json::to_writer(&mut count, value).map_or(rough, |()| count.0)
}

struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Roughly the bytes that a value takes as text; no value is serialised for it.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>() + 2,
    }
}
