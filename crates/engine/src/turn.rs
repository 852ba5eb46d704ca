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

/// The largest value that a template may make, roughly, in bytes of text.
pub const MAX_VALUE_BYTES: usize = 64 << 20;

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
        self.bytes += event.weight();
        self.run.apply(&event, self.now);
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
        let bytes = weight(&value);
        if bytes > MAX_VALUE_BYTES {
            return Err(format!("the value has about {bytes} bytes, the most is {MAX_VALUE_BYTES}"));
        }
        Ok(value)
    }

    /// Evaluates a condition in the scope of the frame at `frame`.
    pub fn condition(&self, template: &Template, frame: &Path) -> Result<bool, String> {
        template::condition(template, &self.run.scope(frame), self.evaluator)
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
