//! Declarations of inputs: JSON Schemas with a shorthand, a default and a way to be optional.

use serde_json::{Map, Value as Json, json};
use viat_engine::ir::InputDeclaration;

use super::depth;
use super::fields::given;
use super::reader::Reader;
use crate::inputs::{schema_errors, validator};
use crate::suggest;
use crate::yaml::{Entry, Node, Value};

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// JSON Schema's words, to tell a misspelt one from an annotation.
const KEYWORDS: [&str; 38] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "enum",
    "const",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "title",
    "description",
    "default",
    "examples",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "patternProperties",
];

/// What is declared, for messages.
#[derive(Clone, Copy)]
pub struct Words {
    /// The key that holds the declarations.
    key: &'static str,
    /// One of what is declared.
    one: &'static str,
}

/// What a workflow is given.
pub const INPUTS: Words = Words { key: "`inputs`", one: "input" };
/// What a person fills in.
pub const FORM: Words = Words { key: "`form`", one: "field" };

/// Reads the declarations.
pub fn read(reader: &mut Reader<'_, '_>, node: &Node, words: Words) -> Vec<InputDeclaration> {
    if node.value == Value::Null {
        return Vec::new();
    }
    let Some(entries) = reader.map(node, words.key) else { return Vec::new() };
    entries.iter().map(|entry| declaration(reader, entry, words.one)).collect()
}

fn declaration(reader: &mut Reader<'_, '_>, entry: &Entry, one: &str) -> InputDeclaration {
    let name = &entry.key;
    let (schema, default, required) = match &entry.value.value {
        Value::String(text) => (shorthand(reader, &entry.value, text), None, true),
        Value::Map(fields) => object_form(reader, entry, fields, one),
        _ => {
            reader
                .report
                .error("bad-input", entry.value.span, format!("the {one} `{name}` is declared by {}", given(&entry.value)))
                .help("write a type, as in `name: string`, a JSON Schema, as in `{type: integer, minimum: 1}`, or `{}` for anything");
            (json!({}), None, true)
        }
    };
    InputDeclaration { name: name.clone(), schema, default, required }
}

fn shorthand(reader: &mut Reader<'_, '_>, node: &Node, text: &str) -> Json {
    if !TYPES.contains(&text) {
        let help = match (text, suggest::nearest(text, TYPES)) {
            ("int", _) => "did you mean `integer`?".to_owned(),
            ("float" | "double", _) => "did you mean `number`?".to_owned(),
            ("bool", _) => "did you mean `boolean`?".to_owned(),
            ("map" | "dict", _) => "did you mean `object`?".to_owned(),
            ("list", _) => "did you mean `array`?".to_owned(),
            ("str" | "text", _) => "did you mean `string`?".to_owned(),
            ("any", _) => "write `{}` for anything".to_owned(),
            (_, Some(name)) => format!("did you mean `{name}`?"),
            (_, None) => format!("the types are {}", suggest::listed(TYPES, 10)),
        };
        reader.report.error("bad-input", node.span, format!("`{}` is not a type", crate::yaml::shortened(text))).help(help);
        return json!({});
    }
    json!({ "type": text })
}

fn object_form(reader: &mut Reader<'_, '_>, entry: &Entry, fields: &[Entry], one: &str) -> (Json, Option<Json>, bool) {
    let mut schema = Map::new();
    let mut default = None;
    let mut required = true;
    for field in fields {
        let value = match field.value.to_json() {
            Ok(value) => value,
            Err(span) => {
                reader.report.error("not-json", span, "only finite numbers can stand here");
                continue;
            }
        };
        match (field.key.as_str(), &value) {
            ("default", _) => default = Some(value),
            ("required", Json::Bool(flag)) => required = *flag,
            _ => {
                misspelt_keyword(reader, field);
                schema.insert(field.key.clone(), value);
            }
        }
    }
    let schema = Json::Object(schema);
    if depth::of_json(&schema).max(default.as_ref().map_or(0, depth::of_json)) > depth::MOST {
        reader.too_deep(entry.value.span);
        return (json!({}), None, required);
    }
    let compiled = match validator(&schema) {
        Ok(compiled) => compiled,
        Err(problem) => {
            let at = problem.keys.iter().try_fold(&entry.value, |node, key| follow(node, key)).map_or(entry.key_span, |node| node.span);
            reader.report.error("bad-schema", at, format!("the schema of the {one} `{}` is not valid: {}", entry.key, problem.message));
            return (json!({}), default, required && !fields.iter().any(|field| field.key == "default"));
        }
    };
    if let Some(value) = &default
        && let Some((path, message)) = schema_errors(&compiled, value).into_iter().next()
        && (required || !value.is_null())
    {
        let at = entry.value.get("default").map_or(entry.key_span, |field| field.value.span);
        let place = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
        reader.report.error("bad-default", at, format!("the default of the {one} `{}` does not fit its own schema{place}: {message}", entry.key));
    }
    let required = required && default.is_none();
    // A default of null is what an input that need not be given has anyway; stored, the two could not be told apart.
    (schema, default.filter(|value| !value.is_null()), required)
}

/// JSON Schema ignores words that it does not know, so a misspelt one would silently check nothing.
fn misspelt_keyword(reader: &mut Reader<'_, '_>, field: &Entry) {
    if KEYWORDS.contains(&field.key.as_str()) || field.key.starts_with('$') || field.key.starts_with("x-") {
        return;
    }
    if let Some(word) = suggest::nearest(&field.key, KEYWORDS) {
        reader
            .report
            .warning("unknown-keyword", field.key_span, format!("`{}` is not a word of JSON Schema, so it checks nothing", field.key))
            .help(format!("did you mean `{word}`?"));
    }
}

fn follow<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Map(_) => node.get(key).map(|entry| &entry.value),
        Value::List(items) => items.get(key.parse::<usize>().ok()?),
        _ => None,
    }
}
