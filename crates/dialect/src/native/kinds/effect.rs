//! What a script entry says of its effect: how to find out whether it happened, and how to undo it.

use super::super::fields::given;
use super::super::reader::Reader;
use super::super::typed::{Helper, Undo};
use super::super::{arguments, reference, retry};
use super::script;
use crate::duration::LONGEST_ENTRY_TIMEOUT_MS;
use crate::yaml::{Entry, Value};

const RESOLVE: [&str; 4] = ["script", "args", "retry", "timeout"];
const COMPENSATE: [&str; 6] = ["script", "args", "retry", "timeout", "idempotent", "irreversible"];

/// Reads `resolve`.
pub fn resolve(reader: &mut Reader<'_, '_>, field: &Entry) -> Option<Helper> {
    let Value::Map(entries) = &field.value.value else {
        reader
            .report
            .error("wrong-type", field.value.span, format!("`resolve` must be a map, not {}", given(&field.value)))
            .help("write `resolve: {script: find_it, args: {…}}`");
        return None;
    };
    reader.known_keys(entries, "`resolve`", &RESOLVE);
    helper(reader, field)
}

/// Reads `compensate` beside `script`.
pub fn compensate(reader: &mut Reader<'_, '_>, field: &Entry) -> Undo {
    // What is wrong has been reported; an entry that names this one is not to be complained about as well.
    undo(reader, field).unwrap_or_else(|| Undo::Irreversible(String::new()))
}

fn undo(reader: &mut Reader<'_, '_>, field: &Entry) -> Option<Undo> {
    let Value::Map(entries) = &field.value.value else {
        let help = match &field.value.value {
            Value::List(_) => "a list of ids makes a `compensate` entry of its own, without `script`",
            _ => "write `compensate: {script: undo_it, args: {…}}` or `compensate: {irreversible: \"why\"}`",
        };
        let message = format!("the `compensate` of a script entry must be a map, not {}", given(&field.value));
        reader.report.error("wrong-type", field.value.span, message).help(help);
        return None;
    };
    reader.known_keys(entries, "`compensate`", &COMPENSATE);
    match (field.value.get("irreversible"), field.value.get("script")) {
        (None, _) => helper(reader, field).map(|helper| Undo::Script(Box::new(helper))),
        (Some(reason), Some(script)) => {
            reader
                .report
                .error("two-kinds", script.key_span, "`compensate` has `script` and `irreversible`; it takes one of them")
                .label(reason.key_span, "the other one")
                .help("what a script can undo is not irreversible");
            None
        }
        (Some(reason), None) => {
            for entry in entries.iter().filter(|entry| entry.key != "irreversible" && COMPENSATE.contains(&entry.key.as_str())) {
                let message = format!("`{}` goes with `script`: nothing is run for an effect that is `irreversible`", entry.key);
                reader.report.error("unknown-key", entry.key_span, message).label(reason.key_span, "it says that nothing can undo it");
            }
            irreversible(reader, reason).map(Undo::Irreversible)
        }
    }
}

/// Why an effect cannot be undone: shown as it stands.
fn irreversible(reader: &mut Reader<'_, '_>, field: &Entry) -> Option<String> {
    let reason = reader.string(&field.value, "`irreversible`")?;
    let problem = match reason.trim() {
        "" => "`irreversible` must say why",
        text if text.contains("${") || reference::parse(text).is_some() => "`irreversible` is fixed text: nothing in it is evaluated",
        _ => return Some(reason),
    };
    reader.report.error("bad-value", field.value.span, problem).help("for example `irreversible: \"the e-mail has been sent\"`");
    None
}

/// A script with its args, its retry and its timeout.
fn helper(reader: &mut Reader<'_, '_>, field: &Entry) -> Option<Helper> {
    let node = &field.value;
    let script = reader.required(node, "script", &format!("`{}`", field.key), field.key_span);
    let name = script.map(|script| script::name(reader, &script.value));
    let place = script.map_or(field.key_span, |script| script.value.span);
    let args = arguments::read(reader, node.get("args"), name.as_deref().unwrap_or_default(), place);
    let retry = node.get("retry").and_then(|policy| retry::read(reader, policy));
    let timeout = node.get("timeout").and_then(|timeout| reader.timeout(&timeout.value, Some(LONGEST_ENTRY_TIMEOUT_MS)));
    let idempotent = match (field.key.as_str(), node.get("idempotent")) {
        ("compensate", Some(flag)) => reader.boolean(&flag.value, "`idempotent`").unwrap_or(false),
        _ => false,
    };
    Some(Helper { name: name?, args, retry, timeout, idempotent })
}
