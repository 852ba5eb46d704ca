//! `on_error`: fail, continue, or a recovery branch.

use super::fields::given;
use super::reader::Reader;
use super::typed::OnError;
use crate::yaml::{Entry, Value};

const HELP: &str = "write `fail`, `continue` or `{catch: [entries]}`";

/// Reads the policy of a script entry.
pub fn read(reader: &mut Reader<'_, '_>, field: &Entry) -> OnError {
    let node = &field.value;
    match &node.value {
        Value::Null => OnError::Fail,
        Value::String(text) if text == "fail" => OnError::Fail,
        Value::String(text) if text == "continue" => OnError::Continue,
        Value::Map(entries) => {
            reader.known_keys(entries, "`on_error`", &["catch"]);
            match node.get("catch") {
                Some(catch) => OnError::Catch(branch(reader, catch)),
                None => {
                    if entries.is_empty() {
                        reader.report.error("bad-value", node.span, "`on_error` is an empty map").help(HELP);
                    }
                    OnError::Fail
                }
            }
        }
        _ => {
            let nearest = if let Value::String(text) = &node.value { crate::suggest::nearest(text, ["fail", "continue", "catch"]) } else { None };
            let help = match nearest {
                Some(word) => format!("did you mean `{word}`? {HELP}"),
                None => HELP.to_owned(),
            };
            reader.report.error("bad-value", node.span, format!("`on_error` cannot be {}", given(node))).help(help);
            OnError::Fail
        }
    }
}

fn branch(reader: &mut Reader<'_, '_>, catch: &Entry) -> Vec<super::typed::Entry> {
    if let Some(outer) = reader.catch {
        reader
            .report
            .error("nested-catch", catch.key_span, "a `catch` inside a `catch` branch is not allowed, however deep inside it stands")
            .label(outer, "the branch that it stands in")
            .help("use `on_error: continue` here and look at `$id._error` afterwards");
    }
    let outer = reader.catch.replace(catch.key_span);
    let entries = reader.entries(&catch.value, "`catch`");
    reader.catch = outer.or(None);
    entries
}
