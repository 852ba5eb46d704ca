//! `parallel`: branches that run side by side.

use super::super::names;
use super::super::reader::Reader;
use super::super::typed::{Branch, Kind};
use crate::yaml::{Entry, Value};

const MOST_CONCURRENT: i64 = 256;

/// Reads a `parallel` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let Some(fields) = reader.map(&key.value, "`parallel`") else { return Kind::Broken };
    reader.known_keys(fields, "`parallel`", &["branches", "on_failure", "concurrency"]);
    if let Some(field) = key.value.get("on_failure") {
        reader.word(&field.value, "`on_failure`", &["cancel", "wait"]);
    }
    if let Some(field) = key.value.get("concurrency") {
        reader.integer(&field.value, "`concurrency`", 1, MOST_CONCURRENT);
    }
    let Some(field) = reader.required(&key.value, "branches", "`parallel`", key.key_span) else { return Kind::Broken };
    Kind::Parallel(branches(reader, field))
}

fn branches(reader: &mut Reader<'_, '_>, field: &Entry) -> Vec<Branch> {
    let node = &field.value;
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            let read = |reader: &mut Reader<'_, '_>, entry: &Entry| {
                if !names::is_asset_name(&entry.key) {
                    let message = format!("`{}` is not the name of a branch", crate::yaml::shortened(&entry.key));
                    reader.report.error("bad-name", entry.key_span, message).help("a name is a letter or `_` followed by letters, digits, `_`, `.` and `-`");
                }
                let steps = reader.entries(&entry.value, &format!("the branch `{}`", crate::yaml::shortened(&entry.key)));
                Branch { name: entry.key.clone(), steps }
            };
            entries.iter().map(|entry| read(reader, entry)).collect()
        }
        // Each entry of a list is a branch of its own, named by its place.
        Value::List(items) if !items.is_empty() => {
            let steps = reader.entries(node, "`branches`");
            steps.into_iter().enumerate().map(|(at, entry)| Branch { name: at.to_string(), steps: vec![entry] }).collect()
        }
        Value::Map(_) | Value::List(_) => {
            reader.report.error("no-entries", node.span, "`branches` needs at least one branch");
            Vec::new()
        }
        _ => {
            reader.wrong_sort(node, "`branches`", "a map of names to lists of entries, or a list of entries");
            Vec::new()
        }
    }
}
