//! The expression language: CEL's syntax, our own meaning over JSON values, bounded and repeatable.
//!
//! Where CEL leaves room or JSON demands it, this was decided:
//! - integers are signed 64-bit and stay integers; `int` and `double` mix in arithmetic, comparison and equality by promotion to double;
//! - overflow, division by zero and results that are not finite are errors; `int / int` is an integer, `%` takes integers only;
//! - there are no unsigned integers, byte strings, timestamps, durations or types as values, and the keys of maps are strings;
//! - a list may be indexed by a double without a fraction; `has(a.b)` of a `null` is false; booleans are ordered, false first;
//! - `string(x)` writes what interpolation writes: strings as they are, other values as compact JSON (`string(2.0)` is `2.0`);
//! - comprehensions walk over lists, and over the keys of maps in their order;
//! - patterns of `matches` find their match anywhere and run in linear time.

mod budget;
mod comprehension;
mod evaluate;
mod function;
mod lower;
mod operators;
mod parse;
mod program;
mod tokens;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use viat_engine::expression::{Evaluate, Scope};
use viat_engine::ir::{Definition, Expression, InputDeclaration};

pub use budget::{MOST_BUILT_BYTES, MOST_STEPS};
pub use parse::{SyntaxError, parse};
pub use program::{Comparison, NameUse, Program};
pub use tokens::{Unclosed, end_of_expression, is_word, place, place_of_text};

/// The tag of this language in the IR.
pub const LANGUAGE: &str = "cel";
/// So many parsed expressions are kept.
const MOST_CACHED: usize = 1024;

/// All registered expression languages; at present CEL.
#[derive(Debug, Default)]
pub struct Languages {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    programs: BTreeMap<String, Arc<Program>>,
    order: VecDeque<String>,
}

impl Languages {
    /// No expression parsed yet.
    pub fn new() -> Languages {
        Languages::default()
    }

    fn program(&self, text: &str) -> Result<Arc<Program>, String> {
        // The cache holds nothing that a panic could leave half done.
        let cached = self.cache.lock().unwrap_or_else(PoisonError::into_inner).programs.get(text).cloned();
        if let Some(program) = cached {
            return Ok(program);
        }
        // Parsing needs no lock; if two threads do it at once, one of them did it in vain.
        let program = Arc::new(parse(text).map_err(|error| error.message)?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.programs.contains_key(text) {
            return Ok(program);
        }
        if cache.order.len() >= MOST_CACHED
            && let Some(oldest) = cache.order.pop_front()
        {
            cache.programs.remove(&oldest);
        }
        cache.order.push_back(text.to_owned());
        cache.programs.insert(text.to_owned(), Arc::clone(&program));
        Ok(program)
    }
}

impl Evaluate for Languages {
    fn evaluate(&self, expression: &Expression, scope: &dyn Scope) -> Result<Value, String> {
        if expression.language != LANGUAGE {
            return Err(format!("there is no expression language `{}`", expression.language));
        }
        self.program(&expression.text)?.evaluate(scope)
    }

    fn check_inputs(&self, definition: &Definition, given: Value) -> Result<Map<String, Value>, String> {
        crate::check_inputs(definition, &given).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("; ")
        })
    }

    fn check_form(&self, fields: &[InputDeclaration], given: Value) -> Result<Map<String, Value>, String> {
        crate::check_form(fields, &given).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("; ")
        })
    }

    fn duration_ms(&self, value: &Value) -> Result<u64, String> {
        let duration = crate::duration::from_json(value).map_err(|error| error.to_string())?;
        duration.millis().ok_or_else(|| format!("a duration must be given; {}", crate::duration::ALLOWED))
    }
}
