//! The expression language: CEL's syntax, our own meaning over JSON values, bounded and repeatable.

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
use viat_engine::ir::{Definition, Expression};

pub use budget::{MOST_BUILT_BYTES, MOST_STEPS};
pub use parse::{SyntaxError, parse};
pub use program::{NameUse, Program};
pub use tokens::{Unclosed, end_of_expression, is_word, place};

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
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = cache.programs.get(text) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(parse(text).map_err(|error| error.message)?);
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
}
