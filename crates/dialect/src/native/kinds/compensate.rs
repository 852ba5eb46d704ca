//! `compensate`: undoes the effects of entries now. Which ids it may name is for the check of scope to say.

use std::collections::BTreeMap;

use super::super::fields::given;
use super::super::reader::{MOST_ENTRIES, Reader};
use super::super::typed::{Kind, Target};
use crate::diagnostic::Span;
use crate::yaml::{self, Entry, Value};

/// Reads a `compensate` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let node = &key.value;
    let items = match &node.value {
        Value::List(items) if !items.is_empty() => items,
        Value::List(_) => {
            reader.report.error("no-entries", node.span, "`compensate` needs at least one id").help("name the entries to undo: `compensate: [reserve]`");
            return Kind::Broken;
        }
        other => {
            let help = match other {
                Value::Map(_) => {
                    "how an effect is undone stands on the script entry that has it, beside `script`; here name its id: `compensate: [reserve]`".to_owned()
                }
                Value::String(id) => format!("write `compensate: [{}]`", yaml::shortened(id)),
                _ => "name the entries to undo: `compensate: [reserve]`".to_owned(),
            };
            reader.report.error("wrong-type", node.span, format!("`compensate` must be a list of ids, not {}", given(node))).help(help);
            return Kind::Broken;
        }
    };
    if items.len() > MOST_ENTRIES {
        let message = format!("`compensate` names {} ids, and a document has at most {MOST_ENTRIES} entries", items.len());
        reader.report.error("out-of-range", node.span, message);
        return Kind::Broken;
    }
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    let mut targets = Vec::new();
    for item in items {
        let Some(id) = reader.string(item, "each element of `compensate`") else { continue };
        if let Some(name) = id.strip_prefix('$') {
            let name = name.split(['.', '[', '{']).next().unwrap_or("");
            let help = if name.is_empty() { "the ids are fixed".to_owned() } else { format!("write `{}`", yaml::shortened(name)) };
            reader.report.error("bad-value", item.span, format!("`{}` is not an id: an id has no `$`", yaml::shortened(&id))).help(help);
        } else if let Some(first) = seen.get(&id) {
            let message = format!("`{}` is named twice", yaml::shortened(&id));
            reader.report.error("duplicate-id", item.span, message).label(*first, "the first time").help("an effect is undone once");
        } else {
            seen.insert(id.clone(), item.span);
            targets.push(Target { id, span: item.span });
        }
    }
    Kind::Compensate(targets)
}
