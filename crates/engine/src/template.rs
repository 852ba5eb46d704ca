//! Templates: a value with holes, filled from a scope.

use serde_json::{Map, Value};

use crate::expression::{Evaluate, Scope};
use crate::ir::{Key, Part, Reference, Template};

/// Fills a template.
///
/// # Errors
/// A sentence for the author: which reference or expression failed and what there was instead.
pub fn fill(template: &Template, scope: &dyn Scope, evaluator: &dyn Evaluate) -> Result<Value, String> {
    match template {
        Template::Literal(value) => Ok(value.clone()),
        Template::Reference(reference) => follow(reference, scope),
        Template::Expression(expression) => evaluator.evaluate(expression, scope),
        Template::Text(parts) => interpolate(parts, scope, evaluator).map(Value::String),
        Template::List(items) => items.iter().map(|item| fill(item, scope, evaluator)).collect::<Result<_, _>>().map(Value::Array),
        Template::Map(entries) => {
            let mut map = Map::with_capacity(entries.len());
            for (key, value) in entries {
                map.insert(key.clone(), fill(value, scope, evaluator)?);
            }
            Ok(Value::Object(map))
        }
    }
}

/// How deep values may be nested: what is journaled must be readable again, and readers have a bound of their own.
pub const MAX_DEPTH: usize = 100;

/// Whether a value is nested deeper than [`MAX_DEPTH`].
pub fn is_too_deep(value: &Value) -> bool {
    fn deeper_than(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels == 0 || items.iter().any(|item| deeper_than(item, levels - 1)),
            Value::Object(map) => levels == 0 || map.values().any(|item| deeper_than(item, levels - 1)),
            _ => false,
        }
    }
    deeper_than(value, MAX_DEPTH)
}

/// Fills a condition; anything but a boolean is an error, there is no truthiness.
///
/// # Errors
/// As [`fill`], or what the condition was instead of a boolean.
pub fn condition(template: &Template, scope: &dyn Scope, evaluator: &dyn Evaluate) -> Result<bool, String> {
    match fill(template, scope, evaluator)? {
        Value::Bool(answer) => Ok(answer),
        other => Err(format!("a condition must be true or false, this one is {}", described(&other))),
    }
}

/// A value for a message: its type, and the value itself if it is short.
pub fn described(value: &Value) -> String {
    let name = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(number) if number.is_f64() => "the number",
        Value::Number(_) => "the integer",
        Value::String(_) => "the string",
        Value::Array(_) => "the list",
        Value::Object(_) => "the map",
    };
    let text = value.to_string();
    match text.char_indices().nth(60) {
        None => format!("{name} {text}"),
        Some((cut, _)) => format!("{name} {}…", &text[..cut]),
    }
}

fn interpolate(parts: &[Part], scope: &dyn Scope, evaluator: &dyn Evaluate) -> Result<String, String> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Expression(expression) => match evaluator.evaluate(expression, scope)? {
                Value::String(string) => text.push_str(&string),
                other => text.push_str(&other.to_string()),
            },
        }
    }
    Ok(text)
}

fn follow(reference: &Reference, scope: &dyn Scope) -> Result<Value, String> {
    let Some(mut value) = scope.get(&reference.root) else {
        return Err(format!("{}: nothing named {} is in scope here", reference.text, reference.root));
    };
    let mut walked = format!("${}", reference.root);
    for segment in &reference.path {
        let found = match (&segment.key, value) {
            (Key::Name(name), Value::Object(map)) => map.get(name),
            (Key::Index(index), Value::Array(items)) => usize::try_from(*index).ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match found {
            Some(next) => value = next,
            None if segment.optional => return Ok(Value::Null),
            None => return Err(format!("{}: {}", reference.text, missing(&segment.key, value, &walked))),
        }
        match &segment.key {
            Key::Name(name) => walked.push_str(&format!(".{name}")),
            Key::Index(index) => walked.push_str(&format!("[{index}]")),
        }
    }
    Ok(value.clone())
}

fn missing(key: &Key, parent: &Value, walked: &str) -> String {
    match (key, parent) {
        (Key::Name(name), Value::Object(map)) if map.is_empty() => format!("no key \"{name}\" in {walked}, which is empty"),
        (Key::Name(name), Value::Object(map)) => {
            let keys: Vec<&str> = map.keys().take(20).map(String::as_str).collect();
            let more = if map.len() > keys.len() { ", …" } else { "" };
            format!("no key \"{name}\" in {walked}; it has: {}{more}", keys.join(", "))
        }
        (Key::Index(index), Value::Array(items)) => format!("no index {index} in {walked}, which has {} items", items.len()),
        (Key::Name(name), other) => format!("no key \"{name}\" in {walked}, which is {}", described(other)),
        (Key::Index(index), other) => format!("no index {index} in {walked}, which is {}", described(other)),
    }
}
