//! `loop`: entries repeated over a list or while a condition holds.

use super::super::names;
use super::super::reader::Reader;
use super::super::typed::{Kind, Loop};
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 7] = ["over", "while", "as", "concurrency", "max_iterations", "max_failures", "steps"];
const MOST_CONCURRENT: i64 = 256;
const MOST_ITERATIONS: i64 = 1_000_000;

/// Reads a `loop` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let node = &key.value;
    let Some(fields) = reader.map(node, "`loop`") else { return Kind::Broken };
    reader.known_keys(fields, "`loop`", &KEYS);
    let (over, condition) = (node.get("over"), node.get("while"));
    match (over, condition) {
        (None, None) => {
            reader.report.error("missing-key", key.key_span, "`loop` needs `over` or `while`");
        }
        (Some(first), Some(second)) => {
            reader.report.error("two-kinds", second.key_span, "`loop` has `over` and `while`; it takes one of them").label(first.key_span, "the other one");
        }
        _ => {}
    }
    let condition_given = condition.is_some();
    let over = over.map(|field| reader.template(&field.value));
    let condition = condition.map(|field| reader.condition(&field.value, "while"));
    bounds(reader, node, condition_given);
    let variable = (!condition_given).then(|| variable(reader, node, key));
    let Some(field) = reader.required(node, "steps", "`loop`", key.key_span) else { return Kind::Broken };
    reader.variables.extend(variable.clone());
    let steps = reader.entries(&field.value, "the loop's `steps`");
    if variable.is_some() {
        reader.variables.pop();
    }
    Kind::Loop(Loop { over, condition, variable, steps })
}

fn bounds(reader: &mut Reader<'_, '_>, node: &Node, condition_given: bool) {
    if let Some(field) = node.get("concurrency") {
        if condition_given {
            reader.report.error("bad-value", field.key_span, "`concurrency` goes with `over`, not with `while`: each iteration waits for the one before");
        } else {
            reader.integer(&field.value, "`concurrency`", 1, MOST_CONCURRENT);
        }
    }
    if let Some(field) = node.get("max_iterations") {
        reader.integer(&field.value, "`max_iterations`", 1, MOST_ITERATIONS);
    }
    if let Some(field) = node.get("max_failures") {
        reader.integer(&field.value, "`max_failures`", 0, MOST_ITERATIONS);
    }
}

fn variable(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry) -> String {
    let (name, span) = match node.get("as") {
        None => ("item".to_owned(), key.key_span),
        Some(field) => match &field.value.value {
            Value::String(name) => (name.clone(), field.value.span),
            _ => {
                reader.wrong_sort(&field.value, "`as`", "a name");
                return "item".to_owned();
            }
        },
    };
    if let Some((message, help)) = names::bad_id(&name) {
        reader.report.error("bad-id", span, message.replace("the id", "the loop variable").replace("an id", "a name")).help(help);
    } else if reader.variables.contains(&name) {
        reader
            .report
            .error("duplicate-id", span, format!("the loop variable `{name}` is that of a loop around this one, too"))
            .help("name this one otherwise: `as: inner`");
    }
    reader.all_variables.entry(name.clone()).or_insert(span);
    name
}
