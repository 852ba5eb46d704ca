//! Reading the keys of maps: which are known, and values of one sort.

use super::reader::Reader;
use crate::diagnostic::Span;
use crate::suggest;
use crate::yaml::{Entry, Node, Value};

impl Reader<'_, '_> {
    /// The entries of a map; anything else is an error.
    pub fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Entry]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            _ => {
                self.wrong_sort(node, what, "a map");
                None
            }
        }
    }

    /// Refuses the keys of a map that are not known.
    pub fn known_keys(&mut self, entries: &[Entry], what: &str, known: &[&str]) {
        for entry in entries {
            if !known.contains(&entry.key.as_str()) {
                self.unknown_key(entry, what, known);
            }
        }
    }

    /// As `known_keys`, inside a kind's own map: `retry` and `on_error` are refused elsewhere, for the whole entry.
    pub fn kind_keys(&mut self, entries: &[Entry], what: &str, known: &[&str]) {
        for entry in entries.iter().filter(|entry| !is_policy(&entry.key)) {
            if !known.contains(&entry.key.as_str()) {
                self.unknown_key(entry, what, known);
            }
        }
    }

    /// Refuses one key.
    pub fn unknown_key(&mut self, entry: &Entry, what: &str, known: &[&str]) {
        let nearest = suggest::nearest(&entry.key, known.iter().copied());
        let help = match nearest {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("it may have: {}", suggest::listed(known.iter().copied(), 20)),
        };
        self.report.error("unknown-key", entry.key_span, format!("unknown key `{}` in {what}", crate::yaml::shortened(&entry.key))).help(help);
    }

    /// Refuses a value of the wrong sort.
    pub fn wrong_sort(&mut self, node: &Node, what: &str, wanted: &str) {
        let message = format!("{what} must be {wanted}, not {}", node.sort());
        self.report.error("wrong-type", node.span, message);
    }

    /// A string.
    pub fn string(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.value {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.wrong_sort(node, what, "a string");
                None
            }
        }
    }

    /// A boolean.
    pub fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        match &node.value {
            Value::Bool(value) => Some(*value),
            Value::String(text) if matches!(text.as_str(), "yes" | "no" | "on" | "off" | "y" | "n") => {
                self.report
                    .error("wrong-type", node.span, format!("{what} must be a boolean; `{text}` is a string in YAML 1.2"))
                    .help("write `true` or `false`");
                None
            }
            _ => {
                self.wrong_sort(node, what, "a boolean");
                None
            }
        }
    }

    /// An integer within bounds.
    pub fn integer(&mut self, node: &Node, what: &str, least: i64, most: i64) -> Option<i64> {
        match &node.value {
            Value::Int(value) if (least..=most).contains(value) => Some(*value),
            Value::Int(value) => {
                self.report.error("out-of-range", node.span, format!("{what} must be an integer from {least} to {most}, not {value}"));
                None
            }
            _ => {
                self.report.error("wrong-type", node.span, format!("{what} must be an integer from {least} to {most}, not {}", given(node)));
                None
            }
        }
    }

    /// A count within bounds.
    pub fn count(&mut self, node: &Node, what: &str, least: i64, most: i64) -> Option<usize> {
        self.integer(node, what, least, most).and_then(|value| usize::try_from(value).ok())
    }

    /// One of a few words.
    pub fn word(&mut self, node: &Node, what: &str, words: &[&str]) -> Option<String> {
        match &node.value {
            Value::String(text) if words.contains(&text.as_str()) => Some(text.clone()),
            _ => {
                let message = format!("{what} must be {}, not {}", suggest::listed(words.iter().copied(), 10), given(node));
                let nearest = if let Value::String(text) = &node.value { suggest::nearest(text, words.iter().copied()) } else { None };
                let complaint = self.report.error("bad-value", node.span, message);
                if let Some(name) = nearest {
                    complaint.help(format!("did you mean `{name}`?"));
                }
                None
            }
        }
    }

    /// A key that must be there.
    pub fn required<'n>(&mut self, node: &'n Node, key: &str, what: &str, at: Span) -> Option<&'n Entry> {
        let found = node.get(key);
        if found.is_none() {
            self.report.error("missing-key", at, format!("{what} needs `{key}`"));
        }
        found
    }
}

/// Whether a key is one of the policies that only a script entry can have.
pub fn is_policy(key: &str) -> bool {
    matches!(key, "retry" | "on_error")
}

/// A value with its sort: `the string "3"`.
pub fn given(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::String(text) => format!("the string \"{}\"", crate::yaml::shortened(text)),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::List(_) | Value::Map(_) => node.sort().to_owned(),
        Value::Int(_) | Value::Float(_) => node.shown(),
    }
}
