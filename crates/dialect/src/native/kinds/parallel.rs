//! `parallel`: branches that run side by side.
//!
//! A branch's name is part of the paths of its entries (`fan.left.a`), so it follows the grammar of ids. No expression ever
//! names a branch, so the reserved words are allowed. Branches in list form are named `0`, `1`, ….

use viat_engine::ir::OnFailure;

use super::super::names;
use super::super::reader::{Reader, SideBySide};
use super::super::typed::{Branch, Kind, Parallel};
use crate::yaml::{Entry, Value};

/// At most this many branches or iterations run at once.
pub const MOST_CONCURRENT: i64 = 256;

/// Reads a `parallel` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let Some(fields) = reader.map(&key.value, "`parallel`") else { return Kind::Broken };
    reader.kind_keys(fields, "`parallel`", &["branches", "on_failure", "concurrency"]);
    let word = key.value.get("on_failure").and_then(|field| reader.word(&field.value, "`on_failure`", &["cancel", "wait"]));
    let on_failure = if word.as_deref() == Some("wait") { OnFailure::Wait } else { OnFailure::Cancel };
    let concurrency = key.value.get("concurrency").and_then(|field| reader.count(&field.value, "`concurrency`", 1, MOST_CONCURRENT));
    let Some(field) = reader.required(&key.value, "branches", "`parallel`", key.key_span) else { return Kind::Broken };
    let outer = reader.side_by_side;
    reader.side_by_side = outer.or(Some(SideBySide { what: "the `parallel` around it", span: key.key_span }));
    let branches = branches(reader, field);
    reader.side_by_side = outer;
    Kind::Parallel(Parallel { branches, on_failure, concurrency })
}

fn branches(reader: &mut Reader<'_, '_>, field: &Entry) -> Vec<Branch> {
    let node = &field.value;
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => entries.iter().map(|entry| branch(reader, entry)).collect(),
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

fn branch(reader: &mut Reader<'_, '_>, entry: &Entry) -> Branch {
    let shown = crate::yaml::shortened(&entry.key);
    if !names::is_well_formed(&entry.key) {
        reader
            .report
            .error("bad-name", entry.key_span, format!("`{shown}` is not the name of a branch"))
            .help("a branch's name is a letter followed by up to 63 letters, digits and `_`");
    }
    let steps = reader.entries(&entry.value, &format!("the branch `{shown}`"));
    Branch { name: entry.key.clone(), steps }
}
