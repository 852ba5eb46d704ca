//! Kinds that this version does not run yet: `review` and `compensate`.

use super::super::reader::Reader;
use super::super::typed::{Filled, Kind};
use crate::yaml::{Entry, Node, Value};

/// Reads a `review` entry.
pub fn review(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let Some(fields) = reader.map(&key.value, "`review`") else { return Kind::Broken };
    reader.kind_keys(fields, "`review`", &["title", "show", "form", "assignees", "timeout", "remind"]);
    if let Some(field) = key.value.get("timeout") {
        reader.timeout(&field.value, None);
    }
    Kind::Later(templates(reader, &key.value, &["title", "show"]))
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
    Kind::Later(Vec::new())
}

fn templates(reader: &mut Reader<'_, '_>, node: &Node, keys: &[&str]) -> Vec<Filled> {
    keys.iter().filter_map(|key| node.get(key)).map(|field| reader.template(&field.value)).collect()
}
