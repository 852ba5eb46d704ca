//! The args of an entry, held to what its script takes: names always, values as far as they are written down.

use serde_json::Value as Json;
use viat_engine::ir::Template;

use super::fields::given;
use super::reader::Reader;
use super::typed::Filled;
use crate::diagnostic::Span;
use crate::signature::{Shape, Signature};
use crate::suggest;
use crate::yaml::{Entry, Node, Value};

/// Reads `args` and checks them; `script` is where the script is named.
pub fn read(reader: &mut Reader<'_, '_>, field: Option<&Entry>, name: &str, script: Span) -> Filled {
    let filled = field.map_or_else(|| Filled::literal(serde_json::Map::new()), |field| reader.template_map(&field.value, "`args`"));
    let Some(signature) = reader.catalogue.signature_of(name) else { return filled };
    let given: &[Entry] = match field.map(|field| &field.value.value) {
        Some(Value::Map(entries)) => entries,
        // reported already
        Some(other) if *other != Value::Null => return filled,
        _ => &[],
    };
    for entry in given {
        one(reader, name, &signature, entry, &filled.template);
    }
    let missing: Vec<&str> = signature
        .parameters
        .iter()
        .filter(|parameter| parameter.required && given.iter().all(|entry| entry.key != parameter.name))
        .map(|parameter| parameter.name.as_str())
        .collect();
    if !missing.is_empty() {
        let span = field.map_or(script, |field| field.key_span);
        let names = missing.join("`, `");
        reader
            .report
            .warning("missing-argument", span, format!("script `{name}` needs `{names}`, which is not given"))
            .help("as it is, each attempt fails with class `annotation`");
    }
    filled
}

fn one(reader: &mut Reader<'_, '_>, script: &str, signature: &Signature, entry: &Entry, args: &Template) {
    let Some(parameter) = signature.parameters.iter().find(|parameter| parameter.name == entry.key) else {
        if !signature.takes_others {
            unknown(reader, script, signature, entry);
        }
        return;
    };
    let Some(written) = Written::of(args).field(&entry.key) else { return };
    if let Some((place, expected)) = misfit(&entry.value, written, &parameter.shape) {
        if reader.report.has_error_in(&place.span) {
            return;
        }
        let message = format!("`{}` of script `{script}` takes {expected} here, not {}", entry.key, given(place));
        let annotation = parameter.annotation.as_ref().map(|annotation| format!("the script says `{}: {annotation}`", entry.key));
        reader.report.error("wrong-argument", place.span, message).help(annotation.unwrap_or_else(|| "the script says so".to_owned()));
    }
}

fn unknown(reader: &mut Reader<'_, '_>, script: &str, signature: &Signature, entry: &Entry) {
    let names = || signature.parameters.iter().map(|parameter| parameter.name.as_str());
    let help = match suggest::nearest(&entry.key, names()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if signature.parameters.is_empty() => "it takes no arguments".to_owned(),
        None => format!("it takes {}", names().collect::<Vec<_>>().join(", ")),
    };
    reader.report.error("unknown-argument", entry.key_span, format!("script `{script}` takes no argument `{}`", entry.key)).help(help);
}

/// What is known of a value before anything runs.
#[derive(Clone, Copy)]
enum Written<'t> {
    Value(&'t Json),
    Holes(&'t Template),
}

impl<'t> Written<'t> {
    fn of(template: &'t Template) -> Written<'t> {
        match template {
            Template::Literal(value) => Written::Value(value),
            other => Written::Holes(other),
        }
    }

    fn field(self, name: &str) -> Option<Written<'t>> {
        match self {
            Written::Value(value) => value.get(name).map(Written::Value),
            Written::Holes(Template::Map(fields)) => fields.iter().find(|(key, _)| key == name).map(|(_, field)| Written::of(field)),
            Written::Holes(_) => None,
        }
    }

    fn item(self, at: usize) -> Option<Written<'t>> {
        match self {
            Written::Value(value) => value.get(at).map(Written::Value),
            Written::Holes(Template::List(items)) => items.get(at).map(Written::of),
            Written::Holes(_) => None,
        }
    }
}

/// The smallest part that does not fit, and what would.
fn misfit<'n>(node: &'n Node, written: Written<'_>, shape: &Shape) -> Option<(&'n Node, String)> {
    let fits = match written {
        Written::Value(value) => shape.accepts(value),
        Written::Holes(Template::Text(_)) => shape.accepts_text(),
        Written::Holes(Template::List(_)) => shape.items().is_some(),
        Written::Holes(Template::Map(_)) => shape.values().is_some(),
        Written::Holes(_) => return None,
    };
    let inside = match &node.value {
        Value::List(nodes) => shape.items().and_then(|item| nodes.iter().enumerate().find_map(|(at, node)| misfit(node, written.item(at)?, &item))),
        Value::Map(entries) => shape.values().and_then(|item| entries.iter().find_map(|entry| misfit(&entry.value, written.field(&entry.key)?, &item))),
        _ => None,
    };
    inside.or_else(|| (!fits).then(|| (node, shape.described())))
}
