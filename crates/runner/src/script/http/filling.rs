//! The holes in a request template: `$args.path` for a value, `${args.path}` inside a text, `${secrets.name}` for a secret.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A value with holes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Filling {
    Literal(Value),
    Reference(Reference),
    Text(Vec<Part>),
    List(Vec<Filling>),
    Map(Vec<(String, Filling)>),
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Part {
    Text(String),
    Reference(Reference),
}

/// What the holes are filled with.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) args: &'a Map<String, Value>,
    pub(super) secrets: &'a Map<String, Value>,
}

/// `args` and what follows it, or `secrets` and a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Reference {
    /// As it was written, for messages.
    pub(super) text: String,
    pub(super) steps: Vec<Step>,
    /// Whether its one step names a secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) secret: bool,
}

/// One step of a path; an optional one gives null where there is nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) key: Key,
    pub(super) optional: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Key {
    Name(String),
    Index(usize),
}

impl Filling {
    /// Reads a value with holes.
    pub(super) fn parse(value: &Value) -> Result<Filling, String> {
        Ok(match value {
            Value::String(text) => Filling::text(text)?,
            Value::Array(items) => Filling::List(items.iter().map(Filling::parse).collect::<Result<_, _>>()?),
            Value::Object(map) => Filling::Map(map.iter().map(|(key, item)| Ok((key.clone(), Filling::parse(item)?))).collect::<Result<_, String>>()?),
            other => Filling::Literal(other.clone()),
        })
    }

    /// Reads a text with holes; one that is a single reference is the value itself.
    pub(super) fn text(text: &str) -> Result<Filling, String> {
        if let Some(rest) = text.strip_prefix("$$") {
            return if rest.starts_with('{') { Filling::parts(text) } else { Ok(Filling::Literal(Value::String(format!("${rest}")))) };
        }
        if let Some(path) = text.strip_prefix('$').filter(|path| path.starts_with(|each: char| each.is_ascii_alphabetic() || each == '_')) {
            // text after a reference makes the whole a literal, as in workflows
            match Reference::parse(path) {
                Ok(reference) => return Ok(Filling::Reference(reference)),
                Err(problem) if !path.contains(char::is_whitespace) => return Err(problem),
                Err(_) => {}
            }
        }
        if let Some(inner) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).filter(|inner| !inner.contains(['{', '}'])) {
            return Ok(Filling::Reference(Reference::parse(inner.trim())?));
        }
        Filling::parts(text)
    }

    fn parts(text: &str) -> Result<Filling, String> {
        let (mut rest, mut parts, mut plain) = (text, Vec::new(), String::new());
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                plain.push_str(&rest[..at]);
                plain.push('{');
                rest = &rest[at + 2..];
                continue;
            }
            plain.push_str(&rest[..at]);
            let end = rest[at..].find('}').ok_or_else(|| format!("`{}` does not end: a `}}` is missing", &rest[at..]))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Reference(Reference::parse(rest[at + 2..at + end].trim())?));
            rest = &rest[at + end + 1..];
        }
        plain.push_str(rest);
        if parts.is_empty() {
            return Ok(Filling::Literal(Value::String(plain)));
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Filling::Text(parts))
    }

    /// The value with the holes filled.
    pub(super) fn fill(&self, given: Given<'_>) -> Result<Value, String> {
        self.fill_as(given, &|text| text)
    }

    /// The same, with each value that goes into a text changed by `escape`.
    pub(super) fn fill_as(&self, given: Given<'_>, escape: &dyn Fn(String) -> String) -> Result<Value, String> {
        Ok(match self {
            Filling::Literal(value) => value.clone(),
            Filling::Reference(reference) => reference.follow(given)?,
            Filling::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Text(plain) => text.push_str(plain),
                        Part::Reference(reference) => text.push_str(&escape(plain(&reference.follow(given)?))),
                    }
                }
                Value::String(text)
            }
            Filling::List(items) => Value::Array(items.iter().map(|item| item.fill_as(given, escape)).collect::<Result<_, _>>()?),
            Filling::Map(entries) => {
                Value::Object(entries.iter().map(|(key, item)| Ok((key.clone(), item.fill_as(given, escape)?))).collect::<Result<_, String>>()?)
            }
        })
    }

    /// All references in it.
    pub(super) fn references<'a>(&'a self, found: &mut Vec<&'a Reference>) {
        match self {
            Filling::Literal(_) => {}
            Filling::Reference(reference) => found.push(reference),
            Filling::Text(parts) => found.extend(parts.iter().filter_map(|part| match part {
                Part::Reference(reference) => Some(reference),
                Part::Text(_) => None,
            })),
            Filling::List(items) => items.iter().for_each(|item| item.references(found)),
            Filling::Map(entries) => entries.iter().for_each(|(_, item)| item.references(found)),
        }
    }
}

