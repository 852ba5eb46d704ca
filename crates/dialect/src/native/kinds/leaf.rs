//! Kinds without entries inside: `workflow`, `review`, `wait`, `fail` and `compensate`.

use super::super::names;
use super::super::reader::Reader;
use super::super::typed::{Filled, Kind};
use crate::duration;
use crate::suggest;
use crate::yaml::{Entry, Node, Value};

/// Reads a `workflow` entry.
pub fn workflow(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry) -> Kind {
    if let Some(name) = reader.string(&key.value, "`workflow`") {
        if !names::is_asset_name(&name) {
            reader.report.error("bad-name", key.value.span, format!("`{}` is not the name of a workflow", crate::yaml::shortened(&name)));
        } else if !reader.workflows.contains(&name) {
            let help = match suggest::nearest(&name, reader.workflows.iter().map(String::as_str)) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("create it first: viat workflow create {name} --file {name}.yaml"),
            };
            reader.report.error("unknown-workflow", key.value.span, format!("there is no workflow `{name}`")).help(help);
        }
    }
    if let Some(field) = node.get("version") {
        reader.integer(&field.value, "`version`", 1, i64::MAX);
    }
    Kind::Leaf(node.get("args").map(|field| reader.template_map(&field.value, "`args`")).into_iter().collect())
}

/// Reads a `review` entry.
pub fn review(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let Some(fields) = reader.map(&key.value, "`review`") else { return Kind::Broken };
    reader.known_keys(fields, "`review`", &["title", "show", "form", "assignees", "timeout", "remind"]);
    if let Some(field) = key.value.get("timeout") {
        reader.timeout(&field.value, None);
    }
    Kind::Leaf(templates(reader, &key.value, &["title", "show"]))
}

/// Reads a `wait` entry.
pub fn wait(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let Some(fields) = reader.map(&key.value, "`wait`") else { return Kind::Broken };
    reader.known_keys(fields, "`wait`", &["for", "until", "event", "timeout"]);
    let ways: Vec<&Entry> = fields.iter().filter(|field| matches!(field.key.as_str(), "for" | "until" | "event")).collect();
    if ways.len() != 1 {
        let at = ways.get(1).map_or(key.key_span, |field| field.key_span);
        reader.report.error("bad-value", at, "`wait` takes exactly one of `for`, `until` and `event`");
    }
    if let Some(field) = key.value.get("for") {
        let dynamic = matches!(&field.value.value, Value::String(text) if text.contains('$'));
        if !dynamic && let Err(error) = duration::from_node(&field.value) {
            reader.report.error("bad-duration", field.value.span, format!("bad wait: {error}")).help(duration::ALLOWED);
        }
    }
    if let Some(field) = key.value.get("timeout") {
        if key.value.get("event").is_none() {
            reader.report.error("unknown-key", field.key_span, "`timeout` goes with `event`");
        }
        reader.timeout(&field.value, None);
    }
    Kind::Leaf(templates(reader, &key.value, &["for", "until", "event"]))
}

/// Reads a `fail` entry.
pub fn fail(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    if key.value.value == Value::Null {
        return Kind::Leaf(Vec::new());
    }
    let Some(fields) = reader.map(&key.value, "`fail`") else { return Kind::Broken };
    reader.known_keys(fields, "`fail`", &["status", "code", "message", "extra"]);
    if let Some(field) = key.value.get("status") {
        reader.integer(&field.value, "`status`", 400, 599);
    }
    Kind::Leaf(templates(reader, &key.value, &["code", "message", "extra"]))
}

/// Reads a `compensate` entry.
pub fn compensate(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    match &key.value.value {
        Value::List(items) if !items.is_empty() => {
            for item in items {
                reader.string(item, "each element of `compensate`");
            }
        }
        _ => reader.wrong_sort(&key.value, "`compensate`", "a list of ids"),
    }
    Kind::Leaf(Vec::new())
}

fn templates(reader: &mut Reader<'_, '_>, node: &Node, keys: &[&str]) -> Vec<Filled> {
    keys.iter().filter_map(|key| node.get(key)).map(|field| reader.template(&field.value)).collect()
}
