//! `loop`: entries repeated over a list or while a condition holds.

use serde_json::Value as Json;
use viat_engine::ir::Template;

use super::super::fields::given;
use super::super::names;
use super::super::reader::{Reader, SideBySide};
use super::super::typed::{Filled, Kind, Loop, Source};
use super::parallel::MOST_CONCURRENT;
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 7] = ["over", "while", "as", "concurrency", "max_iterations", "max_failures", "steps"];
/// No loop may ask for more: its results are kept in one list.
const MOST_ITERATIONS: i64 = 1_000_000;
const DEFAULT_OVER: usize = 10_000;
const DEFAULT_WHILE: usize = 1_000;

/// Reads a `loop` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let node = &key.value;
    let Some(fields) = reader.map(node, "`loop`") else { return Kind::Broken };
    reader.kind_keys(fields, "`loop`", &KEYS);
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
    let bounds = bounds(reader, node, condition.is_some());
    let over = over.map(|field| list(reader, &field.value, bounds.max_iterations));
    let condition = condition.map(|field| reader.condition(&field.value, "while"));
    let variable = condition.is_none().then(|| variable(reader, node, key));
    let Some(field) = reader.required(node, "steps", "`loop`", key.key_span) else { return Kind::Broken };
    reader.variables.extend(variable.clone());
    let outer = reader.side_by_side;
    if bounds.concurrency > 1 {
        reader.side_by_side = outer.or(Some(SideBySide { what: "the concurrent loop around it", span: key.key_span }));
    }
    let steps = reader.entries(&field.value, "the loop's `steps`");
    reader.side_by_side = outer;
    if variable.is_some() {
        reader.variables.pop();
    }
    let source = match (condition, over, variable) {
        (Some(condition), _, _) => Source::While(condition),
        (None, Some(list), Some(variable)) => Source::Over { list, variable },
        // Reported above; the variable is kept so that its uses are not complained about.
        (None, list, variable) => Source::Over { list: list.unwrap_or_else(|| Filled::literal(Json::Null)), variable: variable.unwrap_or_default() },
    };
    let Bounds { concurrency, max_iterations, max_failures } = bounds;
    Kind::Loop(Box::new(Loop { source, concurrency, max_iterations, max_failures, steps }))
}

struct Bounds {
    concurrency: usize,
    max_iterations: usize,
    max_failures: usize,
}

fn bounds(reader: &mut Reader<'_, '_>, node: &Node, is_while: bool) -> Bounds {
    if is_while {
        for (key, why) in [("concurrency", "each iteration waits for the one before"), ("as", "there is no item; use `$iteration.index`")] {
            if let Some(field) = node.get(key) {
                reader.report.error("bad-value", field.key_span, format!("`{key}` goes with `over`, not with `while`: {why}"));
            }
        }
    }
    let mut count = |key: &str, least: i64, most: i64| node.get(key).and_then(|field| reader.count(&field.value, &format!("`{key}`"), least, most));
    Bounds {
        concurrency: if is_while { 1 } else { count("concurrency", 1, MOST_CONCURRENT).unwrap_or(1) },
        max_iterations: count("max_iterations", 1, MOST_ITERATIONS).unwrap_or(if is_while { DEFAULT_WHILE } else { DEFAULT_OVER }),
        max_failures: count("max_failures", 0, MOST_ITERATIONS).unwrap_or(0),
    }
}

/// What a loop runs over; what can never be a list, or has too many items, is refused here and not when it runs.
fn list(reader: &mut Reader<'_, '_>, node: &Node, most: usize) -> Filled {
    let filled = reader.template(node);
    let length = match &filled.template {
        Template::Reference(_) | Template::Expression(_) => return filled,
        Template::Literal(Json::Array(items)) => items.len(),
        Template::List(items) => items.len(),
        // What was reported already has become null.
        Template::Literal(Json::Null) if reader.report.has_error_in(&node.span) => return filled,
        Template::Literal(_) | Template::Text(_) | Template::Map(_) => {
            reader
                .report
                .error("wrong-type", node.span, format!("`over` must be a list, not {}", given(node)))
                .help("write a reference such as `$inputs.items`, an expression `${ … }` or a list; the items of a map `m` are `${ m.map(key, m[key]) }`");
            return filled;
        }
    };
    if length > most {
        reader.report.error("out-of-range", node.span, format!("the list has {length} items, and `max_iterations` is {most}"));
    }
    filled
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
