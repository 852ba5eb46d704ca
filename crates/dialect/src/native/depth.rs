//! How deep a value is once its definition is stored as JSON, whose readers take 128 levels at most.

use serde_json::Value as Json;
use viat_engine::ir::{Part, Template};

/// Levels that one template or schema may take: what is around it in a stored definition needs the rest.
pub const MOST: usize = 100;

/// The levels of a JSON value.
pub fn of_json(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(of_json).max().unwrap_or(0),
        Json::Object(fields) => 1 + fields.values().map(of_json).max().unwrap_or(0),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    }
}

/// The levels of a template as it is stored: two for a list with holes, three for a map with holes.
pub fn of_template(template: &Template) -> usize {
    match template {
        Template::Literal(value) => 1 + of_json(value),
        Template::Expression(_) => 2,
        Template::Text(parts) => 2 + parts.iter().map(|part| if matches!(part, Part::Text(_)) { 1 } else { 2 }).max().unwrap_or(0),
        Template::Reference(_) => 5,
        Template::List(items) => 2 + items.iter().map(of_template).max().unwrap_or(0),
        Template::Map(entries) => 3 + entries.iter().map(|(_, value)| of_template(value)).max().unwrap_or(0),
    }
}
