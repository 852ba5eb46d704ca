//! `workflow`: another workflow inside this run.
//!
//! What the called workflow declares is known where no `version` is asked for; then names and fixed values are checked now.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use viat_engine::ir::{InputDeclaration, Template};

use super::super::names;
use super::super::reader::Reader;
use super::super::typed::{Call, Filled, Kind};
use crate::diagnostic::Span;
use crate::inputs;
use crate::suggest;
use crate::yaml::{self, Entry, Node, Value};

/// Reads a `workflow` entry.
pub fn read(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry) -> Kind {
    let name = name(reader, &key.value);
    let version = node.get("version").and_then(|field| reader.integer(&field.value, "`version`", 1, i64::MAX)).and_then(|number| u64::try_from(number).ok());
    let field = node.get("args");
    let args = field.map_or_else(|| Filled::literal(serde_json::Map::new()), |field| reader.template_map(&field.value, "`args`"));
    let Some(name) = name else { return Kind::Broken };
    if node.get("version").is_none()
        && let Some(declared) = reader.catalogue.inputs_of(&name)
    {
        check_args(reader, &name, &declared, field, &args, key.value.span);
    }
    Kind::Call(Call { name, name_span: key.value.span, version, args })
}

/// The name of a workflow that exists; the document's own is for the check of calls to refuse.
fn name(reader: &mut Reader<'_, '_>, node: &Node) -> Option<String> {
    let name = reader.string(node, "`workflow`")?;
    if !names::is_asset_name(&name) {
        let help = if name.contains('$') {
            "the workflow is fixed when this one is created; choose with an `if` entry"
        } else {
            "a name is a letter or `_` followed by letters, digits, `_`, `.` and `-`"
        };
        reader.report.error("bad-name", node.span, format!("`{}` is not the name of a workflow", yaml::shortened(&name))).help(help);
        return None;
    }
    if reader.own == Some(name.as_str()) || reader.workflows.contains(&name) {
        return Some(name);
    }
    let create = format!("create it first: viat workflow create {name} --file {name}.yaml");
    let other = if reader.scripts.contains(&name) { Some("script".to_owned()) } else { reader.catalogue.other_kind(&name) };
    let (message, help) = match (other, suggest::nearest(&name, reader.workflows.iter().map(String::as_str))) {
        (Some(kind), _) if kind == "script" => (format!("`{name}` is a script, not a workflow"), format!("write `script: {name}` to run it")),
        (Some(kind), _) => (format!("`{name}` is a {kind}, not a workflow"), create),
        (None, Some(nearest)) => (format!("there is no workflow `{name}`"), format!("did you mean `{nearest}`? Otherwise {create}")),
        (None, None) => (format!("there is no workflow `{name}`"), create),
    };
    reader.report.error("unknown-workflow", node.span, message).help(help);
    None
}

fn check_args(reader: &mut Reader<'_, '_>, workflow: &str, declared: &[InputDeclaration], field: Option<&Entry>, args: &Filled, at: Span) {
    let given: &[Entry] = match field.map(|field| &field.value.value) {
        Some(Value::Map(entries)) => entries,
        Some(Value::Null) | None => &[],
        // Reported already.
        Some(_) => return,
    };
    for entry in given {
        match declared.iter().find(|input| input.name == entry.key) {
            Some(input) => check_value(reader, workflow, input, entry, args),
            None => unknown_arg(reader, workflow, declared, entry),
        }
    }
    let names: BTreeSet<&str> = given.iter().map(|entry| entry.key.as_str()).collect();
    let missing: Vec<&str> = declared.iter().filter(|input| input.required).map(|input| input.name.as_str()).filter(|name| !names.contains(name)).collect();
    if !missing.is_empty() {
        let at = field.map_or(at, |field| field.key_span);
        let listed = suggest::listed(missing.iter().copied(), 10);
        reader
            .report
            .error("missing-arg", at, format!("the workflow `{workflow}` needs {listed}, which `args` does not give"))
            .help(format!("write `args: {{{}: …}}`", missing[0]));
    }
}

fn unknown_arg(reader: &mut Reader<'_, '_>, workflow: &str, declared: &[InputDeclaration], entry: &Entry) {
    let names = || declared.iter().map(|input| input.name.as_str());
    let help = match suggest::nearest(&entry.key, names()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if declared.is_empty() => "it declares no inputs".to_owned(),
        None => format!("declared are {}", suggest::listed(names(), 20)),
    };
    let message = format!("the workflow `{workflow}` has no input `{}`", yaml::shortened(&entry.key));
    reader.report.error("unknown-arg", entry.key_span, message).help(help);
}

/// Checks a value without holes against its declaration.
fn check_value(reader: &mut Reader<'_, '_>, workflow: &str, input: &InputDeclaration, entry: &Entry, args: &Filled) {
    let value: Option<&Json> = match &args.template {
        Template::Literal(value) => value.get(&entry.key),
        Template::Map(entries) => entries.iter().find(|(key, _)| *key == entry.key).and_then(|(_, template)| match template {
            Template::Literal(value) => Some(value),
            _ => None,
        }),
        _ => None,
    };
    let problem = value.and_then(|value| inputs::problems_of(input, value).into_iter().next());
    if let Some(problem) = problem.filter(|_| !reader.report.has_error_in(&entry.value.span)) {
        let message = format!("the workflow `{workflow}` does not take this: inputs.{}: {}", problem.path, problem.message);
        reader.report.error("bad-arg", entry.value.span, message);
    }
}
