//! What a caller gives, checked against what the workflow declares; and what a person fills in, against a review's form.
//!
//! Schemas are JSON Schema 2020-12 with `format` checked. As JSON Schema has it, `2.0` is an `integer`; it is accepted and stays the double that it is.

use serde_json::{Map, Value};
use viat_engine::ir::{Definition, InputDeclaration};

use crate::json::large_integer;
use crate::suggest;

/// At most this many problems of one call are listed.
const MOST_PROBLEMS: usize = 20;

/// What the values are that are checked, for the words of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// The inputs of a run.
    #[default]
    Inputs,
    /// The `data` of a review's decision.
    Data,
}

impl Given {
    fn root(self) -> &'static str {
        match self {
            Given::Inputs => "inputs",
            Given::Data => "data",
        }
    }

    fn none_of(self, name: &str) -> String {
        match self {
            Given::Inputs => format!("there is no input `{name}`"),
            Given::Data => format!("the form has no field `{name}`"),
        }
    }

    fn instead(self, name: &str, fields: &[InputDeclaration]) -> String {
        let names = || fields.iter().map(|field| field.name.as_str());
        match (suggest::nearest(name, names()), self) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, Given::Inputs) if fields.is_empty() => "the workflow declares no inputs".to_owned(),
            (None, Given::Data) if fields.is_empty() => "the review has no form".to_owned(),
            (None, Given::Inputs) => format!("declared are {}", suggest::listed(names(), 20)),
            (None, Given::Data) => format!("its fields are {}", suggest::listed(names(), 20)),
        }
    }
}

/// Something wrong with what a caller or a person gave.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct InputProblem {
    /// A short, stable word: `not-an-object`, `undeclared`, `missing`, `invalid`, `integer-range`.
    pub code: String,
    /// What it is a part of.
    pub of: Given,
    /// Where in it: `n`, `o.items[0].name`; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to give instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl std::fmt::Display for InputProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.path.is_empty(), &self.help) {
            (true, None) => write!(formatter, "{}", self.message),
            (true, Some(help)) => write!(formatter, "{} ({help})", self.message),
            (false, None) => write!(formatter, "{}.{}: {}", self.of.root(), self.path, self.message),
            (false, Some(help)) => write!(formatter, "{}.{}: {} ({help})", self.of.root(), self.path, self.message),
        }
    }
}

/// Checks what a caller gave and fills in what was left out: the run's inputs, in the order of their declarations.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check_inputs(definition: &Definition, given: &Value) -> Result<Map<String, Value>, Vec<InputProblem>> {
    fill(Given::Inputs, &definition.inputs, given)
}

/// As [`check_inputs`], for the fields of a review's form; `null` is no data at all.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check_form(fields: &[InputDeclaration], given: &Value) -> Result<Map<String, Value>, Vec<InputProblem>> {
    match given {
        Value::Null => fill(Given::Data, fields, &Value::Object(Map::new())),
        given => fill(Given::Data, fields, given),
    }
}

fn fill(of: Given, fields: &[InputDeclaration], given: &Value) -> Result<Map<String, Value>, Vec<InputProblem>> {
    let problem = |code: &str, path: String, message: String, help: Option<String>| InputProblem { code: code.to_owned(), of, path, message, help };
    let Value::Object(given) = given else {
        let message = format!("the {} must be a JSON object, not {}", of.root(), sort(given));
        return Err(vec![problem("not-an-object", String::new(), message, None)]);
    };
    let mut problems = Vec::new();
    for name in given.keys() {
        if !fields.iter().any(|input| input.name == *name) {
            let help = of.instead(name, fields);
            problems.push(problem("undeclared", name.clone(), of.none_of(&crate::yaml::shortened(name)), Some(help)));
        }
    }
    let mut filled = Map::new();
    for input in fields {
        match given.get(&input.name) {
            Some(value) => {
                check(of, input, value, &mut problems);
                filled.insert(input.name.clone(), value.clone());
            }
            None if input.required => {
                problems.push(problem("missing", input.name.clone(), "it is required and not given".to_owned(), Some(format!("give {}", wanted(input)))));
            }
            None => {
                filled.insert(input.name.clone(), input.default.clone().unwrap_or(Value::Null));
            }
        }
    }
    problems.truncate(MOST_PROBLEMS);
    if problems.is_empty() { Ok(filled) } else { Err(problems) }
}

/// What is wrong with one value.
pub(crate) fn problems_of(input: &InputDeclaration, value: &Value) -> Vec<InputProblem> {
    let mut problems = Vec::new();
    check(Given::Inputs, input, value, &mut problems);
    problems
}

fn check(of: Given, input: &InputDeclaration, value: &Value, problems: &mut Vec<InputProblem>) {
    let mut add = |code: &str, path: String, message: String| problems.push(InputProblem { code: code.to_owned(), of, path, message, help: None });
    if let Some(path) = large_integer(value) {
        add("integer-range", joined(&input.name, &path), "the integer is outside the signed 64-bit range; give it as a string".to_owned());
        return;
    }
    // `required: false` without a default means that the workflow can cope with null.
    if value.is_null() && !input.required && input.default.is_none() {
        return;
    }
    match validator(&input.schema) {
        Ok(validator) => {
            for (path, message) in schema_errors(&validator, value) {
                add("invalid", joined(&input.name, &path), message);
            }
        }
        Err(broken) => add("invalid", input.name.clone(), format!("its declaration is broken: {}", broken.message)),
    }
}

fn joined(name: &str, path: &str) -> String {
    if path.is_empty() || path.starts_with('[') { format!("{name}{path}") } else { format!("{name}.{path}") }
}

fn wanted(input: &InputDeclaration) -> String {
    match input.schema.get("type").and_then(Value::as_str) {
        Some(kind) => format!("a value of type {kind}"),
        None => "a value".to_owned(),
    }
}

fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A schema that is none, with the keys that lead to the bad part of it.
pub(crate) struct BrokenSchema {
    pub keys: Vec<String>,
    pub message: String,
}

/// Compiles a schema: draft 2020-12, formats checked, nothing fetched, patterns in linear time.
pub(crate) fn validator(schema: &Value) -> Result<jsonschema::Validator, BrokenSchema> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
        .offline()
        .build(schema)
        .map_err(|error| {
            let keys = error.instance_path().as_str().split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
            BrokenSchema { keys, message: bounded(&error.to_string()) }
        })
}

/// What is wrong with a value: paths such as `items[0].name` and sentences.
pub(crate) fn schema_errors(validator: &jsonschema::Validator, value: &Value) -> Vec<(String, String)> {
    let errors = validator.iter_errors(value).take(MOST_PROBLEMS);
    errors.map(|error| (readable(error.instance_path().as_str(), value), bounded(&error.to_string()))).collect()
}

/// A JSON pointer as one would write it in the language.
fn readable(pointer: &str, mut value: &Value) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(items) => {
                path.push_str(&format!("[{key}]"));
                value = key.parse::<usize>().ok().and_then(|at| items.get(at)).unwrap_or(&Value::Null);
            }
            _ => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&key);
                value = value.get(&key).unwrap_or(&Value::Null);
            }
        }
    }
    path
}

/// Messages quote the value, which may be large.
fn bounded(message: &str) -> String {
    const MOST: usize = 240;
    if message.chars().count() <= MOST { message.to_owned() } else { format!("{}…", message.chars().take(MOST).collect::<String>()) }
}
