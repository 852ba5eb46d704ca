//! The seam between the engine and the expression languages, which live with their dialects.

use serde_json::{Map, Value};

use crate::ir::{Definition, Expression, InputDeclaration};

/// The values that names stand for at one point of a run.
///
/// An entry's name gives `{"output": …, "_error": …}`, `inputs` and `run` give objects, `_error` the caught error.
pub trait Scope {
    /// The value of a name, or `None` if nothing of that name is in scope.
    fn get(&self, name: &str) -> Option<&Value>;
}

/// Evaluates expressions; pure and bounded. One implementation stands for all registered languages.
pub trait Evaluate: Send + Sync {
    /// The expression's value, or what is wrong with it, naming the path and the keys that do exist where one is missing.
    ///
    /// # Errors
    /// A sentence for the author; it becomes the message of an `orchestration` failure.
    fn evaluate(&self, expression: &Expression, scope: &dyn Scope) -> Result<Value, String>;

    /// The inputs of a called workflow, checked against its declarations, defaults filled in.
    ///
    /// # Errors
    /// A sentence for the author that names the input and what is wrong with it.
    fn check_inputs(&self, definition: &Definition, given: Value) -> Result<Map<String, Value>, String>;

    /// The `data` of a review's decision, checked against the form's fields, defaults filled in.
    ///
    /// # Errors
    /// A sentence for who decides that names the field and what is wrong with it.
    fn check_form(&self, fields: &[InputDeclaration], given: Value) -> Result<Map<String, Value>, String>;

    /// A duration as the language spells it, in milliseconds.
    ///
    /// # Errors
    /// A sentence for the author that names the value and the spellings that are allowed; "not given" is an error here.
    fn duration_ms(&self, value: &Value) -> Result<u64, String>;
}
