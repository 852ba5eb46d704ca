//! `if`: a condition and one or two branches.

use super::super::reader::Reader;
use super::super::typed::{If, Kind};
use crate::yaml::{Entry, Node};

/// Reads an `if` entry.
pub fn read(reader: &mut Reader<'_, '_>, node: &Node, key: &Entry) -> Kind {
    let condition = reader.condition(&key.value, "if");
    let then = match node.get("then") {
        Some(field) => reader.entries(&field.value, "`then`"),
        None => {
            reader.report.error("missing-key", key.key_span, "an `if` entry needs `then`").help("add `then:` with at least one entry");
            Vec::new()
        }
    };
    let otherwise = node.get("else").map(|field| reader.entries(&field.value, "`else`"));
    Kind::If(If { condition, then, otherwise })
}