/// A value inside a text: strings as they are, others as compact JSON.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Reference {
    fn parse(text: &str) -> Result<Reference, String> {
        let only = || {
            format!(
                "`{text}` is not possible here: a request template has only `$args.NAME`, `${{args.NAME}}` and `${{secrets.NAME}}`; compute the rest in the workflow"
            )
        };
        let (secret, mut rest) = match text.strip_prefix("secrets") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("args").ok_or_else(only)?),
        };
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (key, after) = if let Some(name) = rest.strip_prefix('.') {
                let end = name.find(|each: char| !each.is_alphanumeric() && each != '_' && each != '-').unwrap_or(name.len());
                (Key::Name(name[..end].to_owned()), &name[end..])
            } else if let Some(inner) = rest.strip_prefix('[') {
                let end = inner.find(']').ok_or_else(only)?;
                let key = inner[..end].trim();
                let quoted = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
                let key = match quoted {
                    Some(name) => Key::Name(name.to_owned()),
                    None => Key::Index(key.parse().map_err(|_| only())?),
                };
                (key, &inner[end + 1..])
            } else {
                return Err(only());
            };
            if key == Key::Name(String::new()) {
                return Err(only());
            }
            let optional = after.starts_with('?');
            rest = after.strip_prefix('?').unwrap_or(after);
            steps.push(Step { key, optional });
        }
        let one_name = || matches!(steps.as_slice(), [Step { key: Key::Name(_), optional: false }]);
        if secret && !one_name() {
            return Err(format!("`{text}` is not possible here: a secret is `${{secrets.NAME}}`, or `${{secrets[\"NAME\"]}}`"));
        }
        Ok(Reference { text: text.to_owned(), steps, secret })
    }

    /// The secret that it names.
    pub(super) fn secret(&self) -> Option<&str> {
        match self.steps.first() {
            Some(Step { key: Key::Name(name), .. }) if self.secret => Some(name),
            _ => None,
        }
    }

    fn follow(&self, given: Given<'_>) -> Result<Value, String> {
        if let Some(name) = self.secret() {
            return given.secrets.get(name).cloned().ok_or_else(|| format!("`{}`: the secret was not given", self.text));
        }
        let args = given.args;
        let Some((first, rest)) = self.steps.split_first() else { return Ok(Value::Object(args.clone())) };
        let mut at = match &first.key {
            Key::Name(name) => args.get(name),
            Key::Index(_) => None,
        };
        if at.is_none() && !first.optional {
            let names: Vec<&str> = args.keys().map(String::as_str).collect();
            return Err(format!("`{}`: no such argument; given: {}", self.text, if names.is_empty() { "none".to_owned() } else { names.join(", ") }));
        }
        for step in rest {
            let next = match (&step.key, at) {
                (Key::Name(name), Some(Value::Object(map))) => map.get(name),
                (Key::Index(index), Some(Value::Array(items))) => items.get(*index),
                _ => None,
            };
            if next.is_none() && !step.optional {
                return Err(format!(
                    "`{}`: there is no {}",
                    self.text,
                    match &step.key {
                        Key::Name(name) => name.clone(),
                        Key::Index(index) => format!("item {index}"),
                    }
                ));
            }
            at = next;
        }
        Ok(at.cloned().unwrap_or(Value::Null))
    }
}
