//! `script`: the kind that runs outside the engine and owns the policies.

use super::super::names;
use super::super::reader::Reader;
use super::super::typed::{Kind, OnError, Script};
use super::super::{arguments, on_error, retry};
use super::effect;
use crate::duration::LONGEST_ENTRY_TIMEOUT_MS;
use crate::suggest;
use crate::yaml::{Entry, Node, Value};

/// Reads a script entry.
pub fn read(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry) -> Kind {
    let name = name(reader, &key.value);
    let args = arguments::read(reader, node.get("args"), &name, key.value.span);
    let retry = node.get("retry").and_then(|field| retry::read(reader, field));
    let on_error = node.get("on_error").map_or(OnError::Fail, |field| on_error::read(reader, field));
    let timeout = node.get("timeout").and_then(|field| reader.timeout(&field.value, Some(LONGEST_ENTRY_TIMEOUT_MS)));
    let idempotent = node.get("idempotent").and_then(|field| reader.boolean(&field.value, "`idempotent`")).unwrap_or(false);
    let idempotency_key = node.get("idempotency_key").map(|field| reader.template(&field.value));
    let resolve = node.get("resolve").and_then(|field| effect::resolve(reader, field));
    let compensate = node.get("compensate").map(|field| effect::compensate(reader, field));
    Kind::Script(Box::new(Script { name, args, retry, on_error, timeout, idempotent, idempotency_key, resolve, compensate }))
}

/// The name of a script that exists.
pub fn name(reader: &mut Reader<'_, '_>, node: &Node) -> String {
    let Value::String(name) = &node.value else {
        reader.wrong_sort(node, "`script`", "the name of a script");
        return String::new();
    };
    if !names::is_asset_name(name) {
        let help = if name.contains('$') {
            "the script is fixed when the workflow is created; choose with an `if` entry"
        } else {
            "a name is a letter or `_` followed by letters, digits, `_`, `.` and `-`"
        };
        reader.report.error("bad-name", node.span, format!("`{}` is not the name of a script", crate::yaml::shortened(name))).help(help);
        return name.clone();
    }
    if reader.scripts.contains(name) {
        return name.clone();
    }
    let other = if reader.workflows.contains(name) { Some("workflow".to_owned()) } else { reader.catalogue.other_kind(name) };
    let create = format!("create it first: viat script create --name {name} --language python --file {name}.py");
    let (message, help) = match (other, suggest::nearest(name, reader.scripts.iter().map(String::as_str))) {
        (Some(kind), _) if kind == "workflow" => (format!("`{name}` is a workflow, not a script"), format!("write `workflow: {name}` to call it")),
        (Some(kind), _) => (format!("`{name}` is a {kind}, not a script"), create),
        (None, Some(nearest)) => (format!("there is no script `{name}`"), format!("did you mean `{nearest}`? Otherwise {create}")),
        (None, None) => (format!("there is no script `{name}`"), create),
    };
    reader.report.error("unknown-script", node.span, message).help(help);
    name.clone()
}
