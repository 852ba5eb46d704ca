//! YAML 1.2 documents as a tree in which every value knows its place.

mod load;
mod scalar;

pub use load::load;

use crate::diagnostic::Span;

/// A document may have at most this many bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// Values may be nested at most this deep, literal data included.
pub const MOST_DEPTH: usize = 128;
/// A document may have at most this many values once its aliases are expanded.
pub const MOST_NODES: usize = 100_000;
/// Bytes of text in a document's keys and strings at most, once its aliases are expanded.
pub const MOST_TEXT: usize = 4 << 20;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written; an alias has the place of its anchor.
    pub span: Span,
    /// For a string whose lines stand in the file exactly as they read: where each of them is, in the string and in the file.
    pub lines: Vec<(usize, usize)>,
}

/// The core schema's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`; `yes` and `on` are strings.
    Bool(bool),
    /// An integer in the signed 64-bit range.
    Int(i64),
    /// A number with a fraction or an exponent, `.inf` and `.nan` included.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the author's order, each key once.
    Map(Vec<Entry>),
}

/// A key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// What sort of value it is, with its article.
    pub fn sort(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number with a fraction",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The value as a short text for messages.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Float(number) if number.is_nan() => ".nan".to_owned(),
            Value::Float(number) if number.is_infinite() => if *number > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
            Value::String(text) => shortened(text),
            _ => match self.to_json() {
                Ok(value) => shortened(&value.to_string()),
                Err(_) => self.sort().to_owned(),
            },
        }
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// The place of a number that JSON does not have.
    pub fn to_json(&self) -> Result<serde_json::Value, Span> {
        Ok(match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Float(value) => serde_json::Number::from_f64(*value).ok_or(self.span)?.into(),
            Value::String(value) => value.clone().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect::<Result<Vec<_>, _>>()?.into(),
            Value::Map(entries) => {
                let pairs = entries.iter().map(|entry| Ok((entry.key.clone(), entry.value.to_json()?))).collect::<Result<_, Span>>()?;
                serde_json::Value::Object(pairs)
            }
        })
    }

    /// Where a byte of the string stands in the file, if that is known.
    pub fn place_of(&self, at: usize) -> Option<usize> {
        let line = self.lines.partition_point(|(in_text, _)| *in_text <= at).checked_sub(1)?;
        self.lines.get(line).map(|(in_text, in_file)| in_file + (at - in_text))
    }

    /// The value under a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

/// A text cut to what a message can bear.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MOST).collect();
    format!("{cut}…")
}
