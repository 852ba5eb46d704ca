//! The keys of a document.

use viat_engine::ir::CompensationMode;

use super::reader::Reader;
use super::typed::{Budget, Document, Filled};
use crate::diagnostic::Span;
use crate::duration::{self, Duration};
use crate::suggest;
use crate::yaml::{Node, Value};

const KEYS: [&str; 7] = ["inputs", "steps", "outputs", "timeout", "description", "compensation", "compensation_timeout"];

/// Reads a document; `None` if there is nothing in it to go on with.
pub fn read(reader: &mut Reader<'_, '_>, tree: &Node) -> Option<Document> {
    let Value::Map(entries) = &tree.value else {
        reader
            .report
            .error("not-a-workflow", tree.span, format!("a workflow is a map with the key `steps`, not {}", tree.sort()))
            .help("begin the file with `steps:` and put the entries under it");
        return None;
    };
    for entry in entries {
        if KEYS.contains(&entry.key.as_str()) {
            continue;
        }
        if let Some(message) = entry_key_at_top(&entry.key) {
            reader.report.error("unknown-key", entry.key_span, message).help("put it into an entry under `steps`");
        } else {
            reader.unknown_key(entry, "the document", &KEYS);
        }
    }
    let inputs = tree.get("inputs").map(|entry| super::inputs::read(reader, &entry.value, super::inputs::INPUTS)).unwrap_or_default();
    let steps = match tree.get("steps") {
        Some(entry) => reader.entries(&entry.value, "`steps`"),
        None => {
            let misspelt = entries.iter().any(|entry| suggest::nearest(&entry.key, KEYS) == Some("steps"));
            if !misspelt {
                let at = entries.first().map_or(tree.span, |entry| entry.key_span);
                reader.report.error("missing-key", at, "the document has no `steps`").help("add `steps:` with at least one entry");
            }
            Vec::new()
        }
    };
    variables_apart(reader);
    let outputs = tree.get("outputs").map(|entry| reader.template_map(&entry.value, "`outputs`")).unwrap_or_else(empty);
    let timeout = tree.get("timeout").and_then(|entry| reader.timeout(&entry.value, None));
    let description = tree.get("description").filter(|entry| entry.value.value != Value::Null).and_then(|entry| reader.string(&entry.value, "`description`"));
    let mode = tree.get("compensation").and_then(|entry| reader.word(&entry.value, "`compensation`", &["auto", "manual"]));
    let compensation = if mode.as_deref() == Some("manual") { CompensationMode::Manual } else { CompensationMode::Auto };
    let compensation_timeout = tree.get("compensation_timeout").and_then(|entry| compensation_timeout(reader, &entry.value));
    Some(Document { description, inputs, steps, outputs, timeout, compensation, compensation_timeout })
}

/// The budget of undoing: of nothing it would leave every effect in place and say that undoing failed.
fn compensation_timeout(reader: &mut Reader<'_, '_>, node: &Node) -> Option<Budget> {
    let budget = reader.timeout(node, None)?;
    if budget.ms == 0 {
        reader
            .report
            .error("bad-duration", budget.span, "a `compensation_timeout` of nothing would undo nothing")
            .help("to leave the undoing to a person write `compensation: manual`; without this key it may take 300 s");
        return None;
    }
    Some(budget)
}

/// A loop's variable may not be the id of any entry: `$name` would mean the one here and the other there.
fn variables_apart(reader: &mut Reader<'_, '_>) {
    for (name, span) in &reader.all_variables {
        if let Some(entry) = reader.ids.get(name) {
            reader
                .report
                .error("duplicate-id", *span, format!("the loop variable `{name}` is also the id of an entry"))
                .label(*entry, "the entry")
                .help("name the variable otherwise: `as: each_item`");
        }
    }
}

fn empty() -> Filled {
    Filled::literal(serde_json::Map::new())
}

/// Says what a key of an entry is doing at the top, if it is one.
fn entry_key_at_top(key: &str) -> Option<String> {
    let known = super::names::KINDS.contains(&key) || matches!(key, "retry" | "on_error" | "args" | "id" | "then" | "else");
    known.then(|| format!("`{key}` belongs to an entry, not to the document"))
}

impl Reader<'_, '_> {
    /// A map of templates: `args` or `outputs`; nothing is an empty one.
    pub fn template_map(&mut self, node: &Node, what: &str) -> Filled {
        match &node.value {
            Value::Map(_) => self.template(node),
            Value::Null => empty(),
            _ => {
                self.report
                    .error("wrong-type", node.span, format!("{what} must be a map of names to values, not {}", node.sort()))
                    .help("name each value: `name: $inputs.value`");
                empty()
            }
        }
    }

    /// A time budget, at most `longest` milliseconds.
    pub fn timeout(&mut self, node: &Node, longest: Option<u64>) -> Option<Budget> {
        let span: Span = node.span;
        match (duration::from_node(node), longest) {
            (Ok(Duration::NotGiven), _) => None,
            (Ok(Duration::Millis(ms)), Some(most)) if ms > most => {
                self.report
                    .error("bad-duration", span, format!("the timeout `{}` of an entry is longer than 24 hours", node.shown()))
                    .help("at most `PT24H`; for longer work give the document a `timeout` and wait in a `wait` entry");
                None
            }
            (Ok(Duration::Millis(ms)), _) => Some(Budget { ms, span }),
            (Err(error), _) => {
                self.report.error("bad-duration", span, format!("bad timeout: {error}")).help(duration::ALLOWED);
                None
            }
        }
    }
}
