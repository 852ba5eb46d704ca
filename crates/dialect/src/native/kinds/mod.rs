//! The kinds of entries: one file each, all keys of the specification's table known.

mod call;
mod choice;
mod compensate;
mod each;
mod effect;
mod finish;
mod parallel;
mod review;
mod script;
mod text;
mod wait;

use super::fields::is_policy;
use super::reader::Reader;
use super::typed::Kind;
use crate::suggest;
use crate::yaml::{Entry, Node, Value};

/// The keys that may stand beside a kind's own key.
const BESIDE: [(&str, &[&str]); 11] = [
    ("script", &["args", "retry", "on_error", "timeout", "idempotent", "idempotency_key", "compensate", "resolve"]),
    ("if", &["then", "else"]),
    ("parallel", &[]),
    ("loop", &[]),
    ("workflow", &["args", "version"]),
    ("review", &[]),
    ("wait", &[]),
    ("set", &[]),
    ("fail", &[]),
    ("return", &[]),
    ("compensate", &[]),
];

/// Whether any kind of entry may have this key beside its own.
pub fn is_entry_key(key: &str) -> bool {
    BESIDE.iter().any(|(_, keys)| keys.contains(&key))
}

/// Reads what an entry is, its kind being known.
pub fn read(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry, id: &str) -> Kind {
    beside(reader, node, key, id);
    inside(reader, node, key, id);
    match key.key.as_str() {
        "script" => script::read(reader, node, key),
        "if" => choice::read(reader, node, key),
        "set" => Kind::Set(reader.template(&key.value)),
        "parallel" => parallel::read(reader, key),
        "loop" => each::read(reader, key),
        "workflow" => call::read(reader, node, key),
        "wait" => wait::read(reader, key),
        "fail" => finish::fail(reader, key),
        "return" => finish::give_back(reader, key),
        "review" => review::read(reader, key),
        _ => compensate::read(reader, key),
    }
}

/// Refuses the keys that do not belong beside this kind.
fn beside(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry, id: &str) {
    let Value::Map(fields) = &node.value else { return };
    let kind = key.key.as_str();
    let known = BESIDE.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, keys)| keys);
    for field in fields {
        let name = field.key.as_str();
        if name == "id" || name == kind || known.contains(&name) {
            continue;
        }
        if is_policy(name) {
            policy_elsewhere(reader, node, field, key, id);
        } else if matches!(name, "type" | "catch") {
            let help = if name == "catch" { "write `on_error: {catch: [...]}` on a script entry" } else { "the kind is a key of its own; there is no `type`" };
            reader.report.error("unknown-key", field.key_span, format!("unknown key `{name}` in {}", an_entry(kind))).help(help);
        } else if let Some((owner, _)) = BESIDE.iter().find(|(_, keys)| keys.contains(&name)) {
            let inside = matches!(kind, "loop" | "parallel" | "wait" | "review" | "fail");
            let help = if inside { format!("the keys of `{kind}` stand inside it") } else { format!("it belongs to {}", an_entry(owner)) };
            reader.report.error("unknown-key", field.key_span, format!("`{name}` does not belong to {}", an_entry(kind))).help(help);
        } else {
            let all: Vec<&str> = ["id", kind].into_iter().chain(known.iter().copied()).collect();
            reader.unknown_key(field, &an_entry(kind), &all);
        }
    }
}

/// Refuses `retry` and `on_error` inside the map of a kind, where they are as little at home as beside it.
fn inside(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry, id: &str) {
    if let (Value::Map(fields), "parallel" | "loop" | "review" | "wait" | "fail") = (&key.value.value, key.key.as_str()) {
        fields.iter().filter(|field| is_policy(&field.key)).for_each(|field| policy_elsewhere(reader, node, field, key, id));
    }
}

fn an_entry(kind: &str) -> String {
    let article = if kind == "if" { "an" } else { "a" };
    format!("{article} `{kind}` entry")
}

/// `retry` or `on_error` on a kind that cannot have it: names the script entries inside that could.
fn policy_elsewhere(reader: &mut Reader<'_, '_>, node: &Node, field: &Entry, key: &Entry, id: &str) {
    let mut scripts = Vec::new();
    scripts_inside(node, &mut scripts);
    let name = field.key.as_str();
    let help = match scripts.as_slice() {
        [] => "only a script entry can have it".to_owned(),
        [one] => format!("put it on the script entry inside: `{one}`"),
        many => format!("put it on a script entry inside: {}", suggest::listed(many.iter().map(String::as_str), 10)),
    };
    reader
        .report
        .error("misplaced-policy", field.key_span, format!("`{name}` on `{id}`: {} cannot have it, only a script entry can", an_entry(&key.key)))
        .help(help);
}

/// The ids of the script entries in a part of the tree, however deep.
fn scripts_inside(node: &Node, found: &mut Vec<String>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| scripts_inside(item, found)),
        Value::Map(entries) => {
            if let (Some(id), true) = (node.get("id"), node.get("script").is_some())
                && let Value::String(id) = &id.value.value
            {
                found.push(id.clone());
            }
            entries.iter().for_each(|entry| scripts_inside(&entry.value, found));
        }
        _ => {}
    }
}
