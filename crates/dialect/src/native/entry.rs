//! Lists of entries, and what all entries have in common: an id and exactly one kind.

use super::kinds;
use super::names::{self, KINDS};
use super::reader::{MOST_ENTRIES, MOST_NESTED, Reader};
use super::typed::{Entry, Kind};
use crate::diagnostic::Span;
use crate::suggest;
use crate::yaml::{self, Node, Value};

impl Reader<'_, '_> {
    /// A non-empty list of entries.
    pub fn entries(&mut self, node: &Node, what: &str) -> Vec<Entry> {
        let Value::List(items) = &node.value else {
            let message = format!("{what} must be a list of entries, not {}", node.sort());
            self.report.error("wrong-type", node.span, message).help("write each entry as `- id: …`");
            return Vec::new();
        };
        if items.is_empty() {
            self.report.error("no-entries", node.span, format!("{what} needs at least one entry"));
        }
        if self.nested >= MOST_NESTED {
            self.report
                .error("too-deep", node.span, format!("entries are nested more than {MOST_NESTED} deep here"))
                .help("move the inner part into a workflow of its own");
            return Vec::new();
        }
        self.nested += 1;
        let mut entries = Vec::new();
        for item in items {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                // Once is enough.
                if self.entries == MOST_ENTRIES + 1 {
                    self.report.error("too-many-entries", item.span, format!("a document has at most {MOST_ENTRIES} entries; this is one more"));
                }
                break;
            }
            entries.extend(self.entry(item));
        }
        self.nested -= 1;
        entries
    }

    fn entry(&mut self, node: &Node) -> Option<Entry> {
        let Value::Map(fields) = &node.value else {
            self.report
                .error("wrong-type", node.span, format!("an entry is a map with an `id` and one kind, not {}", node.sort()))
                .help("for example `- {id: greet, script: hello}`");
            return None;
        };
        let at = fields.first().map_or(node.span, |first| first.key_span);
        let id = self.id(node, at);
        let given: Vec<&yaml::Entry> = fields.iter().filter(|field| KINDS.contains(&field.key.as_str())).collect();
        // A script's `compensate` says how to undo it; alone it is a kind.
        let kinds: Vec<&yaml::Entry> = match given.iter().any(|field| field.key == "script") {
            true => given.into_iter().filter(|field| field.key != "compensate").collect(),
            false => given,
        };
        let kind = match kinds.as_slice() {
            [one] => kinds::read(self, node, one, id.as_ref().map_or("", |(id, _)| id)),
            [] => {
                self.no_kind(fields, at, id.as_ref().map(|(id, _)| id.as_str()));
                Kind::Broken
            }
            [first, second, ..] if second.key == "compensate" || first.key == "compensate" => {
                self.compensate_elsewhere(first, second);
                Kind::Broken
            }
            [first, second, ..] => {
                self.report
                    .error("two-kinds", second.key_span, format!("an entry has exactly one kind; this one has `{}` and `{}`", first.key, second.key))
                    .label(first.key_span, "the first one")
                    .help("make two entries of it, each with its own `id`");
                Kind::Broken
            }
        };
        let (id, id_span) = id?;
        Some(Entry { id, id_span, kind })
    }

    /// `compensate` beside a kind that is no script.
    fn compensate_elsewhere(&mut self, first: &yaml::Entry, second: &yaml::Entry) {
        let (own, other) = if first.key == "compensate" { (first, second) } else { (second, first) };
        let message = format!("an entry has exactly one kind; this one has `{}` and `{}`", first.key, second.key);
        let help = match (&own.value.value, other.key.as_str()) {
            (Value::Map(_), "workflow") => "a called workflow is undone by the `compensate` of its own script entries",
            (Value::Map(_), _) => "only a script entry says how its effect is undone: put it on a script entry inside",
            _ => "make two entries of it, each with its own `id`",
        };
        self.report.error("two-kinds", second.key_span, message).label(first.key_span, "the first one").help(help);
    }

    fn id(&mut self, node: &Node, at: Span) -> Option<(String, Span)> {
        let Some(field) = node.get("id") else {
            self.report.error("missing-id", at, "this entry has no `id`").help("give it one, unique in the document: `id: greet`");
            return None;
        };
        let span = field.value.span;
        let id = match &field.value.value {
            Value::String(id) => id.clone(),
            _ => {
                self.report
                    .error("bad-id", span, format!("an id is a name, not {}", super::fields::given(&field.value)))
                    .help("an id is a letter followed by up to 63 letters, digits and `_`");
                return None;
            }
        };
        if let Some((message, help)) = names::bad_id(&id) {
            self.report.error("bad-id", span, message).help(help);
        }
        match self.ids.get(&id) {
            Some(first) => {
                let first = *first;
                self.report
                    .error("duplicate-id", span, format!("the id `{id}` is given twice; ids are unique in the whole document"))
                    .label(first, "first given here");
            }
            None => {
                self.ids.insert(id.clone(), span);
            }
        }
        Some((id, span))
    }

    fn no_kind(&mut self, fields: &[yaml::Entry], at: Span, id: Option<&str>) {
        let kinds = suggest::listed(KINDS, 20);
        let find = |key: &str| fields.iter().find(|field| field.key == key);
        let whose = id.map_or("this entry".to_owned(), |id| format!("the entry `{id}`"));
        if let Some(field) = find("type") {
            let typed = field.value.shown();
            let (message, help) = match typed.as_str() {
                "retry" => (
                    "there is no `type: retry`: retrying is a property of a script entry".to_owned(),
                    "write `retry: {times: 3, initial_ms: 100, factor: 2.0, max_ms: 5000}` on the script entry itself".to_owned(),
                ),
                "catch" | "try" => (
                    format!("there is no `type: {typed}`: recovery is a property of a script entry"),
                    "write `on_error: {catch: [...]}` on the script entry itself".to_owned(),
                ),
                kind if KINDS.contains(&kind) => (
                    format!("there is no `type` key; the kind is a key of its own, with its value: `{kind}:`"),
                    format!("write `{kind}:` instead of `type: {kind}`"),
                ),
                _ => (
                    "there is no `type` key; the kind is a key of its own".to_owned(),
                    format!("write one of {kinds}; `retry` and `on_error` belong to script entries"),
                ),
            };
            self.report.error("unknown-kind", field.key_span.to(field.value.span), message).help(help);
            return;
        }
        for (key, where_it_belongs) in [
            ("catch", "write `on_error: {catch: [...]}` on the script entry that may fail"),
            ("retry", "write `retry: {...}` on the script entry that is to be tried again"),
            ("on_error", "write it on the script entry that may fail"),
        ] {
            if let Some(field) = find(key) {
                self.report
                    .error("unknown-kind", field.key_span, format!("`{key}` is not a kind of entry: it belongs to a script entry"))
                    .help(where_it_belongs);
                return;
            }
        }
        let odd = fields
            .iter()
            .find_map(|field| suggest::nearest(&field.key, KINDS).filter(|_| !matches!(field.key.as_str(), "id" | "args")).map(|kind| (field, kind)));
        if let Some((field, kind)) = odd {
            self.report.error("unknown-kind", field.key_span, format!("`{}` is not a kind of entry", field.key)).help(format!("did you mean `{kind}`?"));
            return;
        }
        match fields.iter().find(|field| field.key != "id" && !kinds::is_entry_key(&field.key)) {
            Some(field) => self.report.error("unknown-kind", field.key_span, format!("`{}` is not a kind of entry", yaml::shortened(&field.key))),
            None => self.report.error("no-kind", at, format!("{whose} has no kind")),
        }
        .help(format!("an entry has exactly one of {kinds}"));
    }
}
